// Blocks written byte by byte from the layout text, values worked out by hand.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "tensor/dtype.h"

namespace outrider {
namespace {

// Decodes from an odd address: blocks in files have no alignment.
std::vector<float> decode(DType type, const std::vector<uint8_t>& bytes, int64_t n) {
  EXPECT_EQ(row_bytes(type, n), bytes.size());
  std::vector<uint8_t> shifted(bytes.size() + 1);
  std::memcpy(shifted.data() + 1, bytes.data(), bytes.size());
  std::vector<float> out(size_t(n), -77.0f);
  dequantize_row(type, shifted.data() + 1, out.data(), n);
  return out;
}

TEST(DTypeInfo, block_sizes_are_those_of_the_format) {
  struct Row {
    DType type;
    const char* name;
    uint32_t values, bytes;
  };
  for (const Row& r : {Row{DType::kF32, "F32", 1, 4}, Row{DType::kF16, "F16", 1, 2},
                       Row{DType::kBf16, "BF16", 1, 2}, Row{DType::kQ8_0, "Q8_0", 32, 34},
                       Row{DType::kQ4_0, "Q4_0", 32, 18}, Row{DType::kQ4_K, "Q4_K", 256, 144},
                       Row{DType::kQ4_1, "Q4_1", 32, 20}, Row{DType::kQ5_0, "Q5_0", 32, 22},
                       Row{DType::kQ5_1, "Q5_1", 32, 24}, Row{DType::kQ2_K, "Q2_K", 256, 84},
                       Row{DType::kQ3_K, "Q3_K", 256, 110}, Row{DType::kQ5_K, "Q5_K", 256, 176},
                       Row{DType::kQ6_K, "Q6_K", 256, 210}, Row{DType::kI64, "I64", 1, 8},
                       Row{DType::kF64, "F64", 1, 8}, Row{DType::kBool, "BOOL", 1, 1}}) {
    EXPECT_EQ(dtype_info(r.type).name, r.name);
    EXPECT_EQ(dtype_info(r.type).block_values, r.values) << r.name;
    EXPECT_EQ(dtype_info(r.type).block_bytes, r.bytes) << r.name;
    EXPECT_EQ(row_bytes(r.type, 3 * int64_t(r.values)), 3u * r.bytes) << r.name;
    EXPECT_EQ(row_bytes(r.type, 0), 0u) << r.name;
  }
}

TEST(DTypeInfoDeathTest, a_row_that_is_no_multiple_of_the_block_is_our_mistake) {
  EXPECT_DEATH(row_bytes(DType::kQ8_0, 33), "block_values");
  EXPECT_DEATH(row_bytes(DType::kQ4_K, 32), "block_values");
  float x[32] = {};
  EXPECT_DEATH(dequantize_row(DType::kI32, x, x, 1), "no decoder");
  EXPECT_DEATH(quantize_row(DType::kF64, x, x, 1), "no encoder");
}

TEST(Dequantize, plain_types_decode_value_by_value) {
  EXPECT_EQ(decode(DType::kF32, {0, 0, 0x80, 0x3F, 0, 0, 0x40, 0xC0}, 2),
            (std::vector<float>{1.0f, -3.0f}));
  EXPECT_EQ(decode(DType::kF16, {0x00, 0x3C, 0x00, 0xC2, 0x01, 0x00}, 3),
            (std::vector<float>{1.0f, -3.0f, 0x1p-24f}));
  EXPECT_EQ(decode(DType::kBf16, {0x80, 0x3F, 0x40, 0xC0}, 2), (std::vector<float>{1.0f, -3.0f}));
}

TEST(Dequantize, q8_0_is_scale_times_signed_byte) {
  std::vector<uint8_t> block = {0x00, 0x38};  // f16 0.5
  for (int i = 0; i < 32; ++i) block.push_back(uint8_t(int8_t(i * 8 - 128)));
  const auto x = decode(DType::kQ8_0, block, 32);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(x[size_t(i)], 0.5f * float(i * 8 - 128)) << i;
}

TEST(Dequantize, q4_0_low_nibbles_come_first) {
  std::vector<uint8_t> block = {0x00, 0xC0};  // f16 -2
  for (int j = 0; j < 16; ++j) block.push_back(uint8_t(j | ((15 - j) << 4)));
  const auto x = decode(DType::kQ4_0, block, 32);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(x[size_t(j)], -2.0f * float(j - 8)) << j;
    EXPECT_EQ(x[size_t(j + 16)], -2.0f * float(7 - j)) << j;
  }
}

// Scales 1 2 3 4 33 34 35 63 and minima 5 6 7 8 17 18 48 63, packed by hand:
// byte j (0..3)  = scale j | (scale j+4 >> 4) << 6
// byte j+4       = min j   | (min j+4 >> 4) << 6
// byte j+8       = scale j+4 & 15 | (min j+4 & 15) << 4
TEST(Dequantize, q4_k_reads_six_bit_scales_and_minima) {
  std::vector<uint8_t> block = {0x00,       0x3C,       0x00,       0x38,  // d 1, dmin 0.5
                                1 | 2 << 6, 2 | 2 << 6, 3 | 2 << 6, 4 | 3 << 6,
                                5 | 1 << 6, 6 | 1 << 6, 7 | 3 << 6, 8 | 3 << 6,
                                1 | 1 << 4, 2 | 2 << 4, 3 | 0 << 4, 15 | 15 << 4};
  for (int i = 0; i < 128; ++i) block.push_back(uint8_t((i % 16) | ((15 - i % 16) << 4)));
  const float scale[8] = {1, 2, 3, 4, 33, 34, 35, 63}, min[8] = {5, 6, 7, 8, 17, 18, 48, 63};
  const auto x = decode(DType::kQ4_K, block, 256);
  for (int j = 0; j < 8; ++j)
    for (int i = 0; i < 32; ++i) {
      const int code = j % 2 ? 15 - i % 16 : i % 16;
      EXPECT_EQ(x[size_t(32 * j + i)], scale[j] * float(code) - 0.5f * min[j]) << j << ' ' << i;
    }
}

// Codes follow 13 * position mod 64, so every bit of ql and qh matters; scales differ everywhere.
TEST(Dequantize, q6_k_joins_low_and_high_bits) {
  std::array<int, 256> code;
  for (int i = 0; i < 256; ++i) code[size_t(i)] = 13 * i % 64;
  std::vector<uint8_t> block(210);
  for (int h = 0; h < 2; ++h)
    for (int l = 0; l < 32; ++l) {
      const int* v = code.data() + 128 * h + l;  // positions +0, +32, +64, +96
      block[size_t(64 * h + l)] = uint8_t((v[0] & 15) | ((v[64] & 15) << 4));
      block[size_t(64 * h + l + 32)] = uint8_t((v[32] & 15) | ((v[96] & 15) << 4));
      block[size_t(128 + 32 * h + l)] =
          uint8_t((v[0] >> 4) | ((v[32] >> 4) << 2) | ((v[64] >> 4) << 4) | ((v[96] >> 4) << 6));
    }
  for (int s = 0; s < 16; ++s) block[size_t(192 + s)] = uint8_t(int8_t(17 * s - 128));
  block[208] = 0x00, block[209] = 0x34;  // f16 0.25
  const auto x = decode(DType::kQ6_K, block, 256);
  for (int i = 0; i < 256; ++i) {
    const int scale = 17 * (i / 16) - 128;
    EXPECT_EQ(x[size_t(i)], 0.25f * float(scale * (code[size_t(i)] - 32))) << i;
  }
}

// Codes with every bit pattern at every place: the fifth bits lie in a word of their own.
TEST(Dequantize, q5_0_and_q5_1_take_the_fifth_bit_from_their_word) {
  int code[32];
  for (int i = 0; i < 32; ++i) code[i] = (7 * i + 3) % 32;
  std::vector<uint8_t> tail(20);
  for (int i = 0; i < 32; ++i) {
    if (code[i] >= 16) tail[size_t(i / 8)] |= uint8_t(1 << (i % 8));
    tail[size_t(4 + i % 16)] |= uint8_t((code[i] % 16) << (i < 16 ? 0 : 4));
  }
  std::vector<uint8_t> zero = {0x00, 0xC0}, one = {0x00, 0xC0, 0x00, 0x49};  // f16 -2; 10
  zero.insert(zero.end(), tail.begin(), tail.end());
  one.insert(one.end(), tail.begin(), tail.end());
  const auto x = decode(DType::kQ5_0, zero, 32), y = decode(DType::kQ5_1, one, 32);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(x[size_t(i)], -2.0f * float(code[i] - 16)) << i;
    EXPECT_EQ(y[size_t(i)], -2.0f * float(code[i]) + 10.0f) << i;
  }
}

TEST(Dequantize, q4_1_adds_its_minimum) {
  std::vector<uint8_t> block = {0x00, 0x38, 0x00, 0xC2};  // d 0.5, m -3
  for (int j = 0; j < 16; ++j) block.push_back(uint8_t(j | ((15 - j) << 4)));
  const auto x = decode(DType::kQ4_1, block, 32);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(x[size_t(j)], 0.5f * float(j) - 3.0f) << j;
    EXPECT_EQ(x[size_t(j + 16)], 0.5f * float(15 - j) - 3.0f) << j;
  }
}

// The loops of the format's text: halves of 128, then pairs of bits, then sixteen values a scale.
TEST(Dequantize, q2_k_walks_halves_then_bit_pairs) {
  std::vector<uint8_t> block(84);
  for (size_t i = 0; i < 16; ++i) block[i] = uint8_t((i + 1) % 16 | ((3 * i + 2) % 16) << 4);
  for (size_t i = 0; i < 64; ++i) block[16 + i] = uint8_t(37 * i + 11);
  block[80] = 0x00, block[81] = 0x38;  // d 0.5
  block[82] = 0x00, block[83] = 0x34;  // dmin 0.25
  const auto x = decode(DType::kQ2_K, block, 256);
  size_t at = 0, scale = 0;
  for (size_t half = 0; half < 2; ++half)
    for (int shift = 0; shift < 8; shift += 2)
      for (size_t part = 0; part < 2; ++part, ++scale)
        for (size_t l = 0; l < 16; ++l, ++at) {
          const int code = block[16 + 32 * half + 16 * part + l] >> shift & 3;
          ASSERT_EQ(x[at], 0.5f * float((scale + 1) % 16) * float(code) -
                               0.25f * float((3 * scale + 2) % 16))
              << at;
        }
}

// Scales -32, -27, ..., 31 (six bits), packed as the format's text says.
TEST(Dequantize, q3_k_reads_six_bit_scales_and_the_mask_of_third_bits) {
  std::vector<uint8_t> block(110);
  int scale[16];
  for (int j = 0; j < 16; ++j) {
    const int six = (5 * j * j + 13 * j) % 64;
    scale[j] = six - 32;
    block[size_t(96 + j % 8)] |= uint8_t((six & 15) << (j < 8 ? 0 : 4));
    block[size_t(104 + j % 4)] |= uint8_t((six >> 4) << (2 * (j / 4)));
  }
  for (size_t i = 0; i < 32; ++i) block[i] = uint8_t(73 * i + 5);
  for (size_t i = 0; i < 64; ++i) block[32 + i] = uint8_t(41 * i + 7);
  block[108] = 0x00, block[109] = 0x34;  // f16 0.25
  const auto x = decode(DType::kQ3_K, block, 256);
  size_t at = 0;
  int mask = 1, j = 0;
  for (size_t half = 0; half < 2; ++half)
    for (int shift = 0; shift < 8; shift += 2, mask <<= 1)
      for (size_t part = 0; part < 2; ++part, ++j)
        for (size_t l = 16 * part; l < 16 * part + 16; ++l, ++at) {
          const int code = (block[32 + 32 * half + l] >> shift & 3) - (block[l] & mask ? 0 : 4);
          ASSERT_EQ(x[at], 0.25f * float(scale[j]) * float(code)) << at;
        }
}

TEST(Dequantize, q5_k_is_q4_k_with_a_bit_of_each_sub_block_in_qh) {
  std::vector<uint8_t> block = {0x00,       0x3C,       0x00,       0x38,  // d 1, dmin 0.5
                                1 | 2 << 6, 2 | 2 << 6, 3 | 2 << 6, 4 | 3 << 6,
                                5 | 1 << 6, 6 | 1 << 6, 7 | 3 << 6, 8 | 3 << 6,
                                1 | 1 << 4, 2 | 2 << 4, 3 | 0 << 4, 15 | 15 << 4};
  for (int i = 0; i < 32; ++i) block.push_back(uint8_t(59 * i + 1));
  for (int i = 0; i < 128; ++i) block.push_back(uint8_t(31 * i + 9));
  const float scale[8] = {1, 2, 3, 4, 33, 34, 35, 63}, min[8] = {5, 6, 7, 8, 17, 18, 48, 63};
  const auto x = decode(DType::kQ5_K, block, 256);
  for (int j = 0; j < 8; ++j)
    for (int i = 0; i < 32; ++i) {
      const int nibble = block[size_t(48 + j / 2 * 32 + i)] >> (j % 2 ? 4 : 0) & 15;
      const int code = nibble + (block[size_t(16 + i)] & 1 << j ? 16 : 0);
      ASSERT_EQ(x[size_t(32 * j + i)], scale[j] * float(code) - 0.5f * min[j]) << j << ' ' << i;
    }
}

TEST(Dequantize, rows_of_several_blocks_use_each_block_s_own_scale) {
  for (DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K, DType::kQ4_1,
                     DType::kQ5_0, DType::kQ5_1, DType::kQ2_K, DType::kQ3_K, DType::kQ5_K}) {
    const int64_t n = dtype_info(type).block_values;
    std::vector<float> x(size_t(3 * n));
    for (int64_t i = 0; i < 3 * n; ++i) x[size_t(i)] = float(i / n + 1) * (i % 2 ? 1.0f : -1.0f);
    std::vector<uint8_t> row(row_bytes(type, 3 * n)), block(row_bytes(type, n));
    quantize_row(type, x.data(), row.data(), 3 * n);
    std::vector<float> whole(x.size()), part(static_cast<size_t>(n));
    dequantize_row(type, row.data(), whole.data(), 3 * n);
    for (int64_t b = 0; b < 3; ++b) {
      quantize_row(type, x.data() + b * n, block.data(), n);
      dequantize_row(type, block.data(), part.data(), n);
      EXPECT_EQ(0, std::memcmp(part.data(), whole.data() + b * n, part.size() * sizeof(float)))
          << dtype_info(type).name << " block " << b;
    }
  }
}

}  // namespace
}  // namespace outrider
