// Two filters of the machine: the share of missed periods, and the forecast of answer times.
// Plain values, no clock; copied with the machine's state.
#pragma once
#include <cstdint>

#include "tandem/limits.h"

namespace outrider::tandem {

// x += period / (time + period) * (min(dropped, 10) - x); the share is x / (1 + x). One dropped
// period gives 0.00495 at 20 Hz and 10 s, two at once 0.00985.
struct DropFilter {
  double x = 0;

  void put(const Limits& limits, int64_t dropped) noexcept {
    const double period = static_cast<double>(limits.period_ns);
    const double share = period / (static_cast<double>(limits.drop_time_ns) + period);
    x += share * (static_cast<double>(dropped < 10 ? dropped : 10) - x);
  }
  bool beyond(const Limits& limits) const noexcept {
    return x / (1 + x) * 1e6 > static_cast<double>(limits.drop_limit_ppm);
  }
  bool operator==(const DropFilter&) const = default;
};

// Level and slope of the answer times of ticks that were not late (Holt's linear forecast, weights
// 1/2 and 1/4): says that a tick will be late while every tick is still in time. `alarms` counts
// forecasts in a row that lie beyond the hold point; a slope that is not rising clears them.
struct LagForecast {
  int64_t level_ns = 0, slope_ns = 0;
  int64_t n = 0, alarms = 0;

  void put(const Limits& limits, int64_t answer_ns) noexcept {
    if (n == 0) {
      level_ns = answer_ns;
    } else {
      const int64_t before = level_ns;
      level_ns += (answer_ns - level_ns) / 2;
      slope_ns += (level_ns - before - slope_ns) / 4;
    }
    if (n < kWarmAnswers) ++n;
    alarms =
        n == kWarmAnswers && slope_ns > 0 && ahead_ns(limits) > limits.hold_ns ? alarms + 1 : 0;
  }
  int64_t ahead_ns(const Limits& limits) const noexcept {
    return level_ns + slope_ns * limits.predict_ahead_ticks;
  }
  bool late_soon(const Limits& limits) const noexcept {
    return limits.predict_ticks > 0 && alarms >= limits.predict_ticks;
  }
  bool operator==(const LagForecast&) const = default;

  static constexpr int64_t kWarmAnswers = 8;  // before that a slope means nothing
};

}  // namespace outrider::tandem
