#include "base/clock.h"

#include <ctime>

namespace outrider {

int64_t MonotonicClock::now_ns() const noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace outrider
