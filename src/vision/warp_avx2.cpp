// For processors with AVX2, eight outputs at a time. Compiled with -mavx2: see warp_kernels.h for
// what may be included here.
#include <immintrin.h>

#include "vision/warp_kernels.h"

namespace outrider {
namespace {

constexpr int kW = 8;

struct Point {
  __m256 a, b, c;
};

inline __m256 row(const float* m, __m256 x, float y) {
  return _mm256_add_ps(_mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(m[0]), x),
                                     _mm256_mul_ps(_mm256_set1_ps(m[1]), _mm256_set1_ps(y))),
                       _mm256_set1_ps(m[2]));
}

inline Point project(const WarpLine* l, int32_t i) {
  const __m256i lane =
      _mm256_add_epi32(_mm256_set1_epi32(i), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const __m256 x =
      _mm256_add_ps(_mm256_set1_ps(l->x_first),
                    _mm256_mul_ps(_mm256_set1_ps(l->x_step), _mm256_cvtepi32_ps(lane)));
  return {row(l->m, x, l->y), row(l->m + 3, x, l->y), row(l->m + 6, x, l->y)};
}

// The order of max matters: where v is NaN it gives its second operand.
inline __m256i round_within(__m256 v, int32_t last) {
  const __m256 clamped = _mm256_min_ps(_mm256_max_ps(v, _mm256_setzero_ps()),
                                       _mm256_set1_ps(static_cast<float>(last)));
  return _mm256_cvtps_epi32(clamped);
}

inline __m256i byte_of(const WarpLine* l, __m256i x, __m256i y) {
  return _mm256_add_epi32(
      _mm256_set1_epi32(l->first_byte),
      _mm256_add_epi32(_mm256_mullo_epi32(y, _mm256_set1_epi32(l->stride)),
                       _mm256_mullo_epi32(x, _mm256_set1_epi32(l->pixel_bytes))));
}

inline void store(uint32_t* to, __m256i v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v);
}

void nearest(const WarpLine* line, uint32_t* byte) {
  for (int32_t i = 0; i < line->n; i += kW) {
    const Point p = project(line, i);
    store(byte + i, byte_of(line, round_within(_mm256_div_ps(p.a, p.c), line->width - 1),
                            round_within(_mm256_div_ps(p.b, p.c), line->height - 1)));
  }
}

inline __m256i split(__m256i steps, int32_t side, __m256i* fraction) {
  const __m256i first = _mm256_min_epi32(_mm256_srli_epi32(steps, 5), _mm256_set1_epi32(side - 2));
  *fraction = _mm256_sub_epi32(steps, _mm256_slli_epi32(first, 5));
  return first;
}

// Eight words of 32 bits, each below 65536, as eight of 16.
inline __m128i narrow_words(__m256i v) {
  return _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

void bilinear(const WarpLine* line, uint32_t* byte, WarpFraction* fraction) {
  const __m256 steps = _mm256_set1_ps(static_cast<float>(kWarpSteps));
  for (int32_t i = 0; i < line->n; i += kW) {
    const Point p = project(line, i);
    const __m256 some = _mm256_cmp_ps(p.c, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    const __m256 w = _mm256_and_ps(some, _mm256_div_ps(steps, p.c));
    __m256i fx, fy;
    const __m256i x = split(round_within(_mm256_mul_ps(p.a, w), kWarpSteps * (line->width - 1)),
                            line->width, &fx);
    const __m256i y = split(round_within(_mm256_mul_ps(p.b, w), kWarpSteps * (line->height - 1)),
                            line->height, &fy);
    store(byte + i, byte_of(line, x, y));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(fraction + i),
                     narrow_words(_mm256_or_si256(fx, _mm256_slli_epi32(fy, 8))));
  }
}

inline __m256i gather(const uint8_t* frame, const uint32_t* byte) {
  return _mm256_i32gather_epi32(reinterpret_cast<const int*>(frame),
                                _mm256_loadu_si256(reinterpret_cast<const __m256i*>(byte)), 1);
}

// The lowest byte of each word.
inline void store_bytes(uint8_t* to, __m256i v) {
  const __m128i words = narrow_words(_mm256_and_si256(v, _mm256_set1_epi32(255)));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
}

// Per output: bytes (32 - x, x, 32 - x, x), words (32 - y, y).
inline void weights(const WarpFraction* fraction, __m256i* wx, __m256i* wy) {
  const __m256i f =
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(fraction)));
  const __m256i x = _mm256_and_si256(f, _mm256_set1_epi32(255)), y = _mm256_srli_epi32(f, 8);
  const __m256i pair =
      _mm256_or_si256(_mm256_sub_epi32(_mm256_set1_epi32(kWarpSteps), x), _mm256_slli_epi32(x, 8));
  *wx = _mm256_or_si256(pair, _mm256_slli_epi32(pair, 16));
  *wy =
      _mm256_or_si256(_mm256_sub_epi32(_mm256_set1_epi32(kWarpSteps), y), _mm256_slli_epi32(y, 16));
}

// The low halves of `rows` are an upper row's weighted pixel, the high halves a lower one's.
inline __m256i finish(__m256i rows, __m256i wy) {
  return _mm256_srli_epi32(_mm256_add_epi32(_mm256_madd_epi16(rows, wy), _mm256_set1_epi32(512)),
                           10);
}

void blend(const uint8_t* frame, int32_t stride, const uint32_t* byte, const WarpFraction* fraction,
           int64_t n, uint8_t* out) {
  int64_t i = 0;
  for (; i + kW <= n; i += kW) {
    __m256i wx, wy;
    weights(fraction + i, &wx, &wy);
    const __m256i top = _mm256_maddubs_epi16(gather(frame, byte + i), wx);
    const __m256i bottom = _mm256_maddubs_epi16(gather(frame + stride, byte + i), wx);
    const __m256i rows = _mm256_blend_epi16(top, _mm256_slli_epi32(bottom, 16), 0xAA);
    store_bytes(out + i, finish(rows, wy));
  }
  kScalarWarp.blend(frame, stride, byte + i, fraction + i, n - i, out + i);
}

void blend_uv(const uint8_t* frame, int32_t stride, const uint32_t* byte,
              const WarpFraction* fraction, int64_t n, uint8_t* u, uint8_t* v) {
  // U V U V of two neighbours becomes U U V V.
  const __m256i sort = _mm256_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15, 0, 2,
                                        1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
  int64_t i = 0;
  for (; i + kW <= n; i += kW) {
    __m256i wx, wy;
    weights(fraction + i, &wx, &wy);
    const __m256i top =
        _mm256_maddubs_epi16(_mm256_shuffle_epi8(gather(frame, byte + i), sort), wx);
    const __m256i bottom =
        _mm256_maddubs_epi16(_mm256_shuffle_epi8(gather(frame + stride, byte + i), sort), wx);
    store_bytes(u + i, finish(_mm256_blend_epi16(top, _mm256_slli_epi32(bottom, 16), 0xAA), wy));
    store_bytes(v + i, finish(_mm256_blend_epi16(_mm256_srli_epi32(top, 16), bottom, 0xAA), wy));
  }
  kScalarWarp.blend_uv(frame, stride, byte + i, fraction + i, n - i, u + i, v + i);
}

}  // namespace

const WarpKernels kAvx2Warp = {"avx2", nearest, bilinear, blend, blend_uv};

}  // namespace outrider
