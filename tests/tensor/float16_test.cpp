#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tensor/dtype.h"

namespace outrider {
namespace {

// Half by the definition of IEEE 754-2008 3.4, in double.
double half_by_definition(uint16_t h) {
  const int exponent = (h >> 10) & 31, mantissa = h & 0x3FF;
  const double sign = h & 0x8000 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  if (exponent == 31) return mantissa ? std::nan("") : sign * HUGE_VAL;
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

bool is_nan_half(uint16_t h) {
  return (h & 0x7FFF) > 0x7C00;
}

TEST(Float16, every_half_decodes_to_its_definition) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const double want = half_by_definition(uint16_t(h));
    const float got = f16_to_f32(uint16_t(h));
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << h;
    } else {
      ASSERT_EQ(double(got), want) << h;
    }
    ASSERT_EQ(std::signbit(got), (h & 0x8000) != 0) << h;
  }
}

TEST(Float16, every_half_survives_the_round_trip) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const uint16_t back = f32_to_f16(f16_to_f32(uint16_t(h)));
    // A signalling NaN becomes a quiet one; sign and payload stay.
    ASSERT_EQ(back, is_nan_half(uint16_t(h)) ? h | 0x0200 : h) << h;
  }
}

// Between each pair of neighbours: the middle goes to the even one, one f32 beside it to the
// nearer.
TEST(Float16, every_midpoint_rounds_to_even_and_its_neighbours_to_the_nearer) {
  for (uint32_t h = 0; h < 0x7C00; ++h) {
    const double low = half_by_definition(uint16_t(h));
    // The step above 65504 would be 65536, where infinity begins.
    const double high = h == 0x7BFF ? 65536.0 : half_by_definition(uint16_t(h + 1));
    const float middle = float((low + high) / 2);  // exact: one bit more than a half
    ASSERT_EQ(double(middle), (low + high) / 2);
    ASSERT_EQ(f32_to_f16(middle), h % 2 ? h + 1 : h) << h;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, -1.0f)), h) << h;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, HUGE_VALF)), h + 1) << h;
    ASSERT_EQ(f32_to_f16(-middle), 0x8000u | (h % 2 ? h + 1 : h)) << h;
  }
}

TEST(Float16, overflow_goes_to_infinity_and_underflow_to_signed_zero) {
  for (float x : {65520.0f, 65536.0f, 1e30f, std::numeric_limits<float>::max(), HUGE_VALF}) {
    EXPECT_EQ(f32_to_f16(x), 0x7C00) << x;
    EXPECT_EQ(f32_to_f16(-x), 0xFC00) << x;
  }
  for (float x : {0.0f, 1e-45f, 1e-38f, std::ldexp(1.0f, -25)}) {
    EXPECT_EQ(f32_to_f16(x), 0x0000) << x;
    EXPECT_EQ(f32_to_f16(-x), 0x8000) << x;
  }
}

TEST(Float16, no_nan_becomes_infinity) {
  for (uint32_t bits : {0x7F800001u, 0x7F801FFFu, 0x7FC00000u, 0x7FFFFFFFu, 0xFF800001u}) {
    const uint16_t half = f32_to_f16(std::bit_cast<float>(bits));
    EXPECT_TRUE(is_nan_half(half)) << std::hex << bits;
    EXPECT_EQ(half >> 15, bits >> 31) << std::hex << bits;
  }
}

TEST(Bfloat16, is_the_upper_half_of_a_float) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float f = bf16_to_f32(uint16_t(h));
    ASSERT_EQ(std::bit_cast<uint32_t>(f), h << 16);
    const bool nan = (h & 0x7FFF) > 0x7F80;
    ASSERT_EQ(f32_to_bf16(f), nan ? h | 0x40 : h) << h;
  }
}

TEST(Bfloat16, every_midpoint_rounds_to_even_and_its_neighbours_to_the_nearer) {
  for (uint32_t h = 0; h < 0x7F80; ++h) {
    const uint32_t middle = (h << 16) | 0x8000;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle)), h % 2 ? h + 1 : h) << h;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle - 1)), h) << h;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle + 1)), h + 1) << h;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle | 0x80000000u)), 0x8000u | (h + h % 2)) << h;
  }
}

TEST(Bfloat16, a_nan_with_a_low_payload_stays_nan) {
  const float nan = std::bit_cast<float>(0x7F800001u);  // upper half alone reads as infinity
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(nan))));
  EXPECT_TRUE(std::isnan(round_to_bf16(std::bit_cast<float>(0xFFFFFFFFu))));
}

TEST(Bfloat16, rounding_keeps_eight_bits_of_mantissa) {
  EXPECT_EQ(round_to_bf16(1.00390625f), 1.0f);       // 1 + 2^-8: tie, to even
  EXPECT_EQ(round_to_bf16(1.01171875f), 1.015625f);  // 1 + 3 * 2^-8: tie, to even
  EXPECT_EQ(round_to_bf16(-3.0f), -3.0f);
  EXPECT_EQ(round_to_bf16(3.395e38f), 3.3895314e38f);
  EXPECT_TRUE(std::isinf(round_to_bf16(std::numeric_limits<float>::max())));
}

}  // namespace
}  // namespace outrider
