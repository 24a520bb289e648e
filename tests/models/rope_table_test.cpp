#include "models/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tensor/dtype.h"

namespace outrider {
namespace {

// Worked example of pi-policy.md 7: x = (1, 2, 3, 4), position 3.
TEST(RopeTable, rotates_the_worked_example) {
  const RopeTable table = RopeTable::make(4, 4, 10000, false);
  const float* c = table.cos(3, 1).row(0);
  const float* s = table.sin(3, 1).row(0);
  EXPECT_NEAR(1 * c[0] - 3 * s[0], -1.413353f, 1e-6);
  EXPECT_NEAR(2 * c[1] - 4 * s[1], 1.879118f, 1e-6);
  EXPECT_NEAR(3 * c[0] + 1 * s[0], -2.828857f, 1e-6);
  EXPECT_NEAR(4 * c[1] + 2 * s[1], 4.058192f, 1e-6);
}

TEST(RopeTable, position_zero_does_not_rotate) {
  const RopeTable table = RopeTable::make(1, 256, 10000, true);
  for (int j = 0; j < 128; ++j) {
    EXPECT_EQ(table.cos(0, 1).row(0)[j], 1);
    EXPECT_EQ(table.sin(0, 1).row(0)[j], 0);
  }
}

TEST(RopeTable, rounded_frequencies_are_bfloat16_values) {
  const RopeTable plain = RopeTable::make(801, 256, 10000, false),
                  rounded = RopeTable::make(801, 256, 10000, true);
  const float exact = static_cast<float>(std::pow(10000.0, -2.0 / 256));
  EXPECT_NEAR(rounded.cos(800, 1).row(0)[1], std::cos(800.0 * round_to_bf16(exact)), 1e-6);
  EXPECT_NEAR(plain.cos(800, 1).row(0)[1], std::cos(800.0 * exact), 1e-6);
  EXPECT_GT(std::abs(plain.cos(800, 1).row(0)[1] - rounded.cos(800, 1).row(0)[1]), 1e-2);
}

}  // namespace
}  // namespace outrider
