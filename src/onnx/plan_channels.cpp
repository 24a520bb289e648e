// Which arrays lie in channel blocks: an operator that does not read them gets rows.
#include <algorithm>
#include <cstring>

#include "onnx/channels.h"
#include "onnx/planner.h"

namespace outrider::onnx {

int Planner::in_rows(int v) {
  if (v < 0 || !value(v).blocked) return v;
  if (const auto found = in_rows_.find(v); found != in_rows_.end()) return found->second;
  const TensorType type = value(v).type;
  const int made = add_value(type);
  in_rows_[v] = made;
  // The last channels of one sample end before what nobody reads.
  if (type.shape.product(2, type.shape.rank()) == 1 &&
      (type.shape[0] == 1 || same_in_blocks(type.shape))) {
    values_.back().root = v;
    return made;
  }
  Step step;
  step.what = "Rows";
  step.in = {root_of(v)};
  step.out = {made};
  step.kernel = blocks_to_rows(type.shape);
  add_step(std::move(step));
  return made;
}

int Planner::in_blocks(int v) {
  if (v < 0 || value(v).blocked) return v;
  if (const auto found = in_blocks_.find(v); found != in_blocks_.end()) return found->second;
  const TensorType type = value(v).type;
  const int made = add_value(type);
  values_.back().blocked = true;
  in_blocks_[v] = made;
  if (same_in_blocks(type.shape)) {
    values_.back().root = v;
    return made;
  }
  Step step;
  step.what = "Blocks";
  step.in = {root_of(v)};
  step.out = {made};
  step.kernel = rows_to_blocks(type.shape);
  add_step(std::move(step));
  return made;
}

// One value for each channel, as it is broadcast to arrays of `rank` dimensions in blocks; kBroken
// when the constant is none such.
int Planner::constant_in_blocks(int v, int64_t n_channels, int rank) {
  const Shape shape = value(v).type.shape;
  const int at = shape.rank() - (rank - 1);  // of the channels
  if (value(v).type.dtype != DType::kF32 || at < 0 || at > 1 || shape[at] != n_channels ||
      shape.n_values() != n_channels)
    return kBroken;
  Shape wide = shape;
  if (at == 0) {
    wide = Shape{1};
    for (const int64_t dim : shape.dims()) wide.push_back(dim);
  }
  wide = blocked_shape(wide);
  auto copy = std::make_shared<std::vector<float>>(static_cast<size_t>(wide.n_values()), 0.0f);
  std::memcpy(copy->data(), value(v).constant, static_cast<size_t>(n_channels) * sizeof(float));
  const int made = add_value({DType::kF32, wide});
  values_.back().constant = reinterpret_cast<const std::byte*>(copy->data());
  values_.back().owner = std::move(copy);
  return made;
}

// Inputs of an operator that treats every value alone, so that they are broadcast to each other
// with their channels in blocks. False: they cannot be.
bool Planner::blocks_of_each(std::vector<int>& inputs, int64_t& n_channels) {
  const auto first =
      std::ranges::find_if(inputs, [&](int v) { return v >= 0 && value(v).blocked; });
  if (first == inputs.end()) return false;
  const Shape shape = value(*first).type.shape;
  n_channels = shape[1];
  std::vector<int> made = inputs;
  for (int& v : made) {
    if (v < 0) continue;
    const TensorType type = value(v).type;
    if (value(v).blocked) {
      if (type.shape.rank() != shape.rank() || type.shape[1] != n_channels) return false;
    } else if (type.shape.n_values() == 1 && type.shape.rank() <= shape.rank()) {
      continue;
    } else if (value(v).constant != nullptr) {
      v = constant_in_blocks(v, n_channels, shape.rank());
      if (v < 0) return false;
    } else {
      const bool fits = type.shape.rank() == shape.rank() && type.shape[1] == n_channels &&
                        (type.shape == shape || type.shape.product(2, type.shape.rank()) == 1);
      if (!fits || !can_be_blocked(type)) return false;
      v = in_blocks(v);
    }
  }
  inputs = made;
  return true;
}

Step* Planner::maker_of(int v) {
  for (auto step = plan_->steps_.rbegin(); step != plan_->steps_.rend(); ++step)
    if (std::ranges::find(step->out, v) != step->out.end()) return &*step;
  return nullptr;
}

// The value of a node that the step before it computes along with its own; kBroken: none does.
int Planner::absorbed(const Node& node, const std::vector<int>& inputs) {
  if (!node.domain.empty() || node.sole == 0) return kBroken;
  if (node.op == "Add" && inputs.size() == 2) return absorbed_add(node, inputs);
  const Activation activation = node.op == "Relu"        ? Activation::kRelu
                                : node.op == "HardSwish" ? Activation::kHardSwish
                                                         : Activation::kNone;
  if (activation == Activation::kNone || inputs.size() != 1 || inputs[0] < 0 ||
      !value(inputs[0]).blocked)
    return kBroken;
  Step* maker = maker_of(inputs[0]);
  return maker != nullptr && maker->kernel->absorb(activation) ? inputs[0] : kBroken;
}

// The later of both makers adds what the other has made already.
int Planner::absorbed_add(const Node& node, const std::vector<int>& inputs) {
  if (inputs[0] < 0 || inputs[1] < 0 || inputs[0] == inputs[1]) return kBroken;
  for (size_t i = 0; i < 2; ++i) {
    const int v = inputs[i], other = inputs[1 - i];
    if ((node.sole >> i & 1) == 0 || !value(v).blocked || !value(other).blocked ||
        value(v).type != value(other).type)
      continue;
    Step *maker = maker_of(v), *earlier = maker_of(root_of(other));
    // A step without a maker is a look at an input.
    if (maker == nullptr || (earlier != nullptr && earlier >= maker)) continue;
    if (!maker->kernel->absorb_add()) continue;
    maker->in.resize(Kernel::kAdded, kLeftOut);
    maker->in.push_back(root_of(other));
    return v;
  }
  return kBroken;
}

}  // namespace outrider::onnx
