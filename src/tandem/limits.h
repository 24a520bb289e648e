// Every number of the tandem, by name and unit, with the two presets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace outrider::tandem {

// Times in nanoseconds, shares in parts per million, the rest counts of ticks. What each one means
// is said once, in the table of limits.cpp; the reference page repeats it.
struct Limits {
  int64_t period_ns = 0, hold_ns = 0, deadline_ns = 0, engaged_max_age_ns = 0;
  int64_t standby_first_ticks = 0, standby_every_ticks = 0, stop_holds = 0;
  int64_t settling_ticks = 0, proving_ticks = 0;
  int64_t row_holds = 0, window_holds = 0, window_ns = 0, silent_holds = 0;
  int64_t drop_limit_ppm = 0, drop_time_ns = 0, drop_first_ticks = 0;
  int64_t predict_ticks = 0, predict_ahead_ticks = 0;
  int64_t return_ns = 0, return_ticks = 0;
  int64_t retry_quick_ns = 0, retry_quick_count = 0, retry_ns = 0, retry_max_ns = 0, streak_ns = 0;
  int64_t max_handbacks = 0;
  int64_t keepalive_ns = 0, ping_ns = 0, shadow_every_ticks = 0;
  int64_t history_ticks = 0, agree_ticks = 0;
  bool operator==(const Limits&) const = default;
};

enum class Unit : uint8_t { kMs, kTicks, kPpm, kCount };

struct LimitRow {
  const char* name;  // as in a configuration: "hold_ms"
  Unit unit;
  int64_t Limits::*field;
  double driving20, arm;  // in the unit
  double least, most;     // in the unit
  const char* help;
};

std::span<const LimitRow> limit_rows();
const LimitRow* find_limit(std::string_view name);

// Longest row of held ticks that a window can be asked to remember.
inline constexpr int64_t kMaxWindowHolds = 63;

// "driving20" (20 Hz driving loop; also the default) or "arm" (a policy that answers in chunks).
// Errors: kInvalid naming both.
Result<Limits> preset_limits(std::string_view name);

// Sets one limit from a number in its unit. Errors: kInvalid: value found, range allowed.
Result<void> set_limit(Limits& limits, const LimitRow& row, double value);

// A limit in its unit.
double limit_value(const Limits& limits, const LimitRow& row);

// Relations between limits. Errors: kInvalid naming both and what must hold.
Result<void> check_limits(const Limits& limits);

}  // namespace outrider::tandem
