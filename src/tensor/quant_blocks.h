// Block layouts of the quantised element types. All fields are bytes: blocks sit at any address.
// Source: public GGUF format documentation; hand-computed blocks in tests/tensor.
#pragma once
#include <cstdint>

namespace outrider {

struct BlockQ8_0 {
  uint8_t d[2];  // f16
  int8_t q[32];  // value = d * q
};
struct BlockQ4_0 {
  uint8_t d[2];   // f16
  uint8_t q[16];  // low nibble: value j, high nibble: value j + 16; value = d * (nibble - 8)
};
struct BlockQ4_1 {
  uint8_t d[2], m[2];  // f16
  uint8_t q[16];       // nibbles as in Q4_0; value = d * nibble + m
};
struct BlockQ5_0 {
  uint8_t d[2];   // f16
  uint8_t qh[4];  // bit i: the fifth bit of value i
  uint8_t q[16];  // nibbles as in Q4_0; value = d * (code - 16)
};
struct BlockQ5_1 {
  uint8_t d[2], m[2];  // f16
  uint8_t qh[4];
  uint8_t q[16];  // value = d * code + m
};
struct BlockQ2_K {
  uint8_t scales[16];     // one per 16 values: scale in the low, minimum in the high nibble
  uint8_t q[64];          // two bits; see low_two_bits
  uint8_t d[2], dmin[2];  // f16; value = d * scale * code - dmin * min
};
struct BlockQ3_K {
  uint8_t hmask[32];   // bit i / 32 of byte i % 32: the third bit of value i
  uint8_t q[64];       // the low two, as in Q2_K
  uint8_t scales[12];  // sixteen 6-bit scales, see q3_k_scale
  uint8_t d[2];        // f16; value = d * scale * (code - 4)
};
struct BlockQ4_K {
  uint8_t d[2], dmin[2];  // f16
  uint8_t scales[12];     // eight 6-bit scales and eight 6-bit minima, see q4_k_scale
  uint8_t q[128];         // per pair of sub-blocks 32 bytes: low nibbles 2p, high nibbles 2p + 1
};
struct BlockQ5_K {
  uint8_t d[2], dmin[2];  // f16
  uint8_t scales[12];     // as in Q4_K
  uint8_t qh[32];         // bit j of byte l: the fifth bit of value l of sub-block j
  uint8_t q[128];         // nibbles as in Q4_K
};
struct BlockQ6_K {
  uint8_t ql[128];    // low four bits
  uint8_t qh[64];     // high two bits
  int8_t scales[16];  // one per 16 values
  uint8_t d[2];       // f16; value = d * scale * (q - 32)
};
static_assert(sizeof(BlockQ8_0) == 34 && sizeof(BlockQ4_0) == 18);
static_assert(sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockQ2_K) == 84 && sizeof(BlockQ3_K) == 110);
static_assert(sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210);

struct ScaleMin {
  uint8_t scale, min;  // 0..63
};

// Scale and minimum of sub-block j (0..7) out of the twelve packed bytes.
inline ScaleMin q4_k_scale(const uint8_t* s, int j) {
  if (j < 4) return {uint8_t(s[j] & 63), uint8_t(s[j + 4] & 63)};
  return {uint8_t((s[j + 4] & 15) | ((s[j - 4] >> 6) << 4)),
          uint8_t((s[j + 4] >> 4) | ((s[j] >> 6) << 4))};
}

// Scale of sixteen values j (0..15), -32..31, out of the twelve packed bytes of Q3_K.
inline int q3_k_scale(const uint8_t* s, int j) {
  const int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
  return (low | (s[8 + j % 4] >> (2 * (j / 4)) & 3) << 4) - 32;
}

// The low two bits of value i (0..255) of Q2_K and Q3_K.
inline int low_two_bits(const uint8_t* q, int i) {
  return q[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
}

// Code of value i (0..31) of Q5_0 and Q5_1, 0..31.
inline int five_bits(const uint8_t* q, const uint8_t* qh, int i) {
  return (i < 16 ? q[i] & 15 : q[i - 16] >> 4) | (qh[i / 8] >> (i % 8) & 1) << 4;
}

// Code of value i (0..255) of Q3_K, -4..3.
inline int q3_k_code(const BlockQ3_K& block, int i) {
  return (low_two_bits(block.q, i) | (block.hmask[i % 32] >> (i / 32) & 1) << 2) - 4;
}

// Code of value i (0..255) of Q5_K, 0..31.
inline int q5_k_code(const BlockQ5_K& block, int i) {
  const int j = i / 32, l = i % 32;
  return (block.q[32 * (j / 2) + l] >> (4 * (j % 2)) & 15) | (block.qh[l] >> j & 1) << 4;
}

}  // namespace outrider
