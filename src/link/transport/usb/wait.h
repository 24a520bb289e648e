// Waiting on a condition variable until a point in time of CLOCK_MONOTONIC in ns.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace outrider::link::usb {

inline int64_t now_ns() noexcept {
  return MonotonicClock().now_ns();
}

// In `slice_ns` from now, without running over.
inline int64_t soon_ns(int64_t slice_ns, int64_t but_not_after_ns = INT64_MAX) noexcept {
  const int64_t now = now_ns();
  const int64_t at = slice_ns > INT64_MAX - now ? INT64_MAX : now + slice_ns;
  return at < but_not_after_ns ? at : but_not_after_ns;
}

// True when `ready`. A point in the past still looks once.
template <class Ready>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                int64_t until_ns, Ready ready) {
  using std::chrono::nanoseconds;
  // std::chrono::steady_clock is CLOCK_MONOTONIC here. Far points are cut to stay representable.
  constexpr int64_t kFar = int64_t{1} << 60;
  const std::chrono::steady_clock::time_point at{nanoseconds(until_ns < kFar ? until_ns : kFar)};
  return changed.wait_until(lock, at, ready);
}

}  // namespace outrider::link::usb
