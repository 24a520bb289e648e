// Bilinear resize without antialias as the PyTorch reference does it: see resize_torch in resize.h.
#include <algorithm>
#include <cstddef>
#include <new>
#include <vector>

#include "vision/image.h"
#include "vision/resize.h"

namespace outrider {
namespace {

// Half-pixel positions clamped to the picture; f32 like the reference, because a position that
// falls on the other side of a pixel changes which two are blended.
struct Lerp {
  int at, next;
  float part;  // of `next`, 0 <= part < 1
};

std::vector<Lerp> make_lerps(int n_in, int n_out) {
  std::vector<Lerp> lerps;
  const float scale = float(n_in) / float(n_out);
  for (int o = 0; o < n_out; ++o) {
    const float position = std::max(scale * (float(o) + 0.5f) - 0.5f, 0.0f);
    const int at = std::min(int(position), n_in - 1);
    lerps.push_back({at, std::min(at + 1, n_in - 1), std::min(position - float(at), 1.0f)});
  }
  return lerps;
}

void resize_row(const uint8_t* upper, const uint8_t* lower, float part, const std::vector<Lerp>& x,
                float* out) {
  for (const Lerp& lerp : x) {
    uint8_t corners[12];
    float values[12];
    for (int c = 0; c < 3; ++c) {
      corners[c] = upper[lerp.at * 3 + c];
      corners[3 + c] = upper[lerp.next * 3 + c];
      corners[6 + c] = lower[lerp.at * 3 + c];
      corners[9 + c] = lower[lerp.next * 3 + c];
    }
    scale_pixels(corners, 12, values);
    for (int c = 0; c < 3; ++c) {
      const float above = (1 - lerp.part) * values[c] + lerp.part * values[3 + c];
      const float below = (1 - lerp.part) * values[6 + c] + lerp.part * values[9 + c];
      *out++ = std::clamp((1 - part) * above + part * below, -1.0f, 1.0f);
    }
  }
}

}  // namespace

struct TorchResizer::Plan {
  ContentRect content;
  int src_width = 0, dst_width = 0, dst_height = 0;
  std::vector<Lerp> x, y;
};

TorchResizer::TorchResizer() : plan_(std::make_unique<Plan>()) {}
TorchResizer::TorchResizer(TorchResizer&&) noexcept = default;
TorchResizer& TorchResizer::operator=(TorchResizer&&) noexcept = default;
TorchResizer::~TorchResizer() = default;

Result<TorchResizer> TorchResizer::make(int src_width, int src_height, int dst_width,
                                        int dst_height) {
  const auto fit = fit_content(ResizeRule::kTorch, src_width, src_height, dst_width, dst_height);
  if (!fit) return fit.error();
  try {
    TorchResizer out;
    *out.plan_ = {fit.value(),
                  src_width,
                  dst_width,
                  dst_height,
                  make_lerps(src_width, fit.value().width),
                  make_lerps(src_height, fit.value().height)};
    return out;
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "resize: no memory for the tables of %d x %d to %d x %d",
                      src_width, src_height, dst_width, dst_height);
  }
}

void TorchResizer::run(const uint8_t* src, float* dst) const noexcept {
  const Plan& p = *plan_;
  std::fill_n(dst, size_t(p.dst_width) * size_t(p.dst_height) * 3, -1.0f);
  const size_t row_bytes = size_t(p.src_width) * 3;
  for (int row = 0; row < p.content.height; ++row) {
    const size_t out_pixel = size_t(p.content.y + row) * size_t(p.dst_width) + size_t(p.content.x);
    const Lerp& y = p.y[size_t(row)];
    resize_row(src + size_t(y.at) * row_bytes, src + size_t(y.next) * row_bytes, y.part, p.x,
               dst + out_pixel * 3);
  }
}

Result<void> resize_torch(const uint8_t* src, int src_width, int src_height, float* dst,
                          int dst_width, int dst_height) {
  const auto resizer = TorchResizer::make(src_width, src_height, dst_width, dst_height);
  if (!resizer) return resizer.error();
  resizer.value().run(src, dst);
  return {};
}

}  // namespace outrider
