#include "vision/frame.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/assert.h"

namespace outrider {
namespace {

// Columns that are worked on together: what they need lies on the stack.
constexpr int kStrip = 64;

class Source {
 public:
  explicit Source(const ImageView& view)
      : width(view.width),
        height(view.height),
        data_(static_cast<const uint8_t*>(view.data)),
        channels_(static_cast<int>(pixel_channels(view.format))),
        stride_(view.stride_bytes != 0 ? view.stride_bytes : int64_t{view.width} * channels_) {
    const bool swaps = view.format == PixelFormat::kBgr8 || view.format == PixelFormat::kBgra8;
    const bool gray = view.format == PixelFormat::kGray8;
    red_ = swaps ? 2 : 0;
    green_ = gray ? 0 : 1;
    blue_ = gray || swaps ? 0 : 2;
  }
  void pixel(int x, int y, float* rgb) const noexcept {
    const uint8_t* p = data_ + y * stride_ + int64_t{x} * channels_;
    rgb[0] = p[red_], rgb[1] = p[green_], rgb[2] = p[blue_];
  }
  const int width, height;

 private:
  const uint8_t* data_;
  int channels_, red_, green_, blue_;
  int64_t stride_;
};

// Where output o samples an axis: neighbour i and the way on to the next.
struct Sample {
  int i;
  float t;
};
struct Axis {
  int n_in;
  float step;
  Sample at(int o) const noexcept {
    const float p = static_cast<float>(o) * step;
    const int i = std::min(static_cast<int>(p), n_in - 1);
    return {i, p - static_cast<float>(i)};
  }
};

// The product and sum of the references are one fused step: exact in double but for the last bit.
float lerp(float a, float b, float t) noexcept {
  return static_cast<float>(static_cast<double>(b - a) * static_cast<double>(t) +
                            static_cast<double>(a));
}

struct Bilinear {
  static constexpr int kRows = 2;
  static Axis axis(int n_in, int n_out) noexcept {
    return {n_in, n_out > 1 ? static_cast<float>(n_in - 1) / static_cast<float>(n_out - 1) : 0.0f};
  }
  static int row(int i, int k, int n) noexcept { return std::min(i + k, n - 1); }
  static void across(const Source& from, Sample x, int y, float* out) noexcept {
    float a[3], b[3];
    from.pixel(x.i, y, a);
    from.pixel(std::min(x.i + 1, from.width - 1), y, b);
    for (int c = 0; c < 3; ++c) out[c] = lerp(a[c], b[c], x.t);
  }
  static uint8_t down(const float* const* rows, int at, float t) noexcept {
    return static_cast<uint8_t>(lerp(rows[0][at], rows[1][at], t));
  }
};

struct Bicubic {
  static constexpr int kRows = 4;
  static Axis axis(int n_in, int n_out) noexcept {
    return {n_in, static_cast<float>(n_in) / static_cast<float>(n_out)};
  }
  static int row(int i, int k, int n) noexcept { return std::clamp(i + k - 1, 0, n - 1); }
  static float cubic(float before, float here, float next, float second, float t) noexcept {
    const float d0 = before - here, d2 = next - here, d3 = second - here;
    const float a1 = -d0 / 3.0f + d2 - d3 / 6.0f, a2 = d0 / 2.0f + d2 / 2.0f,
                a3 = -d0 / 6.0f - d2 / 2.0f + d3 / 6.0f;
    return here + a1 * t + a2 * t * t + a3 * t * t * t;
  }
  static void across(const Source& from, Sample x, int y, float* out) noexcept {
    float p[4][3];
    for (int k = 0; k < 4; ++k) from.pixel(row(x.i, k, from.width), y, p[k]);
    for (int c = 0; c < 3; ++c) out[c] = cubic(p[0][c], p[1][c], p[2][c], p[3][c], x.t);
  }
  static uint8_t down(const float* const* rows, int at, float t) noexcept {
    const float v = cubic(rows[0][at], rows[1][at], rows[2][at], rows[3][at], t);
    const float away = std::copysign(std::floor(std::fabs(v) + 0.5f), v);
    return static_cast<uint8_t>(std::clamp(away, 0.0f, 255.0f));
  }
};

// Columns [first, first + n) of the content. Rows of the source are sampled across once: those of
// the next output row are mostly those of the last.
template <class Filter>
void strip(const Source& from, const ContentRect& content, int first, int n, uint8_t* dst,
           int64_t dst_stride) noexcept {
  constexpr int kRows = Filter::kRows;
  const Axis across = Filter::axis(from.width, content.width),
             down = Filter::axis(from.height, content.height);
  float kept[kRows][kStrip * 3];
  int row_in[kRows];
  std::fill_n(row_in, kRows, -1);
  for (int y = 0; y < content.height; ++y) {
    const Sample sample = down.at(y);
    const float* rows[kRows];
    for (int k = 0; k < kRows; ++k) {
      // kRows neighbours that follow each other never share a place.
      const int wanted = Filter::row(sample.i, k, from.height), place = wanted % kRows;
      rows[k] = kept[place];
      if (row_in[place] == wanted) continue;
      row_in[place] = wanted;
      for (int x = 0; x < n; ++x)
        Filter::across(from, across.at(first + x), wanted, kept[place] + x * 3);
    }
    uint8_t* out = dst + (content.y + y) * dst_stride + int64_t{content.x + first} * 3;
    for (int x = 0; x < n * 3; ++x) out[x] = Filter::down(rows, x, sample.t);
  }
}

template <class Filter>
void fill(const Source& from, const ContentRect& content, uint8_t* dst,
          int64_t dst_stride) noexcept {
  for (int x = 0; x < content.width; x += kStrip)
    strip<Filter>(from, content, x, std::min(kStrip, content.width - x), dst, dst_stride);
}

}  // namespace

ContentRect frame_content(int src_width, int src_height, int dst_width, int dst_height) noexcept {
  for (const int side : {src_width, src_height, dst_width, dst_height})
    OUTRIDER_ASSERT(side >= 1 && side <= kMaxFrameSide);
  const float w = static_cast<float>(src_width), h = static_cast<float>(src_height);
  const float scale =
      std::min(static_cast<float>(dst_width) / w, static_cast<float>(dst_height) / h);
  ContentRect content;
  content.width = std::min(static_cast<int>(std::ceil(w * scale)), dst_width);
  content.height = std::min(static_cast<int>(std::ceil(h * scale)), dst_height);
  content.x = (dst_width - content.width) / 2;
  content.y = (dst_height - content.height) / 2;
  return content;
}

void frame_picture(const ImageView& view, FrameFilter filter, FrameFit fit, int dst_width,
                   int dst_height, uint8_t* dst) noexcept {
  if (view.width == dst_width && view.height == dst_height) return to_rgb(view, dst);
  const ContentRect content = fit == FrameFit::kStretch
                                  ? ContentRect{0, 0, dst_width, dst_height}
                                  : frame_content(view.width, view.height, dst_width, dst_height);
  const int64_t stride = int64_t{dst_width} * 3;
  if (content.width < dst_width || content.height < dst_height)
    std::memset(dst, 0, static_cast<size_t>(stride * dst_height));
  const Source from(view);
  if (filter == FrameFilter::kBilinear) return fill<Bilinear>(from, content, dst, stride);
  fill<Bicubic>(from, content, dst, stride);
}

}  // namespace outrider
