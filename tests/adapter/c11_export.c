/* The same adapter as a shared object: OUTRIDER_ADAPTER_SYMBOL. BROKEN: its rule forgets that a
 * car which is enabled is in control. */
#include "outrider/adapter.h"

void c11_adapter(outrider_adapter_v1* out);

#ifdef BROKEN
static int forgetful(void* self, const outrider_engagement_v1* now) {
  outrider_engagement_v1 seen = *now;
  (void)self;
  seen.enabled = OUTRIDER_NO;
  return outrider_stock_in_control(&seen);
}
#endif

OUTRIDER_API const outrider_adapter_v1* outrider_adapter(void) {
  static outrider_adapter_v1 adapter;
  c11_adapter(&adapter);
#ifdef BROKEN
  adapter.in_control = forgetful;
#endif
  return &adapter;
}
