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
struct BlockQ4_K {
  uint8_t d[2], dmin[2];  // f16
  uint8_t scales[12];     // eight 6-bit scales and eight 6-bit minima, see q4_k_scale
  uint8_t q[128];         // per pair of sub-blocks 32 bytes: low nibbles 2p, high nibbles 2p + 1
};
struct BlockQ6_K {
  uint8_t ql[128];    // low four bits
  uint8_t qh[64];     // high two bits
  int8_t scales[16];  // one per 16 values
  uint8_t d[2];       // f16; value = d * scale * (q - 32)
};
static_assert(sizeof(BlockQ8_0) == 34 && sizeof(BlockQ4_0) == 18);
static_assert(sizeof(BlockQ4_K) == 144 && sizeof(BlockQ6_K) == 210);

struct ScaleMin {
  uint8_t scale, min;  // 0..63
};

// Scale and minimum of sub-block j (0..7) out of the twelve packed bytes.
inline ScaleMin q4_k_scale(const uint8_t* s, int j) {
  if (j < 4) return {uint8_t(s[j] & 63), uint8_t(s[j + 4] & 63)};
  return {uint8_t((s[j + 4] & 15) | ((s[j - 4] >> 6) << 4)),
          uint8_t((s[j + 4] >> 4) | ((s[j] >> 6) << 4))};
}

}  // namespace outrider
