#include "models/flow_time.h"

#include <gtest/gtest.h>

#include <cmath>

namespace outrider {
namespace {

// Values of pi-policy.md 9.
TEST(FlowTimes, ten_steps_accumulate_in_float32_like_the_reference) {
  const std::vector<float> wanted = {1,
                                     0.899999976f,
                                     0.799999952f,
                                     0.699999928f,
                                     0.599999905f,
                                     0.499999911f,
                                     0.399999917f,
                                     0.299999923f,
                                     0.199999928f,
                                     0.099999927f};
  EXPECT_EQ(flow_times(10, false), wanted);
}

TEST(FlowTimes, exact_times_are_one_minus_k_over_n) {
  EXPECT_EQ(flow_times(4, true), (std::vector<float>{1, 0.75f, 0.5f, 0.25f}));
  EXPECT_EQ(flow_times(10, true)[1], static_cast<float>(0.9));
}

TEST(FlowTimes, one_step_starts_at_noise) {
  EXPECT_EQ(flow_times(1, false), std::vector<float>{1});
}

// Worked example of pi-policy.md 8: width 8, periods 0.004 0.04 0.4 4.
TEST(EmbedTime, matches_the_worked_example) {
  std::vector<float> out(8);
  embed_time(0.9f, out);
  // Fast periods turn the last bit of 0.9f into phase: 2 pi * 0.9f / 0.004 differs by 1571
  // * 2.4e-8.
  const float wanted[] = {0, 0, 1, 0.987688f, 1, -1, 0, 0.156434f};
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(out[static_cast<size_t>(i)], wanted[i], 4e-5) << i;
  embed_time(1.0f, out);
  const float at_one[] = {0, 0, 0, 1, 1, 1, -1, 0};
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(out[static_cast<size_t>(i)], at_one[i], 1e-6) << i;
}

TEST(EmbedTime, width_two_has_one_period) {
  std::vector<float> out(2);
  embed_time(0.001f, out);
  EXPECT_NEAR(out[0], std::sin(2 * M_PI * 0.001f / 0.004), 1e-6);
  EXPECT_NEAR(out[1], std::cos(2 * M_PI * 0.001f / 0.004), 1e-6);
}

}  // namespace
}  // namespace outrider
