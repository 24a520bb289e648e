// What the ways of computing a convolution share.
#pragma once
#include "onnx/kernel.h"
#include "onnx/ops/window.h"

namespace outrider::onnx {

struct ConvSizes {
  Window w;
  int64_t n_batch = 0, group = 1, in_channels = 0, out_channels = 0;
  int64_t in_each = 0, out_each = 0;  // channels of one group
  int64_t n_k() const { return in_each * w.n_kernel(); }
  // Every output channel has an input channel of its own.
  bool is_depthwise() const { return in_each == 1 && out_each == 1; }
};

// A kernel of one value that moves by one: every place is its own source.
inline bool is_plain(const Window& w) {
  return w.n_kernel() == 1 && w.n_in() == w.n_out() &&
         w.before == std::array<int64_t, 3>{0, 0, 0} && w.stride == std::array<int64_t, 3>{1, 1, 1};
}

// Windows that slide over a padded copy of the input (window_conv.cpp); input 1 must be constant.
bool window_fits(const ConvSizes& s);
Prepared window_conv(NodeContext& c, const ConvSizes& s, bool with_bias);

// Outputs in channel blocks (channel_conv.cpp). The answer follows from sizes and constants alone.
bool channels_fit(const NodeContext& c, const ConvSizes& s);
// Input 0 must be in blocks; else it may be in rows.
bool wants_blocks(const ConvSizes& s);
Prepared channel_conv(NodeContext& c, const ConvSizes& s);

}  // namespace outrider::onnx
