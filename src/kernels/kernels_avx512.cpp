// The table for processors with AVX-512 F, BW, DQ and VL. Compiled with those flags: see
// kernel_table.h for what may be included here.
#include <immintrin.h>
#include <math.h>

#include "kernels/kernel_table.h"

namespace outrider {
namespace {

constexpr int kW = 16;
constexpr int kMaxAccumulators = 28;  // of 32 registers; two for weights, one for the activation
constexpr int kPeakSums = 24;
typedef __m512 vf;

inline vf v_load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void v_store(float* p, vf v) {
  _mm512_storeu_ps(p, v);
}
inline vf v_set1(float x) {
  return _mm512_set1_ps(x);
}
inline vf v_zero() {
  return _mm512_setzero_ps();
}
inline vf v_add(vf a, vf b) {
  return _mm512_add_ps(a, b);
}
inline vf v_sub(vf a, vf b) {
  return _mm512_sub_ps(a, b);
}
inline vf v_mul(vf a, vf b) {
  return _mm512_mul_ps(a, b);
}
inline vf v_div(vf a, vf b) {
  return _mm512_div_ps(a, b);
}
inline vf v_fma(vf a, vf b, vf c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline vf v_fnma(vf a, vf b, vf c) {
  return _mm512_fnmadd_ps(a, b, c);
}
inline vf v_max(vf a, vf b) {
  return _mm512_max_ps(a, b);
}
inline vf v_min(vf a, vf b) {
  return _mm512_min_ps(a, b);
}
inline __mmask16 first(int64_t n) {
  return static_cast<__mmask16>(n >= kW ? 0xffff : (1u << n) - 1);
}
inline vf v_load_n(const float* p, int n) {
  return _mm512_maskz_loadu_ps(first(n), p);
}
inline void v_store_n(float* p, vf v, int n) {
  _mm512_mask_storeu_ps(p, first(n), v);
}
inline vf v_first_n(vf v, int64_t n, float fill) {
  return _mm512_mask_mov_ps(_mm512_set1_ps(fill), first(n), v);
}
inline vf v_round(vf v) {
  return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline vf v_ldexp(vf v, vf n) {
  return _mm512_scalef_ps(v, n);
}
inline vf v_zero_below(vf v, vf x, float limit) {
  return _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_LT_OQ),
                            _mm512_setzero_ps());
}
inline float v_sum(vf v) {
  return _mm512_reduce_add_ps(v);
}
inline float v_largest(vf v) {
  return _mm512_reduce_max_ps(v);
}
inline vf v_from_sums(const int32_t* sums, const int32_t* less) {
  __m512i v = _mm512_loadu_si512(sums);
  if (less) v = _mm512_sub_epi32(v, _mm512_loadu_si512(less));
  return _mm512_cvtepi32_ps(v);
}
inline vf v_load_i8(const int8_t* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline vf v_load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline vf v_bf16_even(const uint32_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
inline vf v_bf16_odd(const uint32_t* p) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(static_cast<int>(0xffff0000))));
}

struct vd {
  __m512d low, high;
};
inline __m512d low_half(vf v) {
  return _mm512_cvtps_pd(_mm512_castps512_ps256(v));
}
inline __m512d high_half(vf v) {
  return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
}
inline vd d_zero() {
  return {_mm512_setzero_pd(), _mm512_setzero_pd()};
}
inline vd d_add(vd a, vf v) {
  return {_mm512_add_pd(a.low, low_half(v)), _mm512_add_pd(a.high, high_half(v))};
}
inline vd d_add_squares(vd a, vf v, double mean) {
  const __m512d m = _mm512_set1_pd(mean);
  const __m512d low = _mm512_sub_pd(low_half(v), m), high = _mm512_sub_pd(high_half(v), m);
  return {_mm512_fmadd_pd(low, low, a.low), _mm512_fmadd_pd(high, high, a.high)};
}
inline double d_sum(vd a) {
  return _mm512_reduce_add_pd(_mm512_add_pd(a.low, a.high));
}
inline vf v_normal(vf v, double mean, double factor) {
  const __m512d m = _mm512_set1_pd(mean), f = _mm512_set1_pd(factor);
  const __m256 low = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_sub_pd(low_half(v), m), f));
  const __m256 high = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_sub_pd(high_half(v), m), f));
  return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

// int8 without the dot instruction: |x| as unsigned bytes times w with the sign of x. Two products
// fit 16 bits, since no magnitude is above 127.
constexpr int kILanes = 16;
constexpr int kInt8Accumulators = 28;
typedef __m512i vi;
struct vx {
  __m512i magnitude;
  __mmask64 negative;
};

inline vi i_zero() {
  return _mm512_setzero_si512();
}
inline vi i_load(const void* p) {
  return _mm512_load_si512(p);
}
inline void i_store(void* p, vi v) {
  _mm512_store_si512(p, v);
}
inline vx i_value(const void* p) {
  const __m512i x = _mm512_set1_epi32(*static_cast<const int32_t*>(p));
  return {_mm512_abs_epi8(x), _mm512_movepi8_mask(x)};
}
inline vi i_dot(vi sum, vi w, vx x) {
  const __m512i turned = _mm512_mask_sub_epi8(w, x.negative, _mm512_setzero_si512(), w);
  const __m512i pairs = _mm512_maddubs_epi16(x.magnitude, turned);
  return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

#include "kernels/kernels_int8.inc"
#include "kernels/kernels_vector.inc"
#include "kernels/pack_avx512.inc"

}  // namespace

const KernelTable kAvx512Table = {
    "avx512",
    {OUTRIDER_TILES(kTileF32),
     OUTRIDER_TILES(kTileF16),
     OUTRIDER_TILES(kTileBf16),
     {},
     OUTRIDER_INT8_TILES},
    14,
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
    &kAvx512Blocks,
};

}  // namespace outrider
