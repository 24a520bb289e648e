// Time is handed in. Monotonic nanoseconds; wall-clock steps change nothing.
#pragma once
#include <cstdint>

namespace outrider {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() const noexcept = 0;
};

// CLOCK_MONOTONIC.
class MonotonicClock final : public Clock {
 public:
  int64_t now_ns() const noexcept override;
};

// For tests: stands still until it is told to move.
class ManualClock final : public Clock {
 public:
  int64_t now_ns() const noexcept override { return now_ns_; }
  void advance_ns(int64_t delta_ns) { now_ns_ += delta_ns; }

 private:
  int64_t now_ns_ = 0;
};

// [hot] Sleeps until a time of CLOCK_MONOTONIC. False when a signal came first.
bool sleep_until_ns(int64_t at_ns) noexcept;

struct Deadline {
  int64_t at_ns = INT64_MAX;
  bool passed(const Clock& clock) const noexcept { return clock.now_ns() >= at_ns; }
};

}  // namespace outrider
