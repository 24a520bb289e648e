// The inner loops of the camera warp as a table of plain functions, one table for each instruction
// set. As in kernels/kernel_table.h: the files that fill a table include this header, intrinsics
// and C headers, nothing else.
//
// Every table gives the same bits: products, sums and quotients are rounded one by one in IEEE f32
// (no contraction), as the text of driving.md b.3 and b.7 has them.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace outrider {

// Offsets of a line are written up to the next multiple of it.
constexpr int kWarpLanes = 16;
constexpr int kWarpSteps = 32;  // fractions of a pixel, bilinear

// Outputs x_first, x_first + x_step, ... of the model row y: where each lies in one source plane.
struct WarpLine {
  float m[9];
  float y, x_first, x_step;  // whole numbers
  int32_t n;                 // outputs
  int32_t width, height;     // of the source plane; at least 2
  int32_t stride;            // bytes from one source row to the next
  int32_t first_byte;        // of source pixel (0, 0)
  int32_t pixel_bytes;       // 1 luma, 2 chroma (U and V side by side)
};

// Bilinear fractions of an output, in 1/32, 0 to 32.
struct WarpFraction {
  uint8_t x, y;
};

struct WarpKernels {
  const char* name;

  // a = (m0 x + m1 y) + m2, b and c likewise; the pixel nearest to (a / c, b / c), halves to even,
  // clamped to the plane; NaN is 0. byte[i]: where it starts.
  void (*nearest)(const WarpLine* line, uint32_t* byte);
  // (a w, b w) with w = 32 / c, or 0 when c is 0, rounded, clamped to [0, 32 (side - 1)]; byte[i]
  // is the upper left of four pixels that all lie in the plane.
  void (*bilinear)(const WarpLine* line, uint32_t* byte, WarpFraction* fraction);

  // Four pixels weighted by (32 - x, x) and (32 - y, y), rounded half up: (sum + 512) / 1024.
  // `blend` reads two bytes more in either row.
  void (*blend)(const uint8_t* frame, int32_t stride, const uint32_t* byte,
                const WarpFraction* fraction, int64_t n, uint8_t* out);
  void (*blend_uv)(const uint8_t* frame, int32_t stride, const uint32_t* byte,
                   const WarpFraction* fraction, int64_t n, uint8_t* u, uint8_t* v);
};

// Nearest pixels are collected by the same loops for every table: they wait for memory. Tried on
// Zen 4, both views: gathers of eight bytes 0.20 ms, of sixteen 0.15 ms, eight loads and one store
// 0.16 ms, these 0.15 ms; asking for the lines of rows further down changed nothing.
//
// out[i] = frame[byte[i]].
void warp_take(const uint8_t* frame, const uint32_t* byte, int64_t n, uint8_t* out);
// u[i] = frame[byte[i]], v[i] = frame[byte[i] + 1].
void warp_take_uv(const uint8_t* frame, const uint32_t* byte, int64_t n, uint8_t* u, uint8_t* v);

extern const WarpKernels kScalarWarp;
#if defined(__x86_64__)
extern const WarpKernels kAvx2Warp, kAvx512Warp;
#elif defined(__aarch64__)
extern const WarpKernels kNeonWarp;
#endif

}  // namespace outrider
