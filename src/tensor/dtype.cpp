#include "tensor/dtype.h"

#include <bit>

#include "base/assert.h"
#include "tensor/float16.h"

static_assert(std::endian::native == std::endian::little, "model files are read in place");

namespace outrider {

namespace {
constexpr DTypeInfo kInfo[kDTypeCount] = {
    {"F32", 1, 4, true},      {"F16", 1, 2, true},     {"BF16", 1, 2, true},
    {"Q8_0", 32, 34, true},   {"Q4_0", 32, 18, true},  {"Q4_K", 256, 144, true},
    {"Q6_K", 256, 210, true}, {"U8", 1, 1, false},     {"I8", 1, 1, false},
    {"I32", 1, 4, false},     {"I64", 1, 8, false},    {"F64", 1, 8, false},
    {"BOOL", 1, 1, false},    {"Q4_1", 32, 20, true},  {"Q5_0", 32, 22, true},
    {"Q5_1", 32, 24, true},   {"Q2_K", 256, 84, true}, {"Q3_K", 256, 110, true},
    {"Q5_K", 256, 176, true},
};
static_assert(int(DType::kQ5_K) == kDTypeCount - 1);
}  // namespace

const DTypeInfo& dtype_info(DType type) {
  OUTRIDER_ASSERT(int(type) < kDTypeCount);
  return kInfo[int(type)];
}

size_t row_bytes(DType type, int64_t n_values) {
  const DTypeInfo& info = dtype_info(type);
  OUTRIDER_ASSERT(n_values >= 0);
  OUTRIDER_ASSERT(n_values % info.block_values == 0);
  return size_t(n_values) / info.block_values * info.block_bytes;
}

float f16_to_f32(uint16_t half) {
  return detail::half_to_float(half);
}
uint16_t f32_to_f16(float value) {
  return detail::float_to_half(value);
}
float bf16_to_f32(uint16_t value) {
  return detail::bfloat_to_float(value);
}
uint16_t f32_to_bf16(float value) {
  return detail::float_to_bfloat(value);
}
float round_to_bf16(float value) {
  return bf16_to_f32(f32_to_bf16(value));
}

}  // namespace outrider
