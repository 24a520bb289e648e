// Pools over arrays in channel blocks: sixteen channels at a time, the same values in the same
// order as those over rows.
#include <limits>

#include "onnx/channels.h"
#include "onnx/ops/broadcast.h"
#include "onnx/ops/pool.h"

namespace outrider::onnx {
namespace {

// f(block of x, block of y) for every block.
template <class F>
void each_plane(const Operands& o, const Window& w, int64_t n_planes, const F& f) {
  share_range(o.ops, n_planes, w.n_out() * w.n_kernel() * kChannelBlock,
              [&](int64_t first, int64_t last) {
                for (int64_t plane = first; plane < last; ++plane)
                  f(o.input<float>(0) + plane * w.n_in() * kChannelBlock,
                    o.output<float>(0) + plane * w.n_out() * kChannelBlock);
              });
}

// One place: the largest of its window in every lane.
void largest(const Window& w, const float* x, const Part& a, const Part& b, const Part& e,
             float* y) {
  float best[kChannelBlock];
  for (float& lane : best) lane = std::numeric_limits<float>::lowest();
  for (int64_t i = a.first, zi = a.at; i < a.last; ++i, zi += w.dilation[0])
    for (int64_t j = b.first, yi = b.at; j < b.last; ++j, yi += w.dilation[1])
      for (int64_t k = e.first, xi = e.at; k < e.last; ++k, xi += w.dilation[2]) {
        const float* from = x + ((zi * w.in[1] + yi) * w.in[2] + xi) * kChannelBlock;
        for (int64_t l = 0; l < kChannelBlock; ++l) best[l] = larger(from[l], best[l]);
      }
  for (int64_t l = 0; l < kChannelBlock; ++l) y[l] = best[l];
}

inline void add_lanes(const float* from, double* sums) {
  for (int64_t l = 0; l < kChannelBlock; ++l) sums[l] += static_cast<double>(from[l]);
}

void mean(const Window& w, const float* x, const Part& a, const Part& b, const Part& e, int64_t n,
          float* y) {
  double sum[kChannelBlock] = {};
  for (int64_t i = a.first, zi = a.at; i < a.last; ++i, zi += w.dilation[0])
    for (int64_t j = b.first, yi = b.at; j < b.last; ++j, yi += w.dilation[1])
      for (int64_t k = e.first, xi = e.at; k < e.last; ++k, xi += w.dilation[2]) {
        const float* from = x + ((zi * w.in[1] + yi) * w.in[2] + xi) * kChannelBlock;
        add_lanes(from, sum);
      }
  for (int64_t l = 0; l < kChannelBlock; ++l)
    y[l] = n == 0 ? 0 : static_cast<float>(sum[l] / static_cast<double>(n));
}

}  // namespace

std::unique_ptr<Kernel> block_max_pool(const Window& w, int64_t n_planes) {
  return make_kernel([=](const Operands& o) {
    each_plane(o, w, n_planes, [&](const float* x, float* y) {
      each_window(w, [&](int64_t at, const Part& a, const Part& b, const Part& e) {
        largest(w, x, a, b, e, y + at * kChannelBlock);
      });
    });
  });
}

std::unique_ptr<Kernel> block_average_pool(const Window& w, int64_t n_planes, bool count_padding) {
  return make_kernel([=](const Operands& o) {
    each_plane(o, w, n_planes, [&](const float* x, float* y) {
      each_window(w, [&](int64_t at, const Part& a, const Part& b, const Part& e) {
        mean(w, x, a, b, e, n_counted(w, at, a, b, e, count_padding), y + at * kChannelBlock);
      });
    });
  });
}

// Places in eight chains, as over rows, so that the sums are the same.
std::unique_ptr<Kernel> block_global_average(int64_t n_batch, int64_t n_channels, int64_t n) {
  return make_kernel([=](const Operands& o) {
    const int64_t n_blocks = channel_blocks(n_channels);
    share_range(o.ops, n_batch * n_blocks, n * kChannelBlock, [&](int64_t first, int64_t last) {
      for (int64_t item = first; item < last; ++item) {
        const float* x = o.input<float>(0) + item * n * kChannelBlock;
        constexpr int64_t kSums = 8;
        double sums[kSums][kChannelBlock] = {};
        int64_t p = 0;
        for (; p + kSums <= n; p += kSums)
          for (int64_t k = 0; k < kSums; ++k) add_lanes(x + (p + k) * kChannelBlock, sums[k]);
        for (; p < n; ++p) add_lanes(x + p * kChannelBlock, sums[0]);
        const int64_t channel = item % n_blocks * kChannelBlock;
        float* y = o.output<float>(0) + item / n_blocks * n_channels + channel;
        for (int64_t l = 0; l < std::min(kChannelBlock, n_channels - channel); ++l) {
          double sum = 0;
          for (const auto& part : sums) sum += part[l];
          y[l] = static_cast<float>(sum / static_cast<double>(n));
        }
      }
    });
  });
}

}  // namespace outrider::onnx
