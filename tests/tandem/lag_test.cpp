// The two filters by numbers.
#include "tandem/lag.h"

#include "tandem/rig.h"

namespace outrider::tandem::test {
namespace {

double share(const DropFilter& f) {
  return f.x / (1 + f.x);
}

TEST(TandemLag, the_drop_filter_has_the_numbers_of_the_driving_stack) {
  const Limits l = driving();
  DropFilter one, two, ten, more;
  one.put(l, 1);
  two.put(l, 2);
  ten.put(l, 10);
  more.put(l, 11);
  EXPECT_NEAR(share(one), 0.00495, 0.00001);
  EXPECT_NEAR(share(two), 0.00985, 0.00001);
  EXPECT_NEAR(ten.x, 10 * 0.05 / 10.05, 1e-12);
  EXPECT_EQ(ten, more) << "more than ten count as ten";
  DropFilter nine;
  nine.put(l, 9);
  EXPECT_NE(nine, ten);
  // 10 s later a drop has faded to 1/e.
  const double at_first = one.x;
  for (int i = 0; i < 200; ++i) one.put(l, 0);
  EXPECT_NEAR(one.x / at_first, 0.3689, 0.0005);
  EXPECT_FALSE(DropFilter{}.beyond(l));
}

TEST(TandemLag, the_drop_limit_itself_is_allowed) {
  Limits l = driving();
  DropFilter half;
  half.x = 1;  // a share of 0.5
  l.drop_limit_ppm = 500000;
  EXPECT_FALSE(half.beyond(l));
  l.drop_limit_ppm = 499999;
  EXPECT_TRUE(half.beyond(l));
}

LagForecast after(const Limits& l, std::initializer_list<int64_t> answers_ms) {
  LagForecast f;
  for (const int64_t ms : answers_ms) f.put(l, ms * kMs);
  return f;
}

TEST(TandemLag, the_forecast_draws_the_smaller_slope_of_four_and_eight_answers_on) {
  const Limits l = driving();  // eight ticks ahead
  // Four answers back 24, eight back 12: slopes 2 and 2.5.
  EXPECT_EQ(after(l, {12, 15, 15, 15, 24, 15, 15, 15, 32}).ahead_ns(l), (32 + 8 * 2) * kMs);
  // Four back 8, eight back 16: slopes 6 and 2.
  EXPECT_EQ(after(l, {16, 1, 1, 1, 8, 1, 1, 1, 32}).ahead_ns(l), (32 + 8 * 2) * kMs);
  // Neighbours of those four do not count.
  EXPECT_EQ(after(l, {16, 40, 40, 40, 8, 40, 40, 40, 32}).ahead_ns(l), (32 + 8 * 2) * kMs);
  // Falling: the answer itself.
  EXPECT_EQ(after(l, {40, 1, 1, 1, 36, 1, 1, 1, 32}).ahead_ns(l), 32 * kMs);
  // A tenth answer pushes the first one out.
  EXPECT_EQ(after(l, {99, 12, 15, 15, 15, 24, 15, 15, 15, 32}).ahead_ns(l), (32 + 8 * 2) * kMs);
}

TEST(TandemLag, an_alarm_needs_nine_answers_and_a_forecast_beyond_the_hold_point) {
  Limits l = driving();
  l.predict_ticks = 2;
  LagForecast f;
  EXPECT_EQ(f.alarms, 0) << "before the first answer";
  for (int64_t i = 0; i < 8; ++i) f.put(l, (20 + 4 * i) * kMs);
  EXPECT_EQ(f.alarms, 0) << "eight answers have no slope of eight";
  f.put(l, 52 * kMs);
  EXPECT_EQ(f.alarms, 1);
  EXPECT_FALSE(f.late_soon(l)) << "one is not two";
  f.put(l, 56 * kMs);
  EXPECT_EQ(f.alarms, 2);
  EXPECT_TRUE(f.late_soon(l));
  l.predict_ticks = 0;
  EXPECT_FALSE(f.late_soon(l)) << "off";
  l.predict_ticks = 1;
  EXPECT_TRUE(f.late_soon(l));
  f.put(l, 1 * kMs);
  EXPECT_EQ(f.alarms, 0) << "in a row";
}

TEST(TandemLag, a_forecast_of_the_hold_point_itself_is_in_time) {
  Limits l = driving();
  LagForecast f;
  for (int i = 0; i < 9; ++i) f.put(l, l.hold_ns);
  EXPECT_EQ(f.alarms, 0);
  f.put(l, l.hold_ns + 1);
  EXPECT_EQ(f.alarms, 1);
}

}  // namespace
}  // namespace outrider::tandem::test
