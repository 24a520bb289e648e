// Two filters of the machine: the share of missed periods, and the forecast of answer times.
// Plain values, no clock; copied with the machine's state.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "tandem/limits.h"

namespace outrider::tandem {

// x += period / (time + period) * (min(dropped, 10) - x); the share is x / (1 + x). One dropped
// period gives 0.00495 at 20 Hz and 10 s, two at once 0.00985.
struct DropFilter {
  static constexpr int64_t kMost = 10;
  double x = 0;

  void put(const Limits& limits, int64_t dropped) noexcept {
    const double period = static_cast<double>(limits.period_ns);
    const double share = period / (static_cast<double>(limits.drop_time_ns) + period);
    x += share * (static_cast<double>(std::min(dropped, kMost)) - x);
  }
  bool beyond(const Limits& limits) const noexcept {
    return x / (1 + x) * 1e6 > static_cast<double>(limits.drop_limit_ppm);
  }
  bool operator==(const DropFilter&) const = default;
};

// Says that a tick will be late while every tick is still in time. The slope is the smaller one of
// the last four answers and of the last eight, so a step from one steady time to another rings for
// four answers and no longer: predict_ticks must be more than that. Late answers are not counted
// in.
struct LagForecast {
  static constexpr int64_t kShort = 4, kLong = 8;
  std::array<int64_t, kLong + 1> answers_ns{};  // ring
  int64_t n = 0, alarms = 0;                    // alarms: forecasts in a row beyond the hold point

  void put(const Limits& limits, int64_t answer_ns) noexcept {
    answers_ns[static_cast<size_t>(n % (kLong + 1))] = answer_ns;
    ++n;
    alarms = n > kLong && ahead_ns(limits) > limits.hold_ns ? alarms + 1 : 0;
  }
  // The last answer drawn on by predict_ahead_ticks; the answer itself when times do not rise.
  int64_t ahead_ns(const Limits& limits) const noexcept {
    const int64_t slope =
        std::min((back(0) - back(kShort)) / kShort, (back(0) - back(kLong)) / kLong);
    return back(0) + std::max<int64_t>(slope, 0) * limits.predict_ahead_ticks;
  }
  bool late_soon(const Limits& limits) const noexcept {
    return limits.predict_ticks > 0 && alarms >= limits.predict_ticks;
  }
  bool operator==(const LagForecast&) const = default;

 private:
  int64_t back(int64_t i) const noexcept {
    return answers_ns[static_cast<size_t>((n - 1 - i) % (kLong + 1))];
  }
};

}  // namespace outrider::tandem
