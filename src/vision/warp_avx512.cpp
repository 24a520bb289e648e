// For processors with AVX-512 F, BW and VL, sixteen outputs at a time; a mask does the last ones.
// Compiled for it: see warp_kernels.h for what may be included here.
#include <immintrin.h>

#include "vision/warp_kernels.h"

namespace outrider {
namespace {

constexpr int kW = 16;

struct Point {
  __m512 a, b, c;
};

inline __m512 row(const float* m, __m512 x, float y) {
  return _mm512_add_ps(_mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(m[0]), x),
                                     _mm512_mul_ps(_mm512_set1_ps(m[1]), _mm512_set1_ps(y))),
                       _mm512_set1_ps(m[2]));
}

inline Point project(const WarpLine* l, int32_t i) {
  const __m512i lane =
      _mm512_add_epi32(_mm512_set1_epi32(i),
                       _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  const __m512 x =
      _mm512_add_ps(_mm512_set1_ps(l->x_first),
                    _mm512_mul_ps(_mm512_set1_ps(l->x_step), _mm512_cvtepi32_ps(lane)));
  return {row(l->m, x, l->y), row(l->m + 3, x, l->y), row(l->m + 6, x, l->y)};
}

// The order of max matters: where v is NaN it gives its second operand.
inline __m512i round_within(__m512 v, int32_t last) {
  const __m512 clamped = _mm512_min_ps(_mm512_max_ps(v, _mm512_setzero_ps()),
                                       _mm512_set1_ps(static_cast<float>(last)));
  return _mm512_cvtps_epi32(clamped);
}

inline __m512i byte_of(const WarpLine* l, __m512i x, __m512i y) {
  return _mm512_add_epi32(
      _mm512_set1_epi32(l->first_byte),
      _mm512_add_epi32(_mm512_mullo_epi32(y, _mm512_set1_epi32(l->stride)),
                       _mm512_mullo_epi32(x, _mm512_set1_epi32(l->pixel_bytes))));
}

void nearest(const WarpLine* line, uint32_t* byte) {
  for (int32_t i = 0; i < line->n; i += kW) {
    const Point p = project(line, i);
    _mm512_storeu_si512(byte + i,
                        byte_of(line, round_within(_mm512_div_ps(p.a, p.c), line->width - 1),
                                round_within(_mm512_div_ps(p.b, p.c), line->height - 1)));
  }
}

inline __m512i split(__m512i steps, int32_t side, __m512i* fraction) {
  const __m512i first = _mm512_min_epi32(_mm512_srli_epi32(steps, 5), _mm512_set1_epi32(side - 2));
  *fraction = _mm512_sub_epi32(steps, _mm512_slli_epi32(first, 5));
  return first;
}

void bilinear(const WarpLine* line, uint32_t* byte, WarpFraction* fraction) {
  const __m512 steps = _mm512_set1_ps(static_cast<float>(kWarpSteps));
  for (int32_t i = 0; i < line->n; i += kW) {
    const Point p = project(line, i);
    const __mmask16 some = _mm512_cmp_ps_mask(p.c, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    const __m512 w = _mm512_maskz_div_ps(some, steps, p.c);
    __m512i fx, fy;
    const __m512i x = split(round_within(_mm512_mul_ps(p.a, w), kWarpSteps * (line->width - 1)),
                            line->width, &fx);
    const __m512i y = split(round_within(_mm512_mul_ps(p.b, w), kWarpSteps * (line->height - 1)),
                            line->height, &fy);
    _mm512_storeu_si512(byte + i, byte_of(line, x, y));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(fraction + i),
                        _mm512_cvtepi32_epi16(_mm512_or_si512(fx, _mm512_slli_epi32(fy, 8))));
  }
}

inline __mmask16 first(int64_t n) {
  return static_cast<__mmask16>(n < kW ? (1u << n) - 1 : 0xffffu);
}

inline __m512i gather(const uint8_t* frame, const uint32_t* byte, __mmask16 lanes) {
  return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), lanes,
                                     _mm512_maskz_loadu_epi32(lanes, byte), frame, 1);
}

inline void store_bytes(uint8_t* to, __mmask16 lanes, __m512i v) {
  _mm512_mask_cvtepi32_storeu_epi8(to, lanes, v);
}

// Per output: bytes (32 - x, x, 32 - x, x), words (32 - y, y).
inline void weights(const WarpFraction* fraction, __mmask16 lanes, __m512i* wx, __m512i* wy) {
  const __m512i f = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, fraction));
  const __m512i x = _mm512_and_si512(f, _mm512_set1_epi32(255)), y = _mm512_srli_epi32(f, 8);
  const __m512i pair =
      _mm512_or_si512(_mm512_sub_epi32(_mm512_set1_epi32(kWarpSteps), x), _mm512_slli_epi32(x, 8));
  *wx = _mm512_or_si512(pair, _mm512_slli_epi32(pair, 16));
  *wy =
      _mm512_or_si512(_mm512_sub_epi32(_mm512_set1_epi32(kWarpSteps), y), _mm512_slli_epi32(y, 16));
}

// The low halves of `rows` are an upper row's weighted pixel, the high halves a lower one's.
inline __m512i finish(__m512i rows, __m512i wy) {
  return _mm512_srli_epi32(_mm512_add_epi32(_mm512_madd_epi16(rows, wy), _mm512_set1_epi32(512)),
                           10);
}

constexpr __mmask32 kHigh = 0xaaaaaaaau;  // the high half of every word

void blend(const uint8_t* frame, int32_t stride, const uint32_t* byte, const WarpFraction* fraction,
           int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; i += kW) {
    const __mmask16 lanes = first(n - i);
    __m512i wx, wy;
    weights(fraction + i, lanes, &wx, &wy);
    const __m512i top = _mm512_maddubs_epi16(gather(frame, byte + i, lanes), wx);
    const __m512i bottom = _mm512_maddubs_epi16(gather(frame + stride, byte + i, lanes), wx);
    store_bytes(out + i, lanes,
                finish(_mm512_mask_blend_epi16(kHigh, top, _mm512_slli_epi32(bottom, 16)), wy));
  }
}

void blend_uv(const uint8_t* frame, int32_t stride, const uint32_t* byte,
              const WarpFraction* fraction, int64_t n, uint8_t* u, uint8_t* v) {
  // U V U V of two neighbours becomes U U V V.
  const __m512i sort =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  for (int64_t i = 0; i < n; i += kW) {
    const __mmask16 lanes = first(n - i);
    __m512i wx, wy;
    weights(fraction + i, lanes, &wx, &wy);
    const __m512i top =
        _mm512_maddubs_epi16(_mm512_shuffle_epi8(gather(frame, byte + i, lanes), sort), wx);
    const __m512i bottom = _mm512_maddubs_epi16(
        _mm512_shuffle_epi8(gather(frame + stride, byte + i, lanes), sort), wx);
    store_bytes(u + i, lanes,
                finish(_mm512_mask_blend_epi16(kHigh, top, _mm512_slli_epi32(bottom, 16)), wy));
    store_bytes(v + i, lanes,
                finish(_mm512_mask_blend_epi16(kHigh, _mm512_srli_epi32(top, 16), bottom), wy));
  }
}

}  // namespace

const WarpKernels kAvx512Warp = {"avx512", nearest, bilinear, blend, blend_uv};

}  // namespace outrider
