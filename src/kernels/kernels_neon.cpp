// The table for 64-bit ARM: every such processor has these instructions. See kernel_table.h for
// what may be included here.
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "kernels/kernel_table.h"

namespace outrider {
namespace {

constexpr int kW = 4;
// Of 32 registers; four for weights, and the compiler loads a step's activations ahead: 24 spilled.
constexpr int kMaxAccumulators = 20;
constexpr int kPeakSums = 24;
typedef float32x4_t vf;

inline vf v_load(const float* p) {
  return vld1q_f32(p);
}
inline void v_store(float* p, vf v) {
  vst1q_f32(p, v);
}
inline vf v_set1(float x) {
  return vdupq_n_f32(x);
}
inline vf v_zero() {
  return vdupq_n_f32(0);
}
inline vf v_add(vf a, vf b) {
  return vaddq_f32(a, b);
}
inline vf v_sub(vf a, vf b) {
  return vsubq_f32(a, b);
}
inline vf v_mul(vf a, vf b) {
  return vmulq_f32(a, b);
}
inline vf v_div(vf a, vf b) {
  return vdivq_f32(a, b);
}
inline vf v_fma(vf a, vf b, vf c) {
  return vfmaq_f32(c, a, b);
}
inline vf v_fnma(vf a, vf b, vf c) {
  return vfmsq_f32(c, a, b);
}
inline vf v_max(vf a, vf b) {
  return vmaxq_f32(a, b);
}  // NaN when either is
inline vf v_min(vf a, vf b) {
  return vminq_f32(a, b);
}
inline vf v_load_n(const float* p, int n) {
  float lanes[kW] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return vld1q_f32(lanes);
}
inline void v_store_n(float* p, vf v, int n) {
  float lanes[kW];
  vst1q_f32(lanes, v);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}
inline vf v_first_n(vf v, int64_t n, float fill) {
  static const int32_t kIndex[kW] = {0, 1, 2, 3};
  const int32_t limit = static_cast<int32_t>(n < kW ? n : kW);
  return vbslq_f32(vcltq_s32(vld1q_s32(kIndex), vdupq_n_s32(limit)), v, vdupq_n_f32(fill));
}
inline vf v_round(vf v) {
  return vrndnq_f32(v);
}
// In two factors, since 2^128 is no f32.
inline vf v_ldexp(vf v, vf n) {
  const int32x4_t whole = vcvtq_s32_f32(n);
  const int32x4_t half = vshrq_n_s32(whole, 1), rest = vsubq_s32(whole, half);
  const int32x4_t bias = vdupq_n_s32(127);
  const vf a = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
  const vf b = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23));
  return vmulq_f32(vmulq_f32(v, a), b);
}
inline vf v_zero_below(vf v, vf x, float limit) {
  const uint32x4_t below = vcltq_f32(x, vdupq_n_f32(limit));
  return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), below));
}
inline float v_sum(vf v) {
  return vaddvq_f32(v);
}
inline float v_largest(vf v) {
  return vmaxvq_f32(v);
}
inline vf v_from_sums(const int32_t* sums, const int32_t* less) {
  int32x4_t v = vld1q_s32(sums);
  if (less) v = vsubq_s32(v, vld1q_s32(less));
  return vcvtq_f32_s32(v);
}
inline vf v_load_i8(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  const int16x8_t wide = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}
inline vf v_load_f16(const uint16_t* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
inline vf v_bf16_even(const uint32_t* p) {
  return vreinterpretq_f32_u32(vshlq_n_u32(vld1q_u32(p), 16));
}
inline vf v_bf16_odd(const uint32_t* p) {
  return vreinterpretq_f32_u32(vandq_u32(vld1q_u32(p), vdupq_n_u32(0xffff0000u)));
}

struct vd {
  float64x2_t low, high;
};
inline float64x2_t low_half(vf v) {
  return vcvt_f64_f32(vget_low_f32(v));
}
inline float64x2_t high_half(vf v) {
  return vcvt_high_f64_f32(v);
}
inline vd d_zero() {
  return {vdupq_n_f64(0), vdupq_n_f64(0)};
}
inline vd d_add(vd a, vf v) {
  return {vaddq_f64(a.low, low_half(v)), vaddq_f64(a.high, high_half(v))};
}
inline vd d_add_squares(vd a, vf v, double mean) {
  const float64x2_t m = vdupq_n_f64(mean);
  const float64x2_t low = vsubq_f64(low_half(v), m), high = vsubq_f64(high_half(v), m);
  return {vfmaq_f64(a.low, low, low), vfmaq_f64(a.high, high, high)};
}
inline double d_sum(vd a) {
  return vaddvq_f64(vaddq_f64(a.low, a.high));
}
inline vf v_normal(vf v, double mean, double factor) {
  const float64x2_t m = vdupq_n_f64(mean), f = vdupq_n_f64(factor);
  const float64x2_t low = vmulq_f64(vsubq_f64(low_half(v), m), f);
  const float64x2_t high = vmulq_f64(vsubq_f64(high_half(v), m), f);
  return vcvt_high_f32_f64(vcvt_f32_f64(low), high);
}

// Four values times inverse, rounded, as bytes.
inline uint32_t quantize_4(const float* x, float inverse) {
  const int16x4_t halves = vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x), inverse)));
  return vget_lane_u32(vreinterpret_u32_s8(vqmovn_s16(vcombine_s16(halves, halves))), 0);
}

// int8 without the dot instruction: products of 16 bits, added in pairs twice. Two of them fit,
// since no magnitude is above 127.
constexpr int kILanes = 4;
constexpr int kInt8Accumulators = 20;
typedef int32x4_t vi;
typedef int8x16_t vx;

inline vi i_zero() {
  return vdupq_n_s32(0);
}
inline vi i_load(const void* p) {
  return vld1q_s32(static_cast<const int32_t*>(p));
}
inline void i_store(void* p, vi v) {
  vst1q_s32(static_cast<int32_t*>(p), v);
}
inline vx i_value(const void* p) {
  return vreinterpretq_s8_s32(vld1q_dup_s32(static_cast<const int32_t*>(p)));
}
inline vi i_dot(vi sum, vi w, vx x) {
  const int8x16_t bytes = vreinterpretq_s8_s32(w);
  const int16x8_t low = vmull_s8(vget_low_s8(bytes), vget_low_s8(x));
  const int16x8_t high = vmull_high_s8(bytes, x);
  return vpadalq_s16(sum, vpaddq_s16(low, high));
}

#include "kernels/kernels_int8.inc"
#include "kernels/kernels_vector.inc"
#include "kernels/pack_words.inc"

}  // namespace

const KernelTable kNeonTable = {
    "neon",
    {OUTRIDER_TILES(kTileF32),
     OUTRIDER_TILES(kTileF16),
     OUTRIDER_TILES(kTileBf16),
     {},
     OUTRIDER_INT8_TILES},
    5,
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
    &kNeonBlocks,
};

}  // namespace outrider
