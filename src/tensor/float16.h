// Half and bfloat16 conversion, written without branches so that row loops vectorise. Integer
// arithmetic throughout except where a f32 addition does the rounding; neither direction ever forms
// a subnormal f32, so flush-to-zero modes change nothing.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

namespace outrider::detail {

inline float half_to_float(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7FFFu;
  // Normal: move the exponent from bias 15 to bias 127. Infinity and NaN (>= 0x7C00): to 255.
  const uint32_t rebias = magnitude >= 0x7C00u ? 224u << 23 : 112u << 23;
  const uint32_t normal = (magnitude << 13) + rebias;
  // Subnormal: m is put into the mantissa of 0.5, where one unit is 2^-24; taking 0.5 away leaves
  // m * 2^-24 exactly.
  const float subnormal = std::bit_cast<float>(0x3F000000u | magnitude) - 0.5f;
  const uint32_t bits = magnitude < 0x0400u ? std::bit_cast<uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(bits | sign);
}

inline uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  // Below 2^-14 the result is subnormal: adding 0.5 makes the f32 unit 2^-24, and the addition
  // itself rounds to nearest even.
  const float shifted = std::bit_cast<float>(magnitude < 0x38800000u ? magnitude : 0u) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(shifted) - 0x3F000000u;
  // From 2^-14: rebias, add half a unit less one plus the odd bit, cut 13 bits. A carry out of the
  // mantissa is the next exponent, and out of the last exponent infinity.
  const uint32_t normal = (magnitude - (112u << 23) + 0x0FFFu + ((magnitude >> 13) & 1u)) >> 13;
  uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x47800000u ? 0x7C00u : half;  // 65536 and above
  half = magnitude > 0x7F800000u ? 0x7E00u | ((magnitude >> 13) & 0x3FFu) : half;
  return uint16_t(half | sign);
}

inline float bfloat_to_float(uint16_t value) {
  return std::bit_cast<float>(uint32_t(value) << 16);
}

inline uint16_t float_to_bfloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40u;
  return uint16_t((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet_nan : rounded);
}

// Block fields sit at odd byte addresses.
inline uint16_t load_u16(const uint8_t* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
inline void store_u16(uint8_t* p, uint16_t value) {
  std::memcpy(p, &value, sizeof value);
}

}  // namespace outrider::detail
