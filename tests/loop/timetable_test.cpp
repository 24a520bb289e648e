#include "loop/timetable.h"

#include <gtest/gtest.h>

namespace outrider::loop {
namespace {

TEST(Timetable, ticks_are_due_at_multiples_of_the_period_without_drift) {
  const Timetable t{1000, 1e9 / 60, 1};
  EXPECT_EQ(t.due_ns(0), 1000);
  EXPECT_EQ(t.due_ns(60), 1000 + 1000000000);
  // A day at 60 Hz: rounding the period to a nanosecond would have cost 1.7 ms.
  EXPECT_EQ(t.due_ns(60LL * 86400), 1000 + 86400LL * 1000000000);
}

TEST(Timetable, FC35_a_stall_skips_the_ticks_whose_deadline_has_passed) {
  const Timetable t{0, 1000, 900};
  EXPECT_EQ(t.first_open(5, 5000), 5);
  EXPECT_EQ(t.first_open(5, 5899), 5);
  EXPECT_EQ(t.first_open(5, 5900), 6) << "the deadline itself is late";
  EXPECT_EQ(t.first_open(5, 6000), 6);
  EXPECT_EQ(t.first_open(5, 8950), 9);
  EXPECT_EQ(t.first_open(5, 8899), 8);
  EXPECT_EQ(t.first_open(9, 3000), 9) << "never back";
}

TEST(Timetable, the_first_open_tick_is_the_first_for_every_time) {
  for (const double period : {1000.0, 333.333, 16666666.667}) {
    const Timetable t{123, period, static_cast<int64_t>(period * 0.92)};
    for (int64_t now = 0; now < static_cast<int64_t>(period * 12);
         now += static_cast<int64_t>(period / 37) + 1) {
      int64_t wanted = 2;
      while (t.end_ns(wanted) <= now) ++wanted;
      ASSERT_EQ(t.first_open(2, now), wanted) << period << " " << now;
    }
  }
}

}  // namespace
}  // namespace outrider::loop
