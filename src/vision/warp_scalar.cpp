// The truth: the text of driving.md b.3 and b.7, one output at a time.
#include <math.h>

#include "vision/warp_kernels.h"

namespace outrider {
namespace {

struct Point {
  float a, b, c;
};

Point project(const WarpLine& l, int32_t i) {
  const float x = l.x_first + l.x_step * static_cast<float>(i);
  return {(l.m[0] * x + l.m[1] * l.y) + l.m[2], (l.m[3] * x + l.m[4] * l.y) + l.m[5],
          (l.m[6] * x + l.m[7] * l.y) + l.m[8]};
}

// Clamped before it is rounded, which is the same: both ends are whole numbers.
int32_t round_within(float v, int32_t last) {
  if (!(v > 0)) return 0;  // NaN too
  const float end = static_cast<float>(last);
  return static_cast<int32_t>(nearbyintf(v < end ? v : end));
}

uint32_t byte_of(const WarpLine& l, int32_t x, int32_t y) {
  return static_cast<uint32_t>(l.first_byte + y * l.stride + x * l.pixel_bytes);
}

void nearest(const WarpLine* line, uint32_t* byte) {
  for (int32_t i = 0; i < line->n; ++i) {
    const Point p = project(*line, i);
    byte[i] = byte_of(*line, round_within(p.a / p.c, line->width - 1),
                      round_within(p.b / p.c, line->height - 1));
  }
}

// A coordinate on the last pixel is one on the pixel before it, all of a step further: so four
// pixels can be read everywhere.
int32_t split(int32_t steps, int32_t side, uint8_t* fraction) {
  const int32_t whole = steps / kWarpSteps;
  const int32_t first = whole < side - 2 ? whole : side - 2;
  *fraction = static_cast<uint8_t>(steps - first * kWarpSteps);
  return first;
}

void bilinear(const WarpLine* line, uint32_t* byte, WarpFraction* fraction) {
  for (int32_t i = 0; i < line->n; ++i) {
    const Point p = project(*line, i);
    const float w = p.c != 0 ? static_cast<float>(kWarpSteps) / p.c : 0;
    const int32_t x =
        split(round_within(p.a * w, kWarpSteps * (line->width - 1)), line->width, &fraction[i].x);
    const int32_t y =
        split(round_within(p.b * w, kWarpSteps * (line->height - 1)), line->height, &fraction[i].y);
    byte[i] = byte_of(*line, x, y);
  }
}

uint8_t mix(const uint8_t* upper, const uint8_t* lower, int32_t next, WarpFraction f) {
  const int32_t x = f.x, y = f.y;
  const int32_t top = upper[0] * (kWarpSteps - x) + upper[next] * x;
  const int32_t bottom = lower[0] * (kWarpSteps - x) + lower[next] * x;
  return static_cast<uint8_t>((top * (kWarpSteps - y) + bottom * y + 512) / 1024);
}

void blend(const uint8_t* frame, int32_t stride, const uint32_t* byte, const WarpFraction* fraction,
           int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t* at = frame + byte[i];
    out[i] = mix(at, at + stride, 1, fraction[i]);
  }
}

void blend_uv(const uint8_t* frame, int32_t stride, const uint32_t* byte,
              const WarpFraction* fraction, int64_t n, uint8_t* u, uint8_t* v) {
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t* at = frame + byte[i];
    u[i] = mix(at, at + stride, 2, fraction[i]);
    v[i] = mix(at + 1, at + stride + 1, 2, fraction[i]);
  }
}

}  // namespace

void warp_take(const uint8_t* frame, const uint32_t* byte, int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = frame[byte[i]];
}

void warp_take_uv(const uint8_t* frame, const uint32_t* byte, int64_t n, uint8_t* u, uint8_t* v) {
  for (int64_t i = 0; i < n; ++i) {
    u[i] = frame[byte[i]];
    v[i] = frame[byte[i] + 1];
  }
}

const WarpKernels kScalarWarp = {"scalar", nearest, bilinear, blend, blend_uv};

}  // namespace outrider
