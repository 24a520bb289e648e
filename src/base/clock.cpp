#include "base/clock.h"

#include <cerrno>
#include <ctime>

namespace outrider {

int64_t MonotonicClock::now_ns() const noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool sleep_until_ns(int64_t at_ns) noexcept {
  if (at_ns < 0) at_ns = 0;
  const timespec when = {static_cast<time_t>(at_ns / 1000000000),
                         static_cast<long>(at_ns % 1000000000)};
  return ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) != EINTR;
}

}  // namespace outrider
