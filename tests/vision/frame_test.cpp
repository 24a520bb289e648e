// Frames of vision-language models: every pixel against the formulas written down plainly.
#include "vision/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "vision/count_news.h"

namespace outrider::test {
namespace {

std::vector<uint8_t> picture(int width, int height, uint32_t seed = 1) {
  std::vector<uint8_t> rgb(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (uint8_t& v : rgb) v = static_cast<uint8_t>((seed = seed * 1664525u + 1013904223u) >> 24);
  return rgb;
}
ImageView view_of(const std::vector<uint8_t>& rgb, int width, int height) {
  return {PixelFormat::kRgb8, rgb.data(), rgb.size(), width, height, 0};
}

float lerp(float a, float b, float t) {
  return static_cast<float>(double(b - a) * double(t) + double(a));
}
float cubic(const float* p, float t) {
  const float d0 = p[0] - p[1], d2 = p[2] - p[1], d3 = p[3] - p[1];
  const float a1 = -d0 / 3 + d2 - d3 / 6, a2 = d0 / 2 + d2 / 2, a3 = -d0 / 6 - d2 / 2 + d3 / 6;
  return p[1] + a1 * t + a2 * t * t + a3 * t * t * t;
}

// One value of the content, straight from gguf-models.md D.1 and D.3.
uint8_t wanted(const std::vector<uint8_t>& rgb, int w, int h, int nw, int nh, int x, int y, int c,
               FrameFilter filter) {
  const auto at = [&](int px, int py) {
    px = std::clamp(px, 0, w - 1);
    py = std::clamp(py, 0, h - 1);
    return float(rgb[size_t((py * w + px) * 3 + c)]);
  };
  if (filter == FrameFilter::kBilinear) {
    const float xr = nw > 1 ? float(w - 1) / float(nw - 1) : 0;
    const float yr = nh > 1 ? float(h - 1) / float(nh - 1) : 0;
    const float px = float(x) * xr, py = float(y) * yr;
    const int ix = std::min(int(px), w - 1), iy = std::min(int(py), h - 1);
    const float tx = px - float(ix), ty = py - float(iy);
    return uint8_t(lerp(lerp(at(ix, iy), at(ix + 1, iy), tx),
                        lerp(at(ix, iy + 1), at(ix + 1, iy + 1), tx), ty));
  }
  const float px = float(w) / float(nw) * float(x), py = float(h) / float(nh) * float(y);
  const int ix = int(px), iy = int(py);
  float rows[4];
  for (int r = 0; r < 4; ++r) {
    const float p[4] = {at(ix - 1, iy + r - 1), at(ix, iy + r - 1), at(ix + 1, iy + r - 1),
                        at(ix + 2, iy + r - 1)};
    rows[r] = cubic(p, px - float(ix));
  }
  const float v = cubic(rows, py - float(iy));
  return uint8_t(std::clamp(std::copysign(std::floor(std::fabs(v) + 0.5f), v), 0.0f, 255.0f));
}

constexpr int kSizes[][4] = {{1, 1, 8, 8},     {2, 2, 7, 5},     {3, 1, 64, 64},
                             {1, 3, 65, 64},   {5, 4, 64, 128},  {100, 60, 192, 128},
                             {63, 65, 64, 64}, {64, 64, 63, 65}, {130, 7, 66, 66},
                             {7, 130, 1, 1},   {40, 40, 1, 9}};

TEST(Frame, every_pixel_is_what_the_formulas_say) {
  for (const auto& [w, h, fw, fh] : kSizes) {
    const auto rgb = picture(w, h);
    for (const FrameFilter filter : {FrameFilter::kBilinear, FrameFilter::kBicubic}) {
      for (const FrameFit fit : {FrameFit::kBars, FrameFit::kStretch}) {
        std::vector<uint8_t> got(size_t(fw) * size_t(fh) * 3, 77);
        frame_picture(view_of(rgb, w, h), filter, fit, fw, fh, got.data());
        ContentRect in = {0, 0, fw, fh};
        if (fit == FrameFit::kBars) in = frame_content(w, h, fw, fh);
        for (int y = 0; y < fh; ++y)
          for (int x = 0; x < fw; ++x)
            for (int c = 0; c < 3; ++c) {
              const bool inside =
                  x >= in.x && x < in.x + in.width && y >= in.y && y < in.y + in.height;
              const int want =
                  inside ? wanted(rgb, w, h, in.width, in.height, x - in.x, y - in.y, c, filter)
                         : 0;
              ASSERT_EQ(int(got[size_t((y * fw + x) * 3 + c)]), want)
                  << w << "x" << h << " into " << fw << "x" << fh << " at " << x << "," << y;
            }
      }
    }
  }
}

TEST(Frame, content_is_rounded_up_and_centred) {
  const auto is = [](ContentRect r, int x, int y, int width, int height) {
    return r.x == x && r.y == y && r.width == width && r.height == height;
  };
  EXPECT_TRUE(is(frame_content(100, 200, 112, 196), 7, 0, 98, 196));
  EXPECT_TRUE(is(frame_content(150, 90, 112, 112), 0, 22, 112, 68));
  EXPECT_TRUE(is(frame_content(1, 65535, 64, 64), 31, 0, 1, 64));
  EXPECT_TRUE(is(frame_content(65535, 1, 64, 64), 0, 31, 64, 1));
}

TEST(Frame, every_format_and_stride_means_the_same_picture) {
  const int w = 13, h = 9;
  const auto rgb = picture(w, h, 5);
  std::vector<uint8_t> want(64 * 48 * 3);
  frame_picture(view_of(rgb, w, h), FrameFilter::kBicubic, FrameFit::kBars, 64, 48, want.data());
  struct Row {
    PixelFormat format;
    int channels, order[3];
  };
  for (const Row& f :
       {Row{PixelFormat::kBgr8, 3, {2, 1, 0}}, Row{PixelFormat::kRgba8, 4, {0, 1, 2}},
        Row{PixelFormat::kBgra8, 4, {2, 1, 0}}}) {
    const int stride = w * f.channels + 5;
    std::vector<uint8_t> other(size_t(stride) * h, 200);
    for (int y = 0; y < h; ++y)
      for (int x = 0; x < w; ++x)
        for (int c = 0; c < 3; ++c)
          other[size_t(y * stride + x * f.channels + f.order[c])] =
              rgb[size_t((y * w + x) * 3 + c)];
    const ImageView view = {f.format, other.data(), other.size(), w, h, stride};
    std::vector<uint8_t> got(want.size());
    frame_picture(view, FrameFilter::kBicubic, FrameFit::kBars, 64, 48, got.data());
    EXPECT_EQ(got, want) << "format " << int(f.format);
  }
  std::vector<uint8_t> gray(size_t(w) * h), thrice;
  for (size_t i = 0; i < gray.size(); ++i) {
    gray[i] = rgb[i];
    thrice.insert(thrice.end(), 3, rgb[i]);
  }
  std::vector<uint8_t> got(want.size());
  frame_picture({PixelFormat::kGray8, gray.data(), gray.size(), w, h, 0}, FrameFilter::kBilinear,
                FrameFit::kStretch, 64, 48, got.data());
  frame_picture(view_of(thrice, w, h), FrameFilter::kBilinear, FrameFit::kStretch, 64, 48,
                want.data());
  EXPECT_EQ(got, want);
}

TEST(Frame, the_frames_own_size_is_copied_and_nothing_is_allocated) {
  const auto rgb = picture(64, 32);
  std::vector<uint8_t> got(rgb.size());
  const long before = n_news;
  frame_picture(view_of(rgb, 64, 32), FrameFilter::kBicubic, FrameFit::kBars, 64, 32, got.data());
  EXPECT_EQ(got, rgb);
  std::vector<uint8_t> other(200 * 200 * 3);
  const long with_vector = n_news;
  frame_picture(view_of(rgb, 64, 32), FrameFilter::kBicubic, FrameFit::kBars, 200, 200,
                other.data());
  EXPECT_EQ(n_news, with_vector);
  EXPECT_EQ(with_vector, before + 1);
}

}  // namespace
}  // namespace outrider::test
