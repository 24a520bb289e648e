// The stock rule: who is in control. Doubt is control.
//
// Source: driving.md a.3, rows 1 to 8. Standstill (row 7) is no permission: the system may hold the
// brake, and then longitudinal_active or enabled says so.
#include <initializer_list>

#include "outrider/adapter.h"

extern "C" int outrider_stock_in_control(const outrider_engagement_v1* now) {
  if (now == nullptr || now->struct_size < sizeof *now) return 1;
  if (now->fresh != OUTRIDER_YES) return 1;
  for (const uint8_t sign :
       {now->enabled, now->active, now->lateral_active, now->longitudinal_active, now->aol_enabled,
        now->turn_signal, now->lane_change}) {
    if (sign != OUTRIDER_NO) return 1;
  }
  // Armed and paused resumes by itself, so "not steering now" is no permission. A car that cannot
  // run it must not be blocked by the flag for ever.
  return now->aol_armed != OUTRIDER_NO && now->aol_capable != OUTRIDER_NO ? 1 : 0;
}
