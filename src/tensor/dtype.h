// Element types: names, block geometry, and conversion of single values and rows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace outrider {

// The numbers stay: a packed form may be kept on disk.
enum class DType : uint8_t {
  kF32, kF16, kBf16, kQ8_0, kQ4_0, kQ4_K, kQ6_K, kU8, kI8, kI32, kI64, kF64, kBool,
  kQ4_1, kQ5_0, kQ5_1, kQ2_K, kQ3_K, kQ5_K
};
inline constexpr int kDTypeCount = 19;
// Names of all types a weight matrix may have, for messages.
inline constexpr const char* kWeightTypes =
    "F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K";

struct DTypeInfo {
  std::string_view name;    // "F32", "Q4_K", ...
  uint32_t block_values;    // values per block along the contiguous dimension
  uint32_t block_bytes;
  bool can_be_weight;       // a matrix of it can enter a product
};
const DTypeInfo& dtype_info(DType type);

// Bytes of one row of n values; n must be a multiple of block_values (asserted).
size_t row_bytes(DType type, int64_t n_values);

float f16_to_f32(uint16_t half);
uint16_t f32_to_f16(float value);    // round to nearest even, overflow to infinity
float bf16_to_f32(uint16_t value);
uint16_t f32_to_bf16(float value);   // round to nearest even, NaN stays NaN
// Value rounded to bfloat16 and back.
float round_to_bf16(float value);

// Row of n values of `type` (those of kWeightTypes) to f32. n a multiple of the block.
// Source of the block layouts: public GGUF format documentation; golden blocks in the tests.
void dequantize_row(DType type, const void* src, float* dst, int64_t n_values);
// The other way. Q8_0: amax/127, round half away from zero, scale stored as f16.
void quantize_row(DType type, const float* src, void* dst, int64_t n_values);

}  // namespace outrider
