#include "driving/desire_pulse.h"

#include <gtest/gtest.h>

#include <vector>

namespace outrider::driving::test {
namespace {

TEST(DesirePulse, passes_what_rises_once_and_never_element_0) {
  DesirePulse pulse(3);
  std::vector<float> out(3);
  const auto step = [&](float a, float b, float c) {
    const float in[] = {a, b, c};
    pulse.step(in, out);
    return out;
  };
  EXPECT_EQ(step(1, 0, 0), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(step(1, 1, 0.5f), (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(step(1, 1, 1), (std::vector<float>{0, 0, 0})) << "0.5 to 1 is no step";
  EXPECT_EQ(step(0, 0, 0), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(step(0, 1, 2), (std::vector<float>{0, 1, 2}));
  pulse.reset();
  EXPECT_EQ(step(0, 1, 2), (std::vector<float>{0, 1, 2})) << "as at the start";
  pulse.reset();
  EXPECT_EQ(step(0, 0.99f, 0.9900001f), (std::vector<float>{0, 0, 0.9900001f}));
}

}  // namespace
}  // namespace outrider::driving::test
