// Arrays in channel blocks: [batch, channels, places...] f32 laid out as [batch, block, places...,
// 16], channel 16 b + l in lane l of block b. Convolutions between each other keep their arrays so;
// the planner lays them out in rows where an operator wants rows. Lanes behind the last channel
// hold anything and are read by nobody.
#pragma once
#include "onnx/kernel.h"

namespace outrider::onnx {

inline int64_t channel_blocks(int64_t n_channels) {
  return (n_channels + kChannelBlock - 1) / kChannelBlock;
}
// [batch, blocks, places..., 16]
Shape blocked_shape(const Shape& shape);
inline size_t blocked_bytes(const Shape& shape) {
  return static_cast<size_t>(blocked_shape(shape).n_values()) * sizeof(float);
}
// Is the array the same bytes in both layouts?
bool same_in_blocks(const Shape& shape);
// The array has this layout at all: f32, rank 3 to 5, not empty.
bool can_be_blocked(const TensorType& type);

std::unique_ptr<Kernel> rows_to_blocks(const Shape& shape);
std::unique_ptr<Kernel> blocks_to_rows(const Shape& shape);

}  // namespace outrider::onnx
