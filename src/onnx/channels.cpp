#include "onnx/channels.h"

#include "onnx/ops/broadcast.h"

namespace outrider::onnx {
namespace {

// n_lanes rows of n values, a row apart, to and from columns.
void rows_in(const float* from, int64_t n, int64_t n_lanes, float* to) {
  if (n_lanes == kChannelBlock) {
    for (int64_t p = 0; p < n; ++p)
      for (int64_t l = 0; l < kChannelBlock; ++l) to[p * kChannelBlock + l] = from[l * n + p];
    return;
  }
  for (int64_t p = 0; p < n; ++p)
    for (int64_t l = 0; l < kChannelBlock; ++l)
      to[p * kChannelBlock + l] = l < n_lanes ? from[l * n + p] : 0;
}
void rows_out(const float* from, int64_t n, int64_t n_lanes, float* to) {
  constexpr int64_t kAtOnce = 16;
  int64_t p = 0;
  for (; p + kAtOnce <= n; p += kAtOnce)
    for (int64_t l = 0; l < n_lanes; ++l)
      for (int64_t i = 0; i < kAtOnce; ++i) to[l * n + p + i] = from[(p + i) * kChannelBlock + l];
  for (int64_t l = 0; l < n_lanes; ++l)
    for (int64_t i = p; i < n; ++i) to[l * n + i] = from[i * kChannelBlock + l];
}

// f(rows, places, lanes, blocks) for every block of the array.
template <class F>
std::unique_ptr<Kernel> each_block(const Shape& shape, const F& f) {
  const int64_t n_channels = shape[1], n = shape.product(2, shape.rank()),
                n_blocks = channel_blocks(n_channels), n_items = shape[0] * n_blocks;
  return make_kernel([=](const Operands& o) {
    share_range(o.ops, n_items, n * kChannelBlock, [&](int64_t first, int64_t last) {
      for (int64_t item = first; item < last; ++item) {
        const int64_t batch = item / n_blocks, channel = item % n_blocks * kChannelBlock;
        f(o, (batch * n_channels + channel) * n, n, std::min(kChannelBlock, n_channels - channel),
          item * n * kChannelBlock);
      }
    });
  });
}

}  // namespace

Shape blocked_shape(const Shape& shape) {
  Shape out = shape;
  out[1] = channel_blocks(shape[1]);
  out.push_back(kChannelBlock);
  return out;
}

bool same_in_blocks(const Shape& shape) {
  return shape[1] % kChannelBlock == 0 && shape.product(2, shape.rank()) == 1;
}

bool can_be_blocked(const TensorType& type) {
  return type.dtype == DType::kF32 && type.shape.rank() >= 3 && type.shape.rank() <= 5 &&
         type.shape.n_values() > 0;
}

std::unique_ptr<Kernel> rows_to_blocks(const Shape& shape) {
  return each_block(shape,
                    [](const Operands& o, int64_t row, int64_t n, int64_t lanes, int64_t block) {
                      rows_in(o.input<float>(0) + row, n, lanes, o.output<float>(0) + block);
                    });
}

std::unique_ptr<Kernel> blocks_to_rows(const Shape& shape) {
  return each_block(shape,
                    [](const Operands& o, int64_t row, int64_t n, int64_t lanes, int64_t block) {
                      rows_out(o.input<float>(0) + block, n, lanes, o.output<float>(0) + row);
                    });
}

}  // namespace outrider::onnx
