#include "tandem/limits.h"

#include <cmath>
#include <iterator>

namespace outrider::tandem {
namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kHourMs = 3600e3;

using L = Limits;
constexpr LimitRow kRows[] = {
    {"period_ms", Unit::kMs, &L::period_ns, 50, 200, 1, 60000, "time between two ticks"},
    {"hold_ms", Unit::kMs, &L::hold_ns, 46, 180, 0.5, 60000,
     "without an answer of the lead by then the previous output is given again"},
    {"deadline_ms", Unit::kMs, &L::deadline_ns, 200, 800, 1, kHourMs,
     "a question to the lead unanswered for this long: the lead is lost"},
    {"engaged_max_age_ms", Unit::kMs, &L::engaged_max_age_ns, 150, 600, 1, kHourMs,
     "an older value of the port engaged counts as engaged"},
    {"standby_first_ticks", Unit::kTicks, &L::standby_first_ticks, 3, 2, 1, 1000,
     "good ticks of the standby in a row before the lead may take over"},
    {"standby_every_ticks", Unit::kTicks, &L::standby_every_ticks, 0, 0, 0, 1000,
     "while the lead leads the standby runs every so many ticks, in the time spent waiting; 0: "
     "never, its history is reset when it takes back"},
    {"stop_holds", Unit::kTicks, &L::stop_holds, 3, 1, 0, 1000,
     "failures of the standby in a row that the previous output covers; the next one stops"},
    {"settling_ticks", Unit::kTicks, &L::settling_ticks, 3, 1, 0, 1000,
     "first ticks after a take-over in which a held tick is forgiven"},
    {"proving_ticks", Unit::kTicks, &L::proving_ticks, 20, 5, 0, 1000,
     "up to this tick after a take-over one held tick hands back"},
    {"row_holds", Unit::kTicks, &L::row_holds, 5, 3, 1, 1000, "held ticks in a row that hand back"},
    {"window_holds", Unit::kTicks, &L::window_holds, 20, 10, 0, kMaxWindowHolds,
     "more held ticks than this within window_ms hand back"},
    {"window_ms", Unit::kMs, &L::window_ns, 10000, 30000, 1, kHourMs, "length of that window"},
    {"silent_holds", Unit::kTicks, &L::silent_holds, 2, 2, 0, 1000,
     "ticks in a row without any answer, late ones included, that make the lead lost; 0: only "
     "deadline_ms counts"},
    {"drop_limit_ppm", Unit::kPpm, &L::drop_limit_ppm, 7500, 50000, 1, 1000000,
     "share of missed periods (filtered) above which the lead hands back"},
    {"drop_time_ms", Unit::kMs, &L::drop_time_ns, 10000, 30000, 1, kHourMs,
     "time constant of that filter"},
    {"drop_first_ticks", Unit::kTicks, &L::drop_first_ticks, 10, 2, 0, 1000,
     "first ticks of all in which missed periods are forgiven"},
    {"predict_ticks", Unit::kTicks, &L::predict_ticks, 5, 5, 0, 1000,
     "forecasts in a row beyond hold_ms that hand back before a tick is late; 0: off"},
    {"predict_ahead_ticks", Unit::kTicks, &L::predict_ahead_ticks, 8, 4, 1, 100,
     "how far the trend of the answer times is drawn on"},
    {"return_ms", Unit::kMs, &L::return_ns, 42, 160, 0.5, 60000,
     "shadow answers must come within this before the lead may take over (again)"},
    {"return_ticks", Unit::kTicks, &L::return_ticks, 5, 2, 0, 1000, "how many of them in a row"},
    {"retry_quick_ms", Unit::kMs, &L::retry_quick_ns, 1000, 1000, 1, kHourMs,
     "wait after each of the first failures of a streak"},
    {"retry_quick_count", Unit::kCount, &L::retry_quick_count, 3, 3, 0, 1000,
     "how many failures are followed by the quick wait"},
    {"retry_ms", Unit::kMs, &L::retry_ns, 5000, 5000, 1, kHourMs,
     "wait after the next failure; doubles with each one"},
    {"retry_max_ms", Unit::kMs, &L::retry_max_ns, 60000, 60000, 1, 24 * kHourMs, "longest wait"},
    {"streak_ms", Unit::kMs, &L::streak_ns, 60000, 60000, 1, 24 * kHourMs,
     "a lead that was good for longer begins a new streak"},
    {"max_handbacks", Unit::kCount, &L::max_handbacks, 0, 0, 0, 1000000,
     "after so many hand-backs the standby stays; 0: no end"},
    {"keepalive_ms", Unit::kMs, &L::keepalive_ns, 10000, 10000, 1, kHourMs,
     "a lead that waits and was not heard of for this long is asked whether it is there"},
    {"ping_ms", Unit::kMs, &L::ping_ns, 2000, 5000, 1, kHourMs,
     "longest time that, or shadow work, may take before the lead counts as lost"},
    {"shadow_every_ticks", Unit::kTicks, &L::shadow_every_ticks, 0, 0, 0, 100000,
     "a lead that waits shadows every so many ticks; 0: keep-alive only"},
    {"history_ticks", Unit::kTicks, &L::history_ticks, 16, 1, 1, 1000,
     "recent inputs kept, and replayed to the lead before it takes over"},
    {"agree_ticks", Unit::kTicks, &L::agree_ticks, 0, 0, 0, 100000,
     "a lead whose shadow answers agreed for so many ticks in a row may take over while engaged; "
     "0: never while engaged"},
};

double ns_of_unit(Unit unit) {
  return unit == Unit::kMs ? kNsPerMs : 1;
}

}  // namespace

std::span<const LimitRow> limit_rows() {
  return kRows;
}

const LimitRow* find_limit(std::string_view name) {
  for (const LimitRow& row : kRows)
    if (name == row.name) return &row;
  return nullptr;
}

Result<Limits> preset_limits(std::string_view name) {
  const bool arm = name == "arm";
  if (!arm && name != "driving20")
    return make_error(Code::kInvalid, "preset is \"%.80s\", allowed are \"driving20\", \"arm\"",
                      std::string(name).c_str());
  Limits limits;
  for (const LimitRow& row : kRows)
    limits.*row.field =
        static_cast<int64_t>((arm ? row.arm : row.driving20) * ns_of_unit(row.unit));
  return limits;
}

Result<void> set_limit(Limits& limits, const LimitRow& row, double value) {
  const bool whole = row.unit == Unit::kMs || value == std::floor(value);
  if (!std::isfinite(value) || value < row.least || value > row.most || !whole)
    return make_error(Code::kInvalid, "%s is %g, allowed is %s %g..%g", row.name, value,
                      row.unit == Unit::kMs ? "a number" : "an integer", row.least, row.most);
  limits.*row.field = std::llround(value * ns_of_unit(row.unit));
  return {};
}

double limit_value(const Limits& limits, const LimitRow& row) {
  return static_cast<double>(limits.*row.field) / ns_of_unit(row.unit);
}

Result<void> check_limits(const Limits& limits) {
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) / kNsPerMs; };
  if (limits.hold_ns >= limits.period_ns)
    return make_error(Code::kInvalid, "hold_ms is %g, allowed is less than period_ms (%g)",
                      ms(limits.hold_ns), ms(limits.period_ns));
  if (limits.deadline_ns < limits.hold_ns)
    return make_error(Code::kInvalid, "deadline_ms is %g, allowed is at least hold_ms (%g)",
                      ms(limits.deadline_ns), ms(limits.hold_ns));
  if (limits.return_ns > limits.hold_ns)
    return make_error(Code::kInvalid, "return_ms is %g, allowed is at most hold_ms (%g)",
                      ms(limits.return_ns), ms(limits.hold_ns));
  if (limits.proving_ticks < limits.settling_ticks)
    return make_error(Code::kInvalid,
                      "proving_ticks is %lld, allowed is at least settling_ticks (%lld)",
                      static_cast<long long>(limits.proving_ticks),
                      static_cast<long long>(limits.settling_ticks));
  if (limits.retry_max_ns < limits.retry_ns)
    return make_error(Code::kInvalid, "retry_max_ms is %g, allowed is at least retry_ms (%g)",
                      ms(limits.retry_max_ns), ms(limits.retry_ns));
  return {};
}

}  // namespace outrider::tandem
