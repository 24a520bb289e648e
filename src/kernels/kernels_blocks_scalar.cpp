// Products with blocks, written to be read: the twin of blocks.inc.
#include <math.h>
#include <string.h>

#include "kernels/block_format.h"
#include "kernels/kernel_table.h"

namespace outrider {
namespace {

float from_f16(const uint8_t* p) {
  const uint32_t half = p[0] | uint32_t{p[1]} << 8;
  const uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31,
                 mantissa = half & 1023;
  uint32_t bits = sign | (exponent + 112) << 23 | mantissa << 13;
  if (exponent == 31) bits = sign | 0x7f800000 | mantissa << 13;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;  // 2^-24
    return sign ? -magnitude : magnitude;
  }
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// One panel of a packed weight.
struct Panel {
  int format;
  const uint8_t* data;

  // The block or super-block with those 32 values.
  const uint8_t* super(int64_t block) const {
    return data + block_at(format, block_is_super(format) ? block / 8 : block);
  }
  const uint8_t* codes(int64_t block) const {
    if (!block_is_super(format)) return super(block);
    return super(block) + 256 + block % 8 * block_code_bytes(format);
  }
  // Code k of 32 of a block.
  int32_t code(int64_t block, int k, int lane) const {
    const uint8_t* at = codes(block);
    const int g = k / 4, byte = lane * 4 + k % 4;
    if (format == kBlockQ8_0) return at[g * 64 + byte];
    const int low = (at[g % 4 * 64 + byte] >> (g < 4 ? 0 : 4)) & 15;
    if (format == kBlockQ5_K) return low | (at[256 + byte] >> g & 1) << 4;
    if (format != kBlockQ6_K) return low;
    return low | ((at[256 + g / 4 * 64 + byte] >> (2 * (g % 4))) & 3) << 4;
  }
  float in_front(int64_t block, int lane) const {
    const int64_t i = block_is_super(format) ? block / 8 : block;
    return from_f16(data + block_d_at(format, i) + lane * 2);
  }
  // Value i of 16 six-bit ones.
  float six_bits(int64_t block, int i, int lane) const {
    uint32_t word[3];
    for (int j = 0; j < 3; ++j) memcpy(word + j, super(block) + j * 64 + lane * 4, 4);
    uint32_t value = 0;
    if (i < 15) {
      value = (word[i / kSixBitsPerWord] >> (6 * (i % kSixBitsPerWord))) & 63;
    } else {
      value = word[0] >> 30 | word[1] >> 30 << 2 | word[2] >> 30 << 4;
    }
    return static_cast<float>(value);
  }
  // Of values 16 half .. 16 half + 15 of a block; Q6_K only tells them apart.
  float scale(int64_t block, int half, int lane) const {
    if (block_has_minima(format))
      return from_f16(super(block) + 192 + lane * 2) * six_bits(block, int(block % 8), lane);
    if (format != kBlockQ6_K) return in_front(block, lane);
    const auto sub =
        static_cast<int8_t>(super(block)[(2 * (block % 8) + half) * kPanelLanes + lane]);
    return in_front(block, lane) * static_cast<float>(sub);
  }
  float min(int64_t block, int lane) const {
    return from_f16(super(block) + 224 + lane * 2) * six_bits(block, 8 + int(block % 8), lane);
  }
};

// The words of one row's block of activations.
struct Words {
  const char* data;
  int n_rows, row;

  const char* at(int i) const { return data + (int64_t{i} * n_rows + row) * 4; }
  int32_t code(int k) const { return static_cast<int8_t>(at(k / 4)[k % 4]); }
  int32_t number(int i) const {
    int32_t value;
    memcpy(&value, at(i), sizeof value);
    return value;
  }
  float real(int i) const {
    float value;
    memcpy(&value, at(i), sizeof value);
    return value;
  }
};

float add_block(float y, const Panel& panel, int64_t block, int lane, const Words& x) {
  const bool halves = panel.format == kBlockQ6_K;
  for (int half = 0; half < (halves ? 2 : 1); ++half) {
    int32_t sum = block_has_minima(panel.format) ? 0 : x.number(9 + half);
    for (int k = half * 16; k < (halves ? half * 16 + 16 : 32); ++k)
      sum += panel.code(block, k, lane) * x.code(k);
    y = fmaf(static_cast<float>(sum) * x.real(8), panel.scale(block, half, lane), y);
  }
  if (block_has_minima(panel.format)) y = fmaf(-x.real(9), panel.min(block, lane), y);
  return y;
}

template <int kFormat, int kRows>
void block_tile(const void* a, const void* w, int64_t, int64_t first, int64_t n, float* tile,
                int64_t tile_stride, int accumulate) {
  const Panel panel{kFormat, static_cast<const uint8_t*>(w)};
  for (int r = 0; r < kRows; ++r) {
    for (int lane = 0; lane < kPanelLanes; ++lane) {
      float* y = tile + r * tile_stride + lane;
      float sum = accumulate ? *y : 0;
      for (int64_t b = 0; b < n; ++b) {
        const auto* x = static_cast<const char*>(a) + b * block_words(kFormat) * kRows * 4;
        sum = add_block(sum, panel, first + b, lane, {x, kRows, r});
      }
      *y = sum;
    }
  }
}

void quantize(int32_t format, const float* x, int64_t n_blocks, int64_t n_rows, uint32_t* out) {
  for (int64_t b = 0; b < n_blocks; ++b, x += kBlockValues) {
    float amax = 0;
    for (int k = 0; k < kBlockValues; ++k)
      amax = isfinite(x[k]) && amax == amax ? fmaxf(amax, fabsf(x[k])) : NAN;
    float scale = amax / 127, inverse = 127 / amax;
    if (amax != amax || amax < kInt8Smallest) {
      scale = amax != amax ? NAN : 0;
      inverse = 0;
    }
    int8_t codes[kBlockValues];
    int32_t halves[2] = {};
    for (int k = 0; k < kBlockValues; ++k) {
      codes[k] = inverse == 0 ? int8_t{0} : static_cast<int8_t>(lrintf(x[k] * inverse));
      halves[k / 16] += codes[k];
    }
    const auto put = [&](int i, const void* word) {
      memcpy(out + (b * block_words(format) + i) * n_rows, word, 4);
    };
    for (int g = 0; g < 8; ++g) put(g, codes + 4 * g);
    put(8, &scale);
    const int32_t sum = halves[0] + halves[1], offset = -block_offset(format);
    const int32_t all = offset * sum, one = offset * halves[0], two = offset * halves[1];
    const float scaled = scale * static_cast<float>(sum);
    if (block_has_minima(format)) {
      put(9, &scaled);
    } else if (format == kBlockQ6_K) {
      put(9, &one);
      put(10, &two);
    } else {
      put(9, &all);
    }
  }
}

}  // namespace

#define OUTRIDER_BLOCK_FORMAT(f) \
  { {block_tile<f, 1>, block_tile<f, 2>, block_tile<f, 3>}, {}, {}, }

const BlockKernels kScalarBlocks = {
    {OUTRIDER_BLOCK_FORMAT(kBlockQ8_0), OUTRIDER_BLOCK_FORMAT(kBlockQ4_0),
     OUTRIDER_BLOCK_FORMAT(kBlockQ4_K), OUTRIDER_BLOCK_FORMAT(kBlockQ6_K),
     OUTRIDER_BLOCK_FORMAT(kBlockQ5_K)},
    3,
    quantize,
};

}  // namespace outrider
