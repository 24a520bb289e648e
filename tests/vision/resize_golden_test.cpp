// The recorded resize cases of the reference policy (golden/openpi-preproc/resize.safetensors).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "safetensors/safetensors.h"
#include "vision/resize.h"

namespace outrider {
namespace {

constexpr int kCases = 8;

class ResizeGolden : public testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("OUTRIDER_SHARED");
    const std::string root = shared ? shared : OUTRIDER_SOURCE_DIR "/../shared";
    const std::string path = root + "/golden/openpi-preproc/resize.safetensors";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no recorded cases: " << path;
    auto file = SafeTensorsFile::open(path.c_str());
    ASSERT_TRUE(file) << file.error().message();
    file_ = std::move(file.value());
  }

  // [height, width, 3]
  const SafeTensor& picture(int i, const char* name) const {
    const SafeTensor* tensor = file_.tensor(std::to_string(i) + "." + name);
    EXPECT_NE(tensor, nullptr) << i << "." << name;
    EXPECT_EQ(tensor->shape.size(), 3u);
    return *tensor;
  }

  void expect_equal(ResizeRule rule, const char* name) const {
    for (int i = 0; i < kCases; ++i) {
      const SafeTensor &in = picture(i, "in"), &expected = picture(i, name);
      auto made = Resizer::make(rule, int(in.shape[1]), int(in.shape[0]), int(expected.shape[1]),
                                int(expected.shape[0]));
      ASSERT_TRUE(made) << made.error().message();
      std::vector<uint8_t> out(expected.n_bytes, 0xa5);
      made.value().run(reinterpret_cast<const uint8_t*>(in.data), out.data());
      const auto* levels = reinterpret_cast<const uint8_t*>(expected.data);
      EXPECT_EQ(out, std::vector<uint8_t>(levels, levels + expected.n_bytes)) << "case " << i;
    }
  }

  SafeTensorsFile file_;
};

TEST_F(ResizeGolden, pil_is_met_bit_for_bit) {
  expect_equal(ResizeRule::kPil, "pil_u8");
}

TEST_F(ResizeGolden, jax_is_met_bit_for_bit) {
  expect_equal(ResizeRule::kJax, "jax_u8");
}

TEST_F(ResizeGolden, torch_is_met_within_the_rounding_of_positions_and_blend) {
  for (int i = 0; i < kCases; ++i) {
    const SafeTensor &in = picture(i, "in"), &expected = picture(i, "torch_f32");
    std::vector<float> out(expected.n_bytes / sizeof(float), 9.0f), recorded(out.size());
    std::memcpy(recorded.data(), expected.data, expected.n_bytes);
    ASSERT_TRUE(resize_torch(reinterpret_cast<const uint8_t*>(in.data), int(in.shape[1]),
                             int(in.shape[0]), out.data(), int(expected.shape[1]),
                             int(expected.shape[0])));
    // The reference may fuse multiply and subtract where we round twice: a position differs by half
    // a unit of the side, 2^-24 * side, and neighbours differ by at most 2, on each of two axes. A
    // blend has eight rounded steps besides, of values up to 1: half a unit of 2^-23 each, each
    // way.
    const double side = double(std::max(in.shape[0], in.shape[1]));
    const double tolerance = 2 * 2 * side * 0x1p-24 + 8 * 0x1p-23;
    for (size_t k = 0; k < out.size(); ++k) {
      ASSERT_NEAR(out[k], recorded[k], tolerance) << "case " << i << " value " << k;
    }
  }
}

}  // namespace
}  // namespace outrider
