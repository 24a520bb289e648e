// Products with blocks in AVX2.
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/block_format.h"
#include "kernels/kernel_table.h"

namespace outrider {
namespace {

constexpr int kBLanes = 8;
constexpr int kBlockSums = 12;  // of 16 registers
typedef __m256i vi;
typedef __m256 vb;

inline vi b_load(const char* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline vi b_set1(int32_t x) {
  return _mm256_set1_epi32(x);
}
inline vi b_set1_from(const char* p) {
  return _mm256_set1_epi32(*reinterpret_cast<const int32_t*>(p));
}
inline vi b_and_v(vi a, vi b) {
  return _mm256_and_si256(a, b);
}
inline vi b_and(vi v, int byte) {
  return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(byte)));
}
inline vi b_or(vi a, vi b) {
  return _mm256_or_si256(a, b);
}
template <int n>
inline vi b_shift_word(vi v) {
  return _mm256_srli_epi32(v, n);
}
template <int n>
inline vi b_shift(vi v) {
  if constexpr (n > 0) {
    return _mm256_srli_epi32(v, n);
  } else {
    return _mm256_slli_epi32(v, -n);
  }
}
// Two products of an unsigned and a signed byte can exceed 16 bits: even and odd codes apart.
struct vx {
  __m256i all, even, odd;
};
inline vx b_value(const char* p) {
  const __m256i all = b_set1_from(p);
  return {all, _mm256_srai_epi16(_mm256_slli_epi16(all, 8), 8), _mm256_srai_epi16(all, 8)};
}
inline vi b_dot(vi sum, vi u, vx x) {
  const __m256i even = _mm256_and_si256(u, _mm256_set1_epi16(255)), odd = _mm256_srli_epi16(u, 8);
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(even, x.even));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(odd, x.odd));
}
inline vi b_dot7(vi sum, vi u, vx x) {
  const __m256i pairs = _mm256_maddubs_epi16(u, x.all);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

inline vb f_zero() {
  return _mm256_setzero_ps();
}
inline vb f_load(const float* p) {
  return _mm256_load_ps(p);
}
inline void f_store(float* p, vb v) {
  _mm256_store_ps(p, v);
}
inline vb f_set1(const char* p) {
  return _mm256_set1_ps(*reinterpret_cast<const float*>(p));
}
inline vb f_mul(vb a, vb b) {
  return _mm256_mul_ps(a, b);
}
inline vb f_fma(vb a, vb b, vb c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline vb f_fnma(vb a, vb b, vb c) {
  return _mm256_fnmadd_ps(a, b, c);
}
inline vb f_from(vi v) {
  return _mm256_cvtepi32_ps(v);
}
inline vb f_half(const char* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline vb f_byte(const char* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

inline float b_quantize(const float* x, uint32_t* codes, int32_t* halves);

#include "kernels/blocks.inc"

inline int32_t sum_of(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

inline float b_quantize(const float* x, uint32_t* codes, int32_t* halves) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256 v[4];
  __m256i most = _mm256_setzero_si256();
  OUTRIDER_UNROLL for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_loadu_ps(x + 8 * i);
    // Magnitudes order like their bits; what is not finite is above all finite ones.
    most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
  }
  __m128i top = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
  top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0x4e));
  top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0xb1));
  const BlockScale s = block_scale(_mm_cvtss_f32(_mm_castsi128_ps(top)));
  if (s.inverse == 0) {
    memset(codes, 0, 32);
    halves[0] = halves[1] = 0;
    return s.scale;
  }
  const __m256 inverse = _mm256_set1_ps(s.inverse);
  __m256i q[4];
  OUTRIDER_UNROLL for (int i = 0; i < 4; ++i) q[i] =
      _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
  // Narrowing works within 128-bit lanes.
  const __m256i bytes =
      _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), _mm256_permutevar8x32_epi32(bytes, order));
  halves[0] = sum_of(_mm256_add_epi32(q[0], q[1]));
  halves[1] = sum_of(_mm256_add_epi32(q[2], q[3]));
  return s.scale;
}

}  // namespace

const BlockKernels kAvx2Blocks = {OUTRIDER_BLOCK_TILES, 3, quantize};

}  // namespace outrider
