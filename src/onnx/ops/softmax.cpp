// Softmax and its kin along one axis; before opset 13 along everything from the axis on.
#include <cmath>
#include <vector>

#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"

namespace outrider::onnx {
namespace {

enum class Kind : uint8_t { kSoftmax, kLogSoftmax, kHardmax };

struct Lines {
  int64_t n_rows = 0, size = 0, run = 0;  // [n_rows, size, run], along size
};

template <class T>
void softmax_line(const T* x, T* y, const Lines& l, Kind kind) {
  T top = x[0];
  int64_t best = 0;
  for (int64_t i = 1; i < l.size; ++i) {
    const T value = x[i * l.run];
    if (value > top || value != value) top = value, best = i;
  }
  if (kind == Kind::kHardmax) {
    for (int64_t i = 0; i < l.size; ++i) y[i * l.run] = T(i == best);
    return;
  }
  double sum = 0;
  for (int64_t i = 0; i < l.size; ++i) {
    const T e = std::exp(x[i * l.run] - top);
    if (kind == Kind::kSoftmax) y[i * l.run] = e;
    sum += static_cast<double>(e);
  }
  const T log_sum = static_cast<T>(std::log(sum)), factor = static_cast<T>(1 / sum);
  for (int64_t i = 0; i < l.size; ++i)
    y[i * l.run] = kind == Kind::kSoftmax ? y[i * l.run] * factor : x[i * l.run] - top - log_sum;
}

template <class T>
std::unique_ptr<Kernel> softmax_kernel(const Lines& l, Kind kind) {
  return make_kernel([l, kind](const Operands& o) {
    share_range(o.ops, l.n_rows * l.run, l.size * 8, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t at = i / l.run * l.size * l.run + i % l.run;
        softmax_line(o.input<T>(0) + at, o.output<T>(0) + at, l, kind);
      }
    });
  });
}

Prepared along(NodeContext& c, Kind kind, bool one_axis) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  OUTRIDER_TRY(c.require_type(0, {DType::kF32, DType::kF64}));
  const Shape& in = c.shape(0);
  const int64_t wanted = c.integer("axis", one_axis ? -1 : 1);
  Lines l;
  if (!one_axis && wanted == in.rank()) {
    l = {in.n_values(), 1, 1};
  } else {
    const auto axis = c.axis(wanted, in.rank());
    if (!axis) return axis.error();
    const int a = axis.value();
    l = one_axis ? Lines{in.product(0, a), in[a], in.product(a + 1, in.rank())}
                 : Lines{in.product(0, a), in.product(a, in.rank()), 1};
  }
  c.output(0, c.dtype(0), in);
  if (l.size == 0) l.n_rows = 0;
  if (c.dtype(0) == DType::kF64) return softmax_kernel<double>(l, kind);
  return softmax_kernel<float>(l, kind);
}

template <Kind kKind>
Prepared flat(NodeContext& c) {
  return along(c, kKind, false);
}
template <Kind kKind>
Prepared axis(NodeContext& c) {
  return along(c, kKind, true);
}

constexpr Operator kOperators[] = {
    {"Hardmax", 1, 12, flat<Kind::kHardmax>, true},
    {"Hardmax", 13, kMaxOpset, axis<Kind::kHardmax>, true},
    {"LogSoftmax", 1, 12, flat<Kind::kLogSoftmax>, true},
    {"LogSoftmax", 13, kMaxOpset, axis<Kind::kLogSoftmax>, true},
    {"Softmax", 1, 12, flat<Kind::kSoftmax>, true},
    {"Softmax", 13, kMaxOpset, axis<Kind::kSoftmax>, true},
};

}  // namespace

std::span<const Operator> softmax_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
