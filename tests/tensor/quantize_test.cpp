#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tensor/dtype.h"

namespace outrider {
namespace {

constexpr double kHalfUlp = 0x1p-11;  // relative error of a scale stored as f16 (normal range)

std::vector<float> round_trip(DType type, const std::vector<float>& x) {
  std::vector<uint8_t> row(row_bytes(type, int64_t(x.size())));
  std::vector<float> back(x.size());
  quantize_row(type, x.data(), row.data(), int64_t(x.size()));
  dequantize_row(type, row.data(), back.data(), int64_t(x.size()));
  return back;
}

double largest(const std::vector<float>& x, size_t first, size_t n) {
  double amax = 0;
  for (size_t i = first; i < first + n; ++i) amax = std::max(amax, std::fabs(double(x[i])));
  return amax;
}

// Largest error a value in a block of magnitude amax may show, from the quantiser's own steps.
//   Q8_0  step d = amax/127: half a step, plus the f16 rounding of d times the value.
//   Q4_0  step d = amax/8: a full step where +8 is clamped to +7, plus the f16 rounding.
//   Q4_K  span <= 2 amax: step <= 2 amax/15. Rounding the scale to 6 bits moves the top code by at
//         most 15 * d/2 <= amax/63, the minimum by dmin/2 <= amax/126; half a step for the code.
//   Q6_K  step = amax/32: a full step at the clamp; rounding the scale to 127ths moves the extreme
//         by at most 32 * d/2 = amax/254.
// A subnormal f16 scale is off by up to 2^-25 whatever its size: times the largest product of
// codes.
double error_bound(DType type, double amax) {
  switch (type) {
    case DType::kF16:
      return amax * kHalfUlp + 0x1p-25;
    case DType::kBf16:
      return amax * 0x1p-8;
    case DType::kQ8_0:
      return amax / 254 * 1.001 + amax * kHalfUlp + 127 * 0x1p-25;
    case DType::kQ4_0:
      return amax / 8 + amax * 2 * kHalfUlp + 8 * 0x1p-25;
    case DType::kQ4_K:
      return amax / 15 + amax / 63 + amax / 126 + amax * 6 * kHalfUlp + 16 * 63 * 0x1p-25;
    // One step of 2 amax / 15 or / 31 from the lowest value: half of it, and both f16 roundings.
    case DType::kQ4_1:
      return amax / 15 + amax * 6 * kHalfUlp + 16 * 0x1p-24;
    case DType::kQ5_1:
      return amax / 31 + amax * 6 * kHalfUlp + 32 * 0x1p-24;
    case DType::kQ5_0:
      return amax / 16 + amax * 2 * kHalfUlp + 16 * 0x1p-25;
    // Four steps of 2 amax / 3; scale and minimum are rounded to 15ths of the largest.
    case DType::kQ2_K:
      return amax / 3 + 3 * amax * 2 / 3 / 30 + amax / 30 + amax * 6 * kHalfUlp + 60 * 0x1p-24;
    case DType::kQ3_K:
      return amax / 4 + 4 * amax / 4 / 62 + amax * 4 * kHalfUlp + 4 * 31 * 0x1p-25;
    case DType::kQ5_K:
      return amax / 31 + 31 * amax * 2 / 31 / 126 + amax / 126 + amax * 6 * kHalfUlp +
             32 * 63 * 0x1p-25;
    case DType::kQ6_K:
      return amax / 32 + amax / 254 + amax * 4 * kHalfUlp + 32 * 127 * 0x1p-25;
    default:
      return 0;
  }
}

std::vector<float> random_row(uint64_t seed, size_t n, float size) {
  std::mt19937_64 rng(seed);
  std::vector<float> x(n);
  for (float& v : x) v = size * (float(rng() >> 40) * 0x1p-23f - 1.0f);
  return x;
}

TEST(Quantize, round_trip_error_stays_inside_the_bound_of_each_type) {
  for (DType type : {DType::kF32, DType::kF16, DType::kBf16, DType::kQ8_0, DType::kQ4_0,
                     DType::kQ4_K, DType::kQ6_K, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                     DType::kQ2_K, DType::kQ3_K, DType::kQ5_K})
    for (float size : {1e-2f, 1.0f, 3000.0f})
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const auto x = random_row(seed, 512, size);
        const auto back = round_trip(type, x);
        for (size_t i = 0; i < x.size(); ++i) {
          // The Q4_K and Q6_K super-block shares one scale over 256 values.
          const size_t block = std::max<size_t>(dtype_info(type).block_values, 1);
          const double amax = largest(x, i / block * block, block);
          ASSERT_LE(std::fabs(double(x[i]) - back[i]), error_bound(type, amax))
              << dtype_info(type).name << " size " << size << " seed " << seed << " at " << i;
        }
      }
}

// A bound that is never approached proves little: typical errors must lie where theory puts them.
TEST(Quantize, more_bits_give_less_error) {
  const auto x = random_row(7, 4096, 1.0f);
  auto rms_error = [&](DType type) {
    const auto back = round_trip(type, x);
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += std::pow(double(x[i]) - back[i], 2);
    return std::sqrt(sum / double(x.size()));
  };
  // A uniform step s leaves s/sqrt(12): s = 1/127, 1/32, 2/15, 1/8 for values in [-1, 1).
  EXPECT_NEAR(rms_error(DType::kQ8_0), 1 / 127.0 / std::sqrt(12.0), 2e-4);
  EXPECT_NEAR(rms_error(DType::kQ6_K), 1 / 32.0 / std::sqrt(12.0), 1.5e-3);
  EXPECT_NEAR(rms_error(DType::kQ4_K), 2 / 15.0 / std::sqrt(12.0), 5e-3);
  EXPECT_NEAR(rms_error(DType::kQ4_0), 1 / 8.0 / std::sqrt(12.0), 7e-3);
}

TEST(Quantize, q8_0_rounds_halves_away_from_zero) {
  std::vector<float> x(32, 0.0f);
  x[0] = 127.0f;  // d = 1
  x[1] = 0.5f, x[2] = -0.5f, x[3] = 1.5f, x[4] = -2.5f, x[5] = 0.49999997f;
  uint8_t block[34];
  quantize_row(DType::kQ8_0, x.data(), block, 32);
  EXPECT_EQ(block[0], 0x00);
  EXPECT_EQ(block[1], 0x3C);
  const int8_t want[6] = {127, 1, -1, 2, -3, 0};
  EXPECT_EQ(0, std::memcmp(block + 2, want, 6));
}

TEST(Quantize, q8_0_keeps_codes_that_were_already_stored) {
  std::vector<uint8_t> block = {0x00, 0x2C};  // f16 2^-4
  for (int i = 0; i < 32; ++i) block.push_back(uint8_t(int8_t(i == 5 ? -127 : i * 7 - 100)));
  std::vector<float> x(32);
  dequantize_row(DType::kQ8_0, block.data(), x.data(), 32);
  std::vector<uint8_t> again(34);
  quantize_row(DType::kQ8_0, x.data(), again.data(), 32);
  EXPECT_EQ(again, block);
}

TEST(Quantize, the_extreme_value_of_q4_0_and_q6_k_is_hit_with_either_sign) {
  for (DType type : {DType::kQ4_0, DType::kQ6_K})
    for (float sign : {1.0f, -1.0f}) {
      std::vector<float> x(256, 0.0f);
      x[100] = 8.0f * sign;
      const auto back = round_trip(type, x);
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_NEAR(back[i], x[i], 8.0 * 2 * kHalfUlp) << dtype_info(type).name << ' ' << i;
    }
}

TEST(Quantize, zeros_stay_zero) {
  for (DType type : {DType::kF32, DType::kF16, DType::kBf16, DType::kQ8_0, DType::kQ4_0,
                     DType::kQ4_K, DType::kQ6_K})
    for (float v : round_trip(type, std::vector<float>(256, 0.0f))) EXPECT_EQ(v, 0.0f);
}

TEST(Quantize, tiny_huge_and_non_finite_values_are_defined) {
  const float inf = std::numeric_limits<float>::infinity();
  for (DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K})
    for (float v : {1e-45f, 1e-38f, 1e-30f, 3e38f, inf, -inf, std::nanf("")}) {
      std::vector<float> x(256, v);
      x[3] = -v, x[200] = 0.5f;
      const auto back = round_trip(type, x);  // sanitizers watch the casts
      if (std::isfinite(v) && v < 1e-20f) {
        EXPECT_EQ(back[0], 0.0f) << dtype_info(type).name << ' ' << v;
      }
    }
  // A NaN in a block counts as 0 and leaves its neighbours alone.
  for (DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K}) {
    std::vector<float> x(256);
    for (size_t i = 0; i < x.size(); ++i) x[i] = i % 2 ? 1.0f : -1.0f;
    x[9] = std::nanf("");
    const auto back = round_trip(type, x);
    EXPECT_NEAR(back[9], 0.0f, error_bound(type, 1)) << dtype_info(type).name;
    for (size_t i : {8u, 10u, 25u, 41u}) {
      EXPECT_NEAR(back[i], x[i], error_bound(type, 1)) << dtype_info(type).name << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace outrider
