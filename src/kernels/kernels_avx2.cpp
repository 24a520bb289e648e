// The table for processors with AVX2, FMA and F16C. Compiled with those flags: see kernel_table.h
// for what may be included here.
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/kernel_table.h"

namespace outrider {
namespace {

constexpr int kW = 8;
constexpr int kMaxAccumulators = 12;  // of 16 registers; two for weights, one for the activation
constexpr int kPeakSums = 14;         // what 16 registers hold beside the factor
typedef __m256 vf;

inline vf v_load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void v_store(float* p, vf v) {
  _mm256_storeu_ps(p, v);
}
inline vf v_set1(float x) {
  return _mm256_set1_ps(x);
}
inline vf v_zero() {
  return _mm256_setzero_ps();
}
inline vf v_add(vf a, vf b) {
  return _mm256_add_ps(a, b);
}
inline vf v_sub(vf a, vf b) {
  return _mm256_sub_ps(a, b);
}
inline vf v_mul(vf a, vf b) {
  return _mm256_mul_ps(a, b);
}
inline vf v_div(vf a, vf b) {
  return _mm256_div_ps(a, b);
}
inline vf v_fma(vf a, vf b, vf c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline vf v_fnma(vf a, vf b, vf c) {
  return _mm256_fnmadd_ps(a, b, c);
}
inline vf v_max(vf a, vf b) {
  return _mm256_max_ps(a, b);
}
inline vf v_min(vf a, vf b) {
  return _mm256_min_ps(a, b);
}
// All ones in the first n lanes.
inline __m256i first(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n < kW ? n : kW)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline vf v_load_n(const float* p, int n) {
  return _mm256_maskload_ps(p, first(n));
}
inline void v_store_n(float* p, vf v, int n) {
  _mm256_maskstore_ps(p, first(n), v);
}
inline vf v_first_n(vf v, int64_t n, float fill) {
  return _mm256_blendv_ps(_mm256_set1_ps(fill), v, _mm256_castsi256_ps(first(n)));
}
inline vf v_round(vf v) {
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// In two factors, since 2^128 is no f32.
inline vf v_ldexp(vf v, vf n) {
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1), rest = _mm256_sub_epi32(whole, half);
  const __m256i bias = _mm256_set1_epi32(127);
  const vf a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const vf b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  return _mm256_mul_ps(_mm256_mul_ps(v, a), b);
}
inline vf v_zero_below(vf v, vf x, float limit) {
  return _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_LT_OQ), v);
}
inline float v_sum(vf v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float v_largest(vf v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
inline vf v_load_i8(const int8_t* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline vf v_load_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline vf v_from_sums(const int32_t* sums, const int32_t* less) {
  __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums));
  if (less) v = _mm256_sub_epi32(v, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(less)));
  return _mm256_cvtepi32_ps(v);
}
inline __m256i load_words(const uint32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline vf v_bf16_even(const uint32_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(load_words(p), 16));
}
inline vf v_bf16_odd(const uint32_t* p) {
  return _mm256_castsi256_ps(
      _mm256_and_si256(load_words(p), _mm256_set1_epi32(static_cast<int>(0xffff0000))));
}

struct vd {
  __m256d low, high;
};
inline __m256d low_half(vf v) {
  return _mm256_cvtps_pd(_mm256_castps256_ps128(v));
}
inline __m256d high_half(vf v) {
  return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}
inline vd d_zero() {
  return {_mm256_setzero_pd(), _mm256_setzero_pd()};
}
inline vd d_add(vd a, vf v) {
  return {_mm256_add_pd(a.low, low_half(v)), _mm256_add_pd(a.high, high_half(v))};
}
inline vd d_add_squares(vd a, vf v, double mean) {
  const __m256d m = _mm256_set1_pd(mean);
  const __m256d low = _mm256_sub_pd(low_half(v), m), high = _mm256_sub_pd(high_half(v), m);
  return {_mm256_fmadd_pd(low, low, a.low), _mm256_fmadd_pd(high, high, a.high)};
}
inline double d_sum(vd a) {
  const __m256d four = _mm256_add_pd(a.low, a.high);
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
inline vf v_normal(vf v, double mean, double factor) {
  const __m256d m = _mm256_set1_pd(mean), f = _mm256_set1_pd(factor);
  const __m128 low = _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_sub_pd(low_half(v), m), f));
  const __m128 high = _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_sub_pd(high_half(v), m), f));
  return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}

// Four values times inverse, rounded, as bytes.
inline uint32_t quantize_4(const float* x, float inverse) {
  const __m128i v = _mm_cvtps_epi32(_mm_mul_ps(_mm_loadu_ps(x), _mm_set1_ps(inverse)));
  const __m128i halves = _mm_packs_epi32(v, v);
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_packs_epi16(halves, halves)));
}

// |x| as unsigned bytes times w with the sign of x: two products fit 16 bits, since no magnitude is
// above 127. With the unsigned x + 128 they would not, and this instruction saturates.
constexpr int kILanes = 8;
constexpr int kInt8Accumulators = 12;
typedef __m256i vi;
struct vx {
  __m256i value, magnitude;
};

inline vi i_zero() {
  return _mm256_setzero_si256();
}
inline vi i_load(const void* p) {
  return _mm256_load_si256(static_cast<const __m256i*>(p));
}
inline void i_store(void* p, vi v) {
  _mm256_store_si256(static_cast<__m256i*>(p), v);
}
inline vx i_value(const void* p) {
  const __m256i x = _mm256_set1_epi32(*static_cast<const int32_t*>(p));
  return {x, _mm256_abs_epi8(x)};
}
inline vi i_dot(vi sum, vi w, vx x) {
  const __m256i pairs = _mm256_maddubs_epi16(x.magnitude, _mm256_sign_epi8(w, x.value));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "kernels/kernels_int8.inc"
#include "kernels/kernels_vector.inc"
#include "kernels/pack_words.inc"

}  // namespace

const KernelTable kAvx2Table = {
    "avx2",
    {OUTRIDER_TILES(kTileF32),
     OUTRIDER_TILES(kTileF16),
     OUTRIDER_TILES(kTileBf16),
     {},
     OUTRIDER_INT8_TILES},
    6,
    widen_panel,
    widen_int8,
    pack_f32,
    pack_bf16,
    amax_row,
    pack_int8,
    0,
    tile_out,
    gated_tile_out,
    rms_norm_row,
    layer_norm_row,
    rope_head,
    activate_row,
    scale_row,
    window_row,
    channel_windows,
    own_windows,
    softmax_block,
    {peak_f32, kPeakSums* kW * 2},
    {nullptr, 0},
    {nullptr, 0},
    read_all,
    &kAvx2Blocks,
};

}  // namespace outrider
