// Operators that only look at shapes, or see the same values with another one.
#include <algorithm>
#include <cstring>

#include "onnx/operators.h"

namespace outrider::onnx {
namespace {

Prepared look(NodeContext& c, const Shape& shape) {
  c.output_is_input(0, 0, shape);
  return std::unique_ptr<Kernel>();
}

Prepared identity(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  return look(c, c.shape(0));
}

// At inference nothing is dropped; from opset 12 on the mask says that everything was kept.
Prepared dropout(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 3));
  if (c.has(2)) {
    const auto training = c.known_number(2, "training_mode");
    if (!training) return training.error();
    if (training.value() != 0) return c.unsupported("training mode is random");
  }
  c.output_is_input(0, 0, c.shape(0));
  if (!c.wants(1)) return std::unique_ptr<Kernel>();
  const DType type = c.opset() < 10 ? c.dtype(0) : DType::kBool;  // older ones: the input's own
  c.output(1, type, c.shape(0));
  const size_t n_bytes = TensorType{type, c.shape(0)}.n_bytes();
  // Before opset 12 the standard left the values open; they are 0 here as in onnxruntime.
  const int value = c.opset() < 12 ? 0 : 1;
  return make_kernel([=](const Operands& o) { std::memset(o.out[1], value, n_bytes); });
}

Prepared reshape(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 2));
  const auto wanted = c.known_ints(1, "the shape");
  if (!wanted) return wanted.error();
  if (wanted.value().size() > kMaxRank)
    return c.unsupported("%zu dimensions, this build has %zu", wanted.value().size(), kMaxRank);
  const bool zero_is_zero = c.integer("allowzero", 0) != 0;
  Shape shape;
  int free = -1;
  for (size_t i = 0; i < wanted.value().size(); ++i) {
    int64_t size = wanted.value()[i];
    if (size == 0 && !zero_is_zero) {
      if (static_cast<int>(i) >= c.shape(0).rank())
        return c.wrong("dimension %zu is copied from a shape of rank %d", i, c.shape(0).rank());
      size = c.shape(0)[static_cast<int>(i)];
    }
    if (size < -1 || (size == -1 && free >= 0))
      return c.wrong("dimension %zu is %lld", i, static_cast<long long>(size));
    if (size == -1) free = static_cast<int>(i);
    shape.push_back(size);
  }
  const int64_t n = c.shape(0).n_values();
  int64_t rest = 1;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != free && __builtin_mul_overflow(rest, shape[i], &rest))
      return c.wrong("its dimensions multiply to more than 2^63");
  if (free >= 0) shape[free] = rest == 0 ? 0 : n / rest;
  if (free >= 0 && rest == 0) return c.wrong("dimension %d cannot be told from 0 values", free);
  if ((free >= 0 ? rest * shape[free] : rest) != n)
    return c.wrong("%s cannot become %s", c.shape(0).text().c_str(), shape.text().c_str());
  return look(c, shape);
}

Prepared flatten(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  const int rank = c.shape(0).rank();
  int64_t axis = c.integer("axis", 1);
  if (axis < -rank || axis > rank) return c.wrong("axis %lld", static_cast<long long>(axis));
  if (axis < 0) axis += rank;
  const int a = static_cast<int>(axis);
  return look(c, {c.shape(0).product(0, a), c.shape(0).product(a, rank)});
}

// The axes of Squeeze and Unsqueeze: an attribute up to opset 12, an input after it.
Result<std::vector<int64_t>> axes_of(NodeContext& c) {
  if (c.opset() < 13) return c.integers("axes");
  if (!c.has(1)) return std::vector<int64_t>();
  return c.known_ints(1, "axes");
}

Prepared squeeze(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 2));
  const auto axes = axes_of(c);
  if (!axes) return axes.error();
  const Shape& in = c.shape(0);
  std::vector<bool> gone(static_cast<size_t>(in.rank()), false);
  for (const int64_t axis : axes.value()) {
    const auto a = c.axis(axis, in.rank());
    if (!a) return a.error();
    if (in[a.value()] != 1)
      return c.wrong("dimension %d of %s is not 1", a.value(), in.text().c_str());
    gone[static_cast<size_t>(a.value())] = true;
  }
  Shape shape;
  for (int i = 0; i < in.rank(); ++i)
    if (axes.value().empty() ? in[i] != 1 : !gone[static_cast<size_t>(i)]) shape.push_back(in[i]);
  return look(c, shape);
}

Prepared unsqueeze(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 2));
  const auto axes = axes_of(c);
  if (!axes) return axes.error();
  const int rank = c.shape(0).rank() + static_cast<int>(std::min<size_t>(axes.value().size(), 64));
  if (rank > static_cast<int>(kMaxRank)) return c.unsupported("rank %d", rank);
  std::vector<bool> added(static_cast<size_t>(rank), false);
  for (const int64_t axis : axes.value()) {
    const auto a = c.axis(axis, rank);
    if (!a) return a.error();
    if (added[static_cast<size_t>(a.value())]) return c.wrong("axis %d twice", a.value());
    added[static_cast<size_t>(a.value())] = true;
  }
  Shape shape;
  for (int i = 0, from = 0; i < rank; ++i)
    shape.push_back(added[static_cast<size_t>(i)] ? 1 : c.shape(0)[from++]);
  return look(c, shape);
}

// A known i64 array, though its input may not be known: made as a kernel without inputs to read.
Prepared known(NodeContext& c, const Shape& shape, std::vector<int64_t> values) {
  c.output(0, DType::kI64, shape);
  c.outputs_are_known();
  return make_kernel([values = std::move(values)](const Operands& o) {
    std::copy(values.begin(), values.end(), o.output<int64_t>(0));
  });
}

Prepared shape_op(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  const int64_t rank = c.shape(0).rank();
  const auto bound = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t first = bound(c.integer("start", 0)), last = bound(c.integer("end", rank));
  std::vector<int64_t> dims;
  for (int64_t i = first; i < last; ++i) dims.push_back(c.shape(0)[static_cast<int>(i)]);
  const Shape shape{static_cast<int64_t>(dims.size())};
  return known(c, shape, std::move(dims));
}

Prepared size_op(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  return known(c, {}, {c.shape(0).n_values()});
}

Prepared constant_of_shape(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  const auto dims = c.known_ints(0, "the shape");
  if (!dims) return dims.error();
  if (dims.value().size() > kMaxRank) return c.unsupported("%zu dimensions", dims.value().size());
  const Attribute* a = c.node().find("value");
  if (a != nullptr &&
      (a->kind != Attribute::Kind::kTensor || !a->tensor.computable || a->tensor.n_values() != 1))
    return c.unsupported("value is no single number of a type this build has");
  const DType dtype = a != nullptr ? a->tensor.dtype : DType::kF32;
  const Shape shape(dims.value());
  for (const int64_t dim : shape.dims())
    if (dim < 0) return c.wrong("the shape is %s", shape.text().c_str());
  c.output(0, dtype, shape);
  std::vector<std::byte> value(dtype_bytes(dtype));
  if (a != nullptr) std::copy_n(a->tensor.data, value.size(), value.begin());
  return make_kernel([value, shape](const Operands& o) {
    std::byte* y = o.out[0];
    const int64_t n = shape.n_values();
    for (int64_t i = 0; i < n; ++i) y = std::copy(value.begin(), value.end(), y);
  });
}

constexpr Operator kOperators[] = {
    {"ConstantOfShape", 9, kMaxOpset, constant_of_shape},
    {"Dropout", 7, kMaxOpset, dropout},
    {"Flatten", 1, kMaxOpset, flatten},
    {"Identity", 1, kMaxOpset, identity},
    {"Reshape", 5, kMaxOpset, reshape},
    {"Shape", 1, kMaxOpset, shape_op},
    {"Size", 1, kMaxOpset, size_op},
    {"Squeeze", 1, kMaxOpset, squeeze},
    {"Unsqueeze", 1, kMaxOpset, unsqueeze},
};

}  // namespace

std::span<const Operator> shape_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
