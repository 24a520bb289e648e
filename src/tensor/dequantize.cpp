// Stored rows to f32. Products are formed as (d * scale) * q in f32, so every build and every
// kernel that dequantises gets the same bits.
#include <cstring>

#include "base/assert.h"
#include "tensor/dtype.h"
#include "tensor/float16.h"
#include "tensor/quant_blocks.h"

namespace outrider {
namespace {

using detail::half_to_float;
using detail::load_u16;

void from_f16(const uint8_t* src, float* dst, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = half_to_float(load_u16(src + 2 * i));
}

void from_bf16(const uint8_t* src, float* dst, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = detail::bfloat_to_float(load_u16(src + 2 * i));
}

void from_q8_0(const BlockQ8_0& block, float* dst) {
  const float d = half_to_float(load_u16(block.d));
  for (int i = 0; i < 32; ++i) dst[i] = d * float(block.q[i]);
}

void from_q4_0(const BlockQ4_0& block, float* dst) {
  const float d = half_to_float(load_u16(block.d));
  for (int j = 0; j < 16; ++j) {
    dst[j] = d * float((block.q[j] & 15) - 8);
    dst[j + 16] = d * float((block.q[j] >> 4) - 8);
  }
}

void from_q4_1(const BlockQ4_1& block, float* dst) {
  const float d = half_to_float(load_u16(block.d)), m = half_to_float(load_u16(block.m));
  for (int j = 0; j < 16; ++j) {
    dst[j] = d * float(block.q[j] & 15) + m;
    dst[j + 16] = d * float(block.q[j] >> 4) + m;
  }
}

void from_q5_0(const BlockQ5_0& block, float* dst) {
  const float d = half_to_float(load_u16(block.d));
  for (int i = 0; i < 32; ++i) dst[i] = d * float(five_bits(block.q, block.qh, i) - 16);
}

void from_q5_1(const BlockQ5_1& block, float* dst) {
  const float d = half_to_float(load_u16(block.d)), m = half_to_float(load_u16(block.m));
  for (int i = 0; i < 32; ++i) dst[i] = d * float(five_bits(block.q, block.qh, i)) + m;
}

void from_q2_k(const BlockQ2_K& block, float* dst) {
  const float d = half_to_float(load_u16(block.d)), dmin = half_to_float(load_u16(block.dmin));
  for (int i = 0; i < 256; ++i) {
    const uint8_t both = block.scales[i / 16];
    dst[i] = d * float(both & 15) * float(low_two_bits(block.q, i)) - dmin * float(both >> 4);
  }
}

void from_q3_k(const BlockQ3_K& block, float* dst) {
  const float d = half_to_float(load_u16(block.d));
  for (int i = 0; i < 256; ++i)
    dst[i] = d * float(q3_k_scale(block.scales, i / 16)) * float(q3_k_code(block, i));
}

void from_q5_k(const BlockQ5_K& block, float* dst) {
  const float d = half_to_float(load_u16(block.d)), dmin = half_to_float(load_u16(block.dmin));
  for (int i = 0; i < 256; ++i) {
    const ScaleMin sm = q4_k_scale(block.scales, i / 32);
    dst[i] = d * float(sm.scale) * float(q5_k_code(block, i)) - dmin * float(sm.min);
  }
}

void from_q4_k(const BlockQ4_K& block, float* dst) {
  const float d = half_to_float(load_u16(block.d));
  const float dmin = half_to_float(load_u16(block.dmin));
  for (int j = 0; j < 8; ++j) {
    const ScaleMin sm = q4_k_scale(block.scales, j);
    const float scale = d * float(sm.scale), min = dmin * float(sm.min);
    const uint8_t* q = block.q + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    for (int i = 0; i < 32; ++i) dst[32 * j + i] = scale * float((q[i] >> shift) & 15) - min;
  }
}

void from_q6_k(const BlockQ6_K& block, float* dst) {
  const float d = half_to_float(load_u16(block.d));
  for (int half = 0; half < 2; ++half) {
    const uint8_t* ql = block.ql + 64 * half;
    const uint8_t* qh = block.qh + 32 * half;
    // Quarter k holds 32 values: ql bytes of k % 2, their low or high nibble, bits 2k of qh.
    for (int k = 0; k < 4; ++k) {
      const int8_t* scales = block.scales + 8 * half + 2 * k;
      float* out = dst + 128 * half + 32 * k;
      for (int l = 0; l < 32; ++l) {
        const int low = (ql[l + 32 * (k % 2)] >> (4 * (k / 2))) & 15;
        const int high = (qh[l] >> (2 * k)) & 3;
        out[l] = d * float(scales[l / 16]) * float((low | (high << 4)) - 32);
      }
    }
  }
}

template <class Block, void (*kDecode)(const Block&, float*)>
void each_block(const uint8_t* src, float* dst, int64_t n, int64_t block_values) {
  for (int64_t i = 0; i < n; i += block_values, src += sizeof(Block))
    kDecode(*reinterpret_cast<const Block*>(src), dst + i);
}

}  // namespace

void dequantize_row(DType type, const void* src, float* dst, int64_t n_values) {
  OUTRIDER_ASSERT(n_values >= 0 && n_values % dtype_info(type).block_values == 0);
  if (n_values == 0) return;
  const auto* bytes = static_cast<const uint8_t*>(src);
  switch (type) {
    case DType::kF32:
      std::memcpy(dst, src, size_t(n_values) * sizeof(float));
      return;
    case DType::kF16:
      return from_f16(bytes, dst, n_values);
    case DType::kBf16:
      return from_bf16(bytes, dst, n_values);
    case DType::kQ8_0:
      return each_block<BlockQ8_0, from_q8_0>(bytes, dst, n_values, 32);
    case DType::kQ4_0:
      return each_block<BlockQ4_0, from_q4_0>(bytes, dst, n_values, 32);
    case DType::kQ4_K:
      return each_block<BlockQ4_K, from_q4_k>(bytes, dst, n_values, 256);
    case DType::kQ6_K:
      return each_block<BlockQ6_K, from_q6_k>(bytes, dst, n_values, 256);
    case DType::kQ4_1:
      return each_block<BlockQ4_1, from_q4_1>(bytes, dst, n_values, 32);
    case DType::kQ5_0:
      return each_block<BlockQ5_0, from_q5_0>(bytes, dst, n_values, 32);
    case DType::kQ5_1:
      return each_block<BlockQ5_1, from_q5_1>(bytes, dst, n_values, 32);
    case DType::kQ2_K:
      return each_block<BlockQ2_K, from_q2_k>(bytes, dst, n_values, 256);
    case DType::kQ3_K:
      return each_block<BlockQ3_K, from_q3_k>(bytes, dst, n_values, 256);
    case DType::kQ5_K:
      return each_block<BlockQ5_K, from_q5_k>(bytes, dst, n_values, 256);
    default:
      OUTRIDER_ASSERT(!"dequantize_row: type has no decoder");
  }
}

}  // namespace outrider
