#include "kernels/peak.h"

#include <gtest/gtest.h>

namespace outrider::test {
namespace {

TEST(MachineLimits, are_of_this_world) {
  const auto measured = measure_limits(1);
  ASSERT_TRUE(measured) << measured.error().message();
  const MachineLimits& m = measured.value();
  EXPECT_EQ(m.n_threads, 1);
  // No processor does more than 512 fused pairs a tick of 8 GHz in its vector unit; a loop that the
  // compiler had shortened would be above that. How slow it may be is nobody's business here.
  for (double gops : {m.one.f32_gops, m.one.bf16_gops, m.one.int8_gops}) {
    EXPECT_GT(gops, 0);
    EXPECT_LT(gops, 8192);
  }
  EXPECT_GE(m.one.bf16_gops, m.one.f32_gops);  // the better of two ways
  EXPECT_GE(m.one.int8_gops, m.one.f32_gops);
  EXPECT_GT(m.one.read_gbs, 0);
  EXPECT_LT(m.one.read_gbs, 2000);
  EXPECT_EQ(m.all.f32_gops, m.one.f32_gops);
}

}  // namespace
}  // namespace outrider::test
