#include "base/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace outrider {
namespace {

TEST(MonotonicClock, never_goes_back_and_counts_nanoseconds) {
  const MonotonicClock clock;
  const int64_t before = clock.now_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const int64_t after = clock.now_ns();
  EXPECT_GE(after - before, 5'000'000);
  EXPECT_LT(after - before, 60'000'000'000);
}

TEST(ManualClock, moves_only_when_told) {
  ManualClock clock;
  EXPECT_EQ(clock.now_ns(), 0);
  clock.advance_ns(7);
  EXPECT_EQ(clock.now_ns(), 7);
}

TEST(Deadline, passes_at_its_nanosecond_and_not_before) {
  ManualClock clock;
  const Deadline due{10};
  clock.advance_ns(9);
  EXPECT_FALSE(due.passed(clock));
  clock.advance_ns(1);
  EXPECT_TRUE(due.passed(clock));
  EXPECT_FALSE(Deadline{}.passed(clock)) << "no deadline is never late";
}

}  // namespace
}  // namespace outrider
