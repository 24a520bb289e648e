// What this machine can do at most, measured now: the roof every stage is compared with.
#pragma once
#include <optional>
#include <string_view>

#include "cli/output.h"

namespace outrider::cli {

struct Limits {
  struct Pair {
    double one = 0, all = 0;  // one thread, all threads; 0: not there on this CPU
  };
  Pair f32_gops, bf16_gops, int8_gops;  // 1e9 operations a second
  Pair read_gbs;                        // 1e9 bytes a second
};
// [setup] Takes about two seconds. Errors: kNoMemory.
Result<Limits> measure_limits(int n_threads);
Report limits_report(const std::optional<Limits>& limits);

// Peak of the kernels that a precision uses; 0 when unknown.
double peak_gops(const Limits& limits, std::string_view precision);

}  // namespace outrider::cli
