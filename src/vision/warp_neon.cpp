// For 64-bit ARM: coordinates four at a time. It has no gather, so the four pixels of a blend are
// collected one by one, and their weighted sums follow in vectors. See warp_kernels.h for what may
// be included here.
#include <arm_neon.h>

#include "vision/warp_kernels.h"

namespace outrider {
namespace {

constexpr int kW = 4;

struct Point {
  float32x4_t a, b, c;
};

inline float32x4_t row(const float* m, float32x4_t x, float y) {
  return vaddq_f32(
      vaddq_f32(vmulq_f32(vdupq_n_f32(m[0]), x), vmulq_f32(vdupq_n_f32(m[1]), vdupq_n_f32(y))),
      vdupq_n_f32(m[2]));
}

inline Point project(const WarpLine* l, int32_t i) {
  const int32_t count[kW] = {0, 1, 2, 3};
  const int32x4_t lane = vaddq_s32(vdupq_n_s32(i), vld1q_s32(count));
  const float32x4_t x =
      vaddq_f32(vdupq_n_f32(l->x_first), vmulq_f32(vdupq_n_f32(l->x_step), vcvtq_f32_s32(lane)));
  return {row(l->m, x, l->y), row(l->m + 3, x, l->y), row(l->m + 6, x, l->y)};
}

// maxnm gives the number where one side is NaN; cvtn rounds halves to even.
inline int32x4_t round_within(float32x4_t v, int32_t last) {
  const float32x4_t clamped =
      vminq_f32(vmaxnmq_f32(v, vdupq_n_f32(0)), vdupq_n_f32(static_cast<float>(last)));
  return vcvtnq_s32_f32(clamped);
}

inline void store_bytes_of(const WarpLine* l, int32x4_t x, int32x4_t y, uint32_t* to) {
  const int32x4_t rows = vmlaq_s32(vdupq_n_s32(l->first_byte), y, vdupq_n_s32(l->stride));
  vst1q_u32(to, vreinterpretq_u32_s32(vmlaq_s32(rows, x, vdupq_n_s32(l->pixel_bytes))));
}

void nearest(const WarpLine* line, uint32_t* byte) {
  for (int32_t i = 0; i < line->n; i += kW) {
    const Point p = project(line, i);
    store_bytes_of(line, round_within(vdivq_f32(p.a, p.c), line->width - 1),
                   round_within(vdivq_f32(p.b, p.c), line->height - 1), byte + i);
  }
}

inline int32x4_t split(int32x4_t steps, int32_t side, int32x4_t* fraction) {
  const int32x4_t whole = vminq_s32(vshrq_n_s32(steps, 5), vdupq_n_s32(side - 2));
  *fraction = vsubq_s32(steps, vshlq_n_s32(whole, 5));
  return whole;
}

void bilinear(const WarpLine* line, uint32_t* byte, WarpFraction* fraction) {
  const float32x4_t steps = vdupq_n_f32(static_cast<float>(kWarpSteps));
  for (int32_t i = 0; i < line->n; i += kW) {
    const Point p = project(line, i);
    const uint32x4_t none = vceqq_f32(p.c, vdupq_n_f32(0));
    const float32x4_t w =
        vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(vdivq_f32(steps, p.c)), none));
    int32x4_t fx, fy;
    const int32x4_t x =
        split(round_within(vmulq_f32(p.a, w), kWarpSteps * (line->width - 1)), line->width, &fx);
    const int32x4_t y =
        split(round_within(vmulq_f32(p.b, w), kWarpSteps * (line->height - 1)), line->height, &fy);
    store_bytes_of(line, x, y, byte + i);
    vst1_u16(reinterpret_cast<uint16_t*>(fraction + i),
             vmovn_u32(vreinterpretq_u32_s32(vorrq_s32(fx, vshlq_n_s32(fy, 8)))));
  }
}

constexpr int kB = 8;  // outputs of a blend

// Eight outputs: pixels of the upper row (a, b) and of the lower one (c, d).
struct Corners {
  uint8_t a[kB], b[kB], c[kB], d[kB];
};

inline uint8x8_t mix(const Corners* p, uint8x8x2_t f) {
  const uint8x8_t steps = vdup_n_u8(kWarpSteps);
  const uint8x8_t left = vsub_u8(steps, f.val[0]);
  const uint16x8_t top = vmlal_u8(vmull_u8(vld1_u8(p->a), left), vld1_u8(p->b), f.val[0]);
  const uint16x8_t bottom = vmlal_u8(vmull_u8(vld1_u8(p->c), left), vld1_u8(p->d), f.val[0]);
  const uint16x8_t lower = vmovl_u8(f.val[1]), upper = vmovl_u8(vsub_u8(steps, f.val[1]));
  const uint32x4_t low = vmlal_u16(vmull_u16(vget_low_u16(top), vget_low_u16(upper)),
                                   vget_low_u16(bottom), vget_low_u16(lower));
  const uint32x4_t high = vmlal_u16(vmull_u16(vget_high_u16(top), vget_high_u16(upper)),
                                    vget_high_u16(bottom), vget_high_u16(lower));
  // A rounding shift adds the 512.
  return vmovn_u16(vcombine_u16(vrshrn_n_u32(low, 10), vrshrn_n_u32(high, 10)));
}

inline void collect(Corners* p, int i, const uint8_t* at, int32_t stride, int next) {
  p->a[i] = at[0];
  p->b[i] = at[next];
  p->c[i] = at[stride];
  p->d[i] = at[stride + next];
}

void blend(const uint8_t* frame, int32_t stride, const uint32_t* byte, const WarpFraction* fraction,
           int64_t n, uint8_t* out) {
  int64_t i = 0;
  for (; i + kB <= n; i += kB) {
    Corners p;
    for (int k = 0; k < kB; ++k) collect(&p, k, frame + byte[i + k], stride, 1);
    vst1_u8(out + i, mix(&p, vld2_u8(&fraction[i].x)));
  }
  kScalarWarp.blend(frame, stride, byte + i, fraction + i, n - i, out + i);
}

void blend_uv(const uint8_t* frame, int32_t stride, const uint32_t* byte,
              const WarpFraction* fraction, int64_t n, uint8_t* u, uint8_t* v) {
  int64_t i = 0;
  for (; i + kB <= n; i += kB) {
    Corners p, q;
    for (int k = 0; k < kB; ++k) {
      collect(&p, k, frame + byte[i + k], stride, 2);
      collect(&q, k, frame + byte[i + k] + 1, stride, 2);
    }
    const uint8x8x2_t f = vld2_u8(&fraction[i].x);
    vst1_u8(u + i, mix(&p, f));
    vst1_u8(v + i, mix(&q, f));
  }
  kScalarWarp.blend_uv(frame, stride, byte + i, fraction + i, n - i, u + i, v + i);
}

}  // namespace

const WarpKernels kNeonWarp = {"neon", nearest, bilinear, blend, blend_uv};

}  // namespace outrider
