// What pools over rows and over channel blocks share.
#pragma once
#include <algorithm>

#include "onnx/kernel.h"
#include "onnx/ops/window.h"

namespace outrider::onnx {

// The part of a window that lies inside: first and last kernel index, and the first input index.
struct Part {
  int64_t first, last, at;
};
inline Part inside(const Window& w, size_t d, int64_t out) {
  const int64_t begin = out * w.stride[d] - w.before[d], step = w.dilation[d];
  const int64_t first = begin >= 0 ? 0 : (-begin + step - 1) / step;
  const int64_t last =
      begin >= w.in[d] ? 0 : std::min(w.kernel[d], (w.in[d] - begin + step - 1) / step);
  return {first, std::max(first, last), begin + first * step};
}

// f(output place, three Parts) for all windows of a plane.
template <class F>
void each_window(const Window& w, const F& f) {
  int64_t at = 0;
  for (int64_t z = 0; z < w.out[0]; ++z)
    for (int64_t y = 0; y < w.out[1]; ++y)
      for (int64_t x = 0; x < w.out[2]; ++x, ++at)
        f(at, inside(w, 0, z), inside(w, 1, y), inside(w, 2, x));
}

// The larger of both; a NaN on either side stays.
inline float larger(float value, float best) {
  return best >= value || best != best ? best : value;
}

// How many values the mean at place `at` is of.
int64_t n_counted(const Window& w, int64_t at, const Part& a, const Part& b, const Part& e,
                  bool count_padding);

// Inputs in channel blocks; the first two give blocks, the last gives rows [n_batch, n_channels].
std::unique_ptr<Kernel> block_max_pool(const Window& w, int64_t n_planes);
std::unique_ptr<Kernel> block_average_pool(const Window& w, int64_t n_planes, bool count_padding);
std::unique_ptr<Kernel> block_global_average(int64_t n_batch, int64_t n_channels, int64_t n);

}  // namespace outrider::onnx
