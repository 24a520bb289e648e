// The camera warp after the text of driving.md alone, slowly: whole model frames, no plan, no
// kernels. And what its golden values are made of.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "vision/warp.h"

namespace outrider::test {

inline uint32_t crc32(const uint8_t* data, size_t n) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < n; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

// b.6: over the whole allocation; seed 1 narrow, 2 wide.
inline std::vector<uint8_t> noise_frame(size_t bytes, uint32_t seed) {
  std::vector<uint8_t> out(bytes);
  for (size_t i = 0; i < bytes; ++i)
    out[i] = static_cast<uint8_t>((static_cast<uint32_t>(i) * 2654435761u + seed) >> 24);
  return out;
}

struct Plane {
  const uint8_t* data;  // pixel (0, 0)
  int width, height, stride, pixel_bytes;
  uint8_t at(int x, int y) const {
    return data[static_cast<ptrdiff_t>(y) * stride + static_cast<ptrdiff_t>(x) * pixel_bytes];
  }
};

// b.3, steps 1 to 5. volatile: every product and sum is rounded by itself, whatever the compiler
// likes.
struct Homogeneous {
  float a, b, c;
};
inline float dot_row(const float* m, float x, float y) {
  const volatile float p = m[0] * x, q = m[1] * y;
  const volatile float sum = p + q;
  return sum + m[2];
}
inline Homogeneous homogeneous(const Matrix3& m, int x, int y) {
  const auto fx = static_cast<float>(x), fy = static_cast<float>(y);
  return {dot_row(&m[0], fx, fy), dot_row(&m[3], fx, fy), dot_row(&m[6], fx, fy)};
}

inline int nearest_index(float v, int side) {
  if (std::isnan(v)) return 0;
  const float r = std::rint(v);
  if (r <= 0) return 0;
  return r >= static_cast<float>(side - 1) ? side - 1 : static_cast<int>(r);
}

inline uint8_t nearest_pixel(const Plane& p, const Matrix3& m, int x, int y) {
  const Homogeneous h = homogeneous(m, x, y);
  return p.at(nearest_index(h.a / h.c, p.width), nearest_index(h.b / h.c, p.height));
}

// b.7 with its 15-bit coefficients and its saturations as they stand there.
inline int64_t fixed_coordinate(float v) {
  if (std::isnan(v)) return 0;
  return static_cast<int64_t>(std::rint(std::clamp(v, -1e9f, 1e9f)));
}
inline int short_sat(int64_t v) {
  return static_cast<int>(std::clamp<int64_t>(v, -32768, 32767));
}
inline uint8_t bilinear_pixel(const Plane& p, const Matrix3& m, int x, int y) {
  const Homogeneous h = homogeneous(m, x, y);
  const float w = h.c == 0 ? 0 : 32.0f / h.c;
  const int64_t fx = fixed_coordinate(h.a * w), fy = fixed_coordinate(h.b * w);
  const int sx = short_sat(fx >> 5), sy = short_sat(fy >> 5);
  const float tx = static_cast<float>(fx & 31) / 32, ty = static_cast<float>(fy & 31) / 32;
  const auto coefficient = [](float product) {
    return short_sat(static_cast<int64_t>(std::rint(product * 32768)));
  };
  const auto cx = [&](int v) { return std::clamp(v, 0, p.width - 1); };
  const auto cy = [&](int v) { return std::clamp(v, 0, p.height - 1); };
  const int sum = p.at(cx(sx), cy(sy)) * coefficient((1 - tx) * (1 - ty)) +
                  p.at(cx(sx + 1), cy(sy)) * coefficient(tx * (1 - ty)) +
                  p.at(cx(sx), cy(sy + 1)) * coefficient((1 - tx) * ty) +
                  p.at(cx(sx + 1), cy(sy + 1)) * coefficient(tx * ty);
  return static_cast<uint8_t>(std::clamp((sum + 16384) >> 15, 0, 255));
}

inline Matrix3 times(const Matrix3& a, const Matrix3& b) {
  Matrix3 out{};
  for (size_t r = 0; r < 3; ++r)
    for (size_t c = 0; c < 3; ++c) {
      volatile float sum = 0;
      for (size_t k = 0; k < 3; ++k) {
        const volatile float p = a[r * 3 + k] * b[k * 3 + c];
        sum = sum + p;
      }
      out[r * 3 + c] = sum;
    }
  return out;
}

// Planes (6, h / 2, w / 2) of one view.
inline std::vector<uint8_t> warp_oracle(const WarpOptions& o, const uint8_t* frame,
                                        const Matrix3& m) {
  const bool nearest = o.sampling == WarpSampling::kNearest;
  const Nv12Layout& c = o.camera;
  const Plane luma = {frame, c.width, c.height, c.stride, 1};
  const Plane chroma[2] = {{frame + c.uv_offset, c.width / 2, c.height / 2, c.stride, 2},
                           {frame + c.uv_offset + 1, c.width / 2, c.height / 2, c.stride, 2}};
  Matrix3 of_chroma = m;
  if (nearest) {
    const Matrix3 scale = {1, 1, 0.5f, 1, 1, 0.5f, 2, 2, 1};
    for (size_t i = 0; i < 9; ++i) of_chroma[i] *= scale[i];
  } else {
    of_chroma = times({0.5f, 0, -0.25f, 0, 0.5f, -0.25f, 0, 0, 1},
                      times(m, {2, 0, 0.5f, 0, 2, 0.5f, 0, 0, 1}));
  }
  const auto pixel = [&](const Plane& p, const Matrix3& t, int x, int y) {
    return nearest ? nearest_pixel(p, t, x, y) : bilinear_pixel(p, t, x, y);
  };
  const size_t w = static_cast<size_t>(o.model_width) / 2,
               h = static_cast<size_t>(o.model_height) / 2;
  std::vector<uint8_t> out(6 * w * h);
  for (int y = 0; y < o.model_height; ++y)
    for (int x = 0; x < o.model_width; ++x) {
      const size_t plane = static_cast<size_t>(2 * (x & 1) + (y & 1));
      out[(plane * h + static_cast<size_t>(y >> 1)) * w + static_cast<size_t>(x >> 1)] =
          pixel(luma, m, x, y);
    }
  for (size_t uv = 0; uv < 2; ++uv)
    for (size_t r = 0; r < h; ++r)
      for (size_t k = 0; k < w; ++k)
        out[((4 + uv) * h + r) * w + k] =
            pixel(chroma[uv], of_chroma, static_cast<int>(k), static_cast<int>(r));
  return out;
}

}  // namespace outrider::test
