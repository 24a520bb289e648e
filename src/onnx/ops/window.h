// The geometry that convolutions and pools share: one sliding window over up to three dimensions.
#pragma once
#include <array>

#include "onnx/kernel.h"

namespace outrider::onnx {

inline constexpr int kMaxSpatial = 3;

// Missing leading dimensions have size 1, so that every loop is three deep.
struct Window {
  int n_spatial = 0;
  std::array<int64_t, kMaxSpatial> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1},
      dilation{1, 1, 1}, before{0, 0, 0}, after{0, 0, 0};

  int64_t n_in() const { return in[0] * in[1] * in[2]; }
  int64_t n_out() const { return out[0] * out[1] * out[2]; }
  int64_t n_kernel() const { return kernel[0] * kernel[1] * kernel[2]; }
};

struct WindowRules {
  bool transposed = false;  // out_i = (in_i - 1) * stride + ... instead
  bool ceil_mode = false;
};

// Reads kernel_shape (unless `kernel` gives it), strides, dilations, pads, auto_pad of a node whose
// input 0 is [batch, channels, spatial...]. Errors: kNotFound, kUnsupported (more than three
// dimensions).
Result<Window> read_window(NodeContext& c, const std::vector<int64_t>& kernel,
                           const WindowRules& rules);

// [batch, channels, out...]
Shape window_shape(const Window& w, int64_t batch, int64_t channels);

}  // namespace outrider::onnx
