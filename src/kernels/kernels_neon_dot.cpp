// Tiles of the int8 dot instruction of ARMv8.2. See kernel_table.h for what may be included here.
#include <arm_neon.h>

#include "kernels/kernel_table.h"

namespace outrider {
namespace {

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
  return vdotq_s32(sum, vreinterpretq_s8_s32(w), x);
}

#include "kernels/kernels_int8.inc"

}  // namespace

const TileFn kNeonDotTiles[4][kTileMaxRows] = {OUTRIDER_INT8_ROW(1), OUTRIDER_INT8_ROW(2),
                                               OUTRIDER_INT8_ROW(4), OUTRIDER_INT8_ROW(8)};

}  // namespace outrider
