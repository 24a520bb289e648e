#include <iterator>

#include "tandem/machine.h"

namespace outrider::tandem {
namespace {

template <class Enum, size_t n>
const char* name_in(const char* const (&names)[n], Enum value) {
  const auto index = static_cast<size_t>(value);
  return index < n ? names[index] : "unknown";
}

}  // namespace

const char* phase_name(Phase phase) {
  static constexpr const char* kNames[] = {"joining", "ready",    "leading",
                                           "holding", "retrying", "unavailable"};
  return name_in(kNames, phase);
}
const char* leader_name(Leader leader) {
  static constexpr const char* kNames[] = {"nobody", "standby", "lead"};
  return name_in(kNames, leader);
}
const char* reason_name(Reason reason) {
  static constexpr const char* kNames[] = {
      "none",   "take_over", "take_over_proof", "lost",         "unsound",
      "silent", "deadline",  "row_holds",       "window_holds", "proving",
      "drops",  "forecast",  "mismatch",        "gave_up",      "stopped"};
  static_assert(std::size(kNames) == static_cast<size_t>(Reason::kCount));
  return name_in(kNames, reason);
}

}  // namespace outrider::tandem
