// f32 rows to stored rows.
//
// Values should be finite. In block types a NaN counts as 0 and an infinity as the largest float;
// scales are f16, so a block whose largest magnitude is beyond 65504 times its largest code decodes
// to infinities. Q8_0 is fixed by the format's usage; the 4- and 6-bit quantisers below are
// plain: one pass for the range, one for the codes, always against the scale as it is stored.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "tensor/dtype.h"
#include "tensor/float16.h"
#include "tensor/quant_blocks.h"

namespace outrider {
namespace {

using detail::float_to_half;
using detail::half_to_float;
using detail::store_u16;

float tame(float x) {
  if (std::isnan(x)) return 0;
  return std::clamp(x, -FLT_MAX, FLT_MAX);
}

// 1/d, or 0 where that would not be a finite factor.
float inverse(float d) {
  const float r = d != 0 ? 1.0f / d : 0.0f;
  return std::isfinite(r) ? r : 0.0f;
}

// Nearest code to x, halves away from zero, within [low, high].
int nearest(float x, int low, int high) {
  return int(std::round(std::clamp(tame(x), float(low), float(high))));
}

// The value of largest magnitude, with its sign; the first one of equals.
float extreme(const float* x, int n) {
  float best = 0;
  for (int i = 0; i < n; ++i)
    if (const float v = tame(x[i]); std::fabs(v) > std::fabs(best)) best = v;
  return best;
}

// d = amax / 127 in f32; codes use the f32 inverse, the file holds d as f16.
void to_q8_0(const float* x, BlockQ8_0& block) {
  const float d = std::fabs(extreme(x, 32)) / 127.0f;
  const float inv = inverse(d);
  store_u16(block.d, float_to_half(d));
  for (int i = 0; i < 32; ++i) block.q[i] = int8_t(nearest(tame(x[i]) * inv, -127, 127));
}

// The code -8 has no positive partner, so the value of largest magnitude gets it, whatever its
// sign: d = extreme / -8.
void to_q4_0(const float* x, BlockQ4_0& block) {
  const uint16_t d = float_to_half(extreme(x, 32) / -8.0f);
  const float inv = inverse(half_to_float(d));
  store_u16(block.d, d);
  for (int j = 0; j < 16; ++j) {
    const int low = nearest(tame(x[j]) * inv, -8, 7) + 8;
    const int high = nearest(tame(x[j + 16]) * inv, -8, 7) + 8;
    block.q[j] = uint8_t(low | (high << 4));
  }
}

// Lowest and highest value.
struct Span {
  float low, high;
};
Span span_of(const float* x, int n) {
  Span s{tame(x[0]), tame(x[0])};
  for (int i = 1; i < n; ++i) s = {std::min(s.low, tame(x[i])), std::max(s.high, tame(x[i]))};
  return s;
}

// d steps from the lowest value, which is stored as it is.
template <class Block>
float to_span(const float* x, int n_codes, Block& block) {
  const Span s = span_of(x, 32);
  const uint16_t d = float_to_half(s.high / float(n_codes - 1) - s.low / float(n_codes - 1));
  store_u16(block.d, d);
  store_u16(block.m, float_to_half(s.low));
  return inverse(half_to_float(d));
}

void to_q4_1(const float* x, BlockQ4_1& block) {
  const float inv = to_span(x, 16, block), m = half_to_float(detail::load_u16(block.m));
  for (int j = 0; j < 16; ++j) {
    const int low = nearest((tame(x[j]) - m) * inv, 0, 15);
    const int high = nearest((tame(x[j + 16]) - m) * inv, 0, 15);
    block.q[j] = uint8_t(low | (high << 4));
  }
}

void put_five_bits(uint8_t* q, uint8_t* qh, int i, int code) {
  q[i % 16] |= uint8_t((code & 15) << (4 * (i / 16)));
  qh[i / 8] |= uint8_t((code >> 4) << (i % 8));
}

void to_q5_0(const float* x, BlockQ5_0& block) {
  block = {};
  const uint16_t d = float_to_half(extreme(x, 32) / -16.0f);
  const float inv = inverse(half_to_float(d));
  store_u16(block.d, d);
  for (int i = 0; i < 32; ++i)
    put_five_bits(block.q, block.qh, i, nearest(tame(x[i]) * inv, -16, 15) + 16);
}

void to_q5_1(const float* x, BlockQ5_1& block) {
  block = {};
  const float inv = to_span(x, 32, block), m = half_to_float(detail::load_u16(block.m));
  for (int i = 0; i < 32; ++i)
    put_five_bits(block.q, block.qh, i, nearest((tame(x[i]) - m) * inv, 0, 31));
}

// Sixteen values span [min(0, lowest), highest]; scale and minimum in 4 bits of the largest.
void to_q2_k(const float* x, BlockQ2_K& block) {
  block = {};
  float step[16], floor_[16], max_step = 0, max_floor = 0;
  for (int j = 0; j < 16; ++j) {
    const Span s = span_of(x + 16 * j, 16);
    floor_[j] = std::max(0.0f, -s.low);
    step[j] = std::max(s.high, 0.0f) / 3.0f + floor_[j] / 3.0f;
    max_step = std::max(max_step, step[j]);
    max_floor = std::max(max_floor, floor_[j]);
  }
  const uint16_t d_half = float_to_half(max_step / 15.0f);
  const uint16_t dmin_half = float_to_half(max_floor / 15.0f);
  const float d = half_to_float(d_half), dmin = half_to_float(dmin_half);
  store_u16(block.d, d_half);
  store_u16(block.dmin, dmin_half);
  for (int j = 0; j < 16; ++j) {
    const int scale = nearest(step[j] * inverse(d), 0, 15);
    const int min = nearest(floor_[j] * inverse(dmin), 0, 15);
    block.scales[j] = uint8_t(scale | min << 4);
    const float inv = inverse(d * float(scale)), base = dmin * float(min);
    for (int i = 16 * j; i < 16 * j + 16; ++i) {
      const int code = nearest((tame(x[i]) + base) * inv, 0, 3);
      block.q[i / 128 * 32 + i % 32] |= uint8_t(code << (2 * (i % 128 / 32)));
    }
  }
}

// As Q6_K: the extreme of sixteen values gets the code -4.
void to_q3_k(const float* x, BlockQ3_K& block) {
  block = {};
  float step[16], max_step = 0;
  for (int j = 0; j < 16; ++j) {
    step[j] = extreme(x + 16 * j, 16) / -4.0f;
    max_step = std::max(max_step, std::fabs(step[j]));
  }
  const uint16_t d_half = float_to_half(max_step / 31.0f);
  const float d = half_to_float(d_half);
  store_u16(block.d, d_half);
  for (int j = 0; j < 16; ++j) {
    const int scale = nearest(step[j] * inverse(d), -31, 31), biased = scale + 32;
    block.scales[j % 8] |= uint8_t((biased & 15) << (4 * (j / 8)));
    block.scales[8 + j % 4] |= uint8_t((biased >> 4) << (2 * (j / 4)));
    const float inv = inverse(d * float(scale));
    for (int i = 16 * j; i < 16 * j + 16; ++i) {
      const int code = nearest(tame(x[i]) * inv, -4, 3) + 4;
      block.q[i / 128 * 32 + i % 32] |= uint8_t((code & 3) << (2 * (i % 128 / 32)));
      block.hmask[i % 32] |= uint8_t((code >> 2) << (i / 32));
    }
  }
}

void pack_q4_k_scales(const uint8_t* scale, const uint8_t* min, uint8_t* packed) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = uint8_t(scale[j] | ((scale[j + 4] >> 4) << 6));
    packed[j + 4] = uint8_t(min[j] | ((min[j + 4] >> 4) << 6));
    packed[j + 8] = uint8_t((scale[j + 4] & 15) | ((min[j + 4] & 15) << 4));
  }
}

// Every sub-block spans [min(0, lowest), highest]; its scale and minimum are rounded to 6 bits
// of the largest in the block. put(j, i, code): value i of sub-block j.
template <class Block, class Put>
void to_sub_blocks(const float* x, int n_codes, Block& block, const Put& put) {
  const auto most = float(n_codes - 1);
  float step[8], floor_[8], max_step = 0, max_floor = 0;
  for (int j = 0; j < 8; ++j) {
    float low = 0, high = 0;
    for (int i = 0; i < 32; ++i) {
      low = std::min(low, tame(x[32 * j + i]));
      high = std::max(high, tame(x[32 * j + i]));
    }
    step[j] = high / most - low / most;  // two divisions: high - low may overflow
    floor_[j] = -low;
    max_step = std::max(max_step, step[j]);
    max_floor = std::max(max_floor, floor_[j]);
  }
  const uint16_t d_half = float_to_half(max_step / 63.0f);
  const uint16_t dmin_half = float_to_half(max_floor / 63.0f);
  const float d = half_to_float(d_half), dmin = half_to_float(dmin_half);
  store_u16(block.d, d_half);
  store_u16(block.dmin, dmin_half);
  uint8_t scale[8], min[8];
  std::memset(block.q, 0, sizeof block.q);
  for (int j = 0; j < 8; ++j) {
    scale[j] = uint8_t(nearest(step[j] * inverse(d), 0, 63));
    min[j] = uint8_t(nearest(floor_[j] * inverse(dmin), 0, 63));
    const float inv = inverse(d * float(scale[j])), base = dmin * float(min[j]);
    for (int i = 0; i < 32; ++i)
      put(j, i, nearest((tame(x[32 * j + i]) + base) * inv, 0, n_codes - 1));
  }
  pack_q4_k_scales(scale, min, block.scales);
}

void to_q4_k(const float* x, BlockQ4_K& block) {
  to_sub_blocks(x, 16, block, [&](int j, int i, int code) {
    block.q[32 * (j / 2) + i] |= uint8_t(code << (4 * (j % 2)));
  });
}

void to_q5_k(const float* x, BlockQ5_K& block) {
  std::memset(block.qh, 0, sizeof block.qh);
  to_sub_blocks(x, 32, block, [&](int j, int i, int code) {
    block.q[32 * (j / 2) + i] |= uint8_t((code & 15) << (4 * (j % 2)));
    block.qh[i] |= uint8_t((code >> 4) << j);
  });
}

// Sub-blocks of 16; as in Q4_0 the extreme value gets the code -32.
void to_q6_k(const float* x, BlockQ6_K& block) {
  float step[16], max_step = 0;
  for (int j = 0; j < 16; ++j) {
    step[j] = extreme(x + 16 * j, 16) / -32.0f;
    max_step = std::max(max_step, std::fabs(step[j]));
  }
  const uint16_t d_half = float_to_half(max_step / 127.0f);
  const float d = half_to_float(d_half);
  store_u16(block.d, d_half);
  std::memset(block.ql, 0, sizeof block.ql);
  std::memset(block.qh, 0, sizeof block.qh);
  for (int j = 0; j < 16; ++j) {
    block.scales[j] = int8_t(nearest(step[j] * inverse(d), -127, 127));
    const float inv = inverse(d * float(block.scales[j]));
    for (int i = 0; i < 16; ++i) {
      const int at = 16 * j + i, half = at / 128, quarter = at % 128 / 32, l = at % 32;
      const int code = nearest(tame(x[at]) * inv, -32, 31) + 32;
      block.ql[64 * half + 32 * (quarter % 2) + l] |= uint8_t((code & 15) << (4 * (quarter / 2)));
      block.qh[32 * half + l] |= uint8_t((code >> 4) << (2 * quarter));
    }
  }
}

template <class Block, void (*kEncode)(const float*, Block&)>
void each_block(const float* src, uint8_t* dst, int64_t n, int64_t block_values) {
  for (int64_t i = 0; i < n; i += block_values, dst += sizeof(Block))
    kEncode(src + i, *reinterpret_cast<Block*>(dst));
}

}  // namespace

void quantize_row(DType type, const float* src, void* dst, int64_t n_values) {
  OUTRIDER_ASSERT(n_values >= 0 && n_values % dtype_info(type).block_values == 0);
  if (n_values == 0) return;
  auto* bytes = static_cast<uint8_t*>(dst);
  switch (type) {
    case DType::kF32:
      std::memcpy(dst, src, size_t(n_values) * sizeof(float));
      return;
    case DType::kF16:
      for (int64_t i = 0; i < n_values; ++i) store_u16(bytes + 2 * i, float_to_half(src[i]));
      return;
    case DType::kBf16:
      for (int64_t i = 0; i < n_values; ++i)
        store_u16(bytes + 2 * i, detail::float_to_bfloat(src[i]));
      return;
    case DType::kQ8_0:
      return each_block<BlockQ8_0, to_q8_0>(src, bytes, n_values, 32);
    case DType::kQ4_0:
      return each_block<BlockQ4_0, to_q4_0>(src, bytes, n_values, 32);
    case DType::kQ4_K:
      return each_block<BlockQ4_K, to_q4_k>(src, bytes, n_values, 256);
    case DType::kQ6_K:
      return each_block<BlockQ6_K, to_q6_k>(src, bytes, n_values, 256);
    case DType::kQ4_1:
      return each_block<BlockQ4_1, to_q4_1>(src, bytes, n_values, 32);
    case DType::kQ5_0:
      return each_block<BlockQ5_0, to_q5_0>(src, bytes, n_values, 32);
    case DType::kQ5_1:
      return each_block<BlockQ5_1, to_q5_1>(src, bytes, n_values, 32);
    case DType::kQ2_K:
      return each_block<BlockQ2_K, to_q2_k>(src, bytes, n_values, 256);
    case DType::kQ3_K:
      return each_block<BlockQ3_K, to_q3_k>(src, bytes, n_values, 256);
    case DType::kQ5_K:
      return each_block<BlockQ5_K, to_q5_k>(src, bytes, n_values, 256);
    default:
      OUTRIDER_ASSERT(!"quantize_row: type has no encoder");
  }
}

}  // namespace outrider
