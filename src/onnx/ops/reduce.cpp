// Reductions over axes, and the place of the largest or smallest value. Sums of f32 are taken in
// double, in the order of the file's array.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"

namespace outrider::onnx {
namespace {

// One output is reduced over `n_inner` values, found by two lists of offsets.
struct Reduction {
  std::vector<int64_t> outer, inner;  // element offsets: of each output, of each value within it
};

Reduction make_reduction(const Shape& in, const std::vector<bool>& reduced) {
  Reduction r{{0}, {0}};
  int64_t stride[kMaxRank], step = 1;
  for (int d = in.rank() - 1; d >= 0; --d) {
    stride[d] = step;
    step *= in[d];
  }
  for (int d = 0; d < in.rank(); ++d) {
    auto& list = reduced[static_cast<size_t>(d)] ? r.inner : r.outer;
    std::vector<int64_t> wider;
    wider.reserve(list.size() * static_cast<size_t>(in[d]));
    for (const int64_t base : list)
      for (int64_t i = 0; i < in[d]; ++i) wider.push_back(base + i * stride[d]);
    list = std::move(wider);
  }
  return r;
}

template <class T>
using Sum = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

struct SumOf {
  template <class T>
  T operator()(const T* x, const std::vector<int64_t>& at) const {
    Sum<T> sum = 0;
    for (const int64_t i : at) sum += x[i];
    return static_cast<T>(sum);
  }
};
struct MeanOf {
  template <class T>
  T operator()(const T* x, const std::vector<int64_t>& at) const {
    Sum<T> sum = 0;
    for (const int64_t i : at) sum += x[i];
    return at.empty() ? T(0) : static_cast<T>(sum / static_cast<Sum<T>>(at.size()));
  }
};
struct L1Of {
  template <class T>
  T operator()(const T* x, const std::vector<int64_t>& at) const {
    Sum<T> sum = 0;
    for (const int64_t i : at) sum += x[i] < 0 ? -Sum<T>(x[i]) : Sum<T>(x[i]);
    return static_cast<T>(sum);
  }
};
struct SquareOf {
  template <class T>
  T operator()(const T* x, const std::vector<int64_t>& at) const {
    Sum<T> sum = 0;
    for (const int64_t i : at) sum += Sum<T>(x[i]) * Sum<T>(x[i]);
    return static_cast<T>(sum);
  }
};
struct L2Of {
  template <class T>
  T operator()(const T* x, const std::vector<int64_t>& at) const {
    double sum = 0;
    for (const int64_t i : at) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return static_cast<T>(std::sqrt(sum));
  }
};
struct ProductOf {
  template <class T>
  T operator()(const T* x, const std::vector<int64_t>& at) const {
    Sum<T> product = 1;
    for (const int64_t i : at) product *= x[i];
    return static_cast<T>(product);
  }
};
struct LogSumOf {
  template <class T>
  T operator()(const T* x, const std::vector<int64_t>& at) const {
    double sum = 0;
    for (const int64_t i : at) sum += static_cast<double>(x[i]);
    return static_cast<T>(std::log(sum));
  }
};
struct LogSumExpOf {
  template <class T>
  T operator()(const T* x, const std::vector<int64_t>& at) const {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (const int64_t i : at) top = std::max(top, static_cast<double>(x[i]));
    if (std::isinf(top)) return static_cast<T>(top);
    for (const int64_t i : at) sum += std::exp(static_cast<double>(x[i]) - top);
    return static_cast<T>(top + std::log(sum));
  }
};
// A NaN is the result; of nothing, the identity.
struct MaxOf {
  template <class T>
  T operator()(const T* x, const std::vector<int64_t>& at) const {
    T best = std::is_floating_point_v<T> ? static_cast<T>(-std::numeric_limits<float>::infinity())
                                         : std::numeric_limits<T>::lowest();
    for (const int64_t i : at) best = x[i] > best || x[i] != x[i] ? x[i] : best;
    return best;
  }
};
struct MinOf {
  template <class T>
  T operator()(const T* x, const std::vector<int64_t>& at) const {
    T best = std::is_floating_point_v<T> ? static_cast<T>(std::numeric_limits<float>::infinity())
                                         : std::numeric_limits<T>::max();
    for (const int64_t i : at) best = x[i] < best || x[i] != x[i] ? x[i] : best;
    return best;
  }
};

template <class T, class F>
std::unique_ptr<Kernel> reduce_kernel(Reduction r) {
  return make_kernel([r = std::move(r)](const Operands& o) {
    const T* x = o.input<T>(0);
    T* y = o.output<T>(0);
    const auto n = static_cast<int64_t>(r.outer.size()),
               each = static_cast<int64_t>(r.inner.size());
    share_range(o.ops, n, each, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        y[i] = F{}(x + r.outer[static_cast<size_t>(i)], r.inner);
    });
  });
}

// Axes are an attribute or an input: each Reduce moved from one to the other at its own opset.
template <class F, int kInputSince, bool kWhole>
Prepared reduce(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 2));
  std::vector<int64_t> axes = c.integers("axes");
  if (c.opset() >= kInputSince && c.has(1)) {
    auto list = c.known_ints(1, "axes");
    if (!list) return list.error();
    axes = std::move(list.value());
  }
  const Shape& in = c.shape(0);
  if (axes.empty() && c.integer("noop_with_empty_axes", 0) != 0) {
    c.output_is_input(0, 0, in);
    return std::unique_ptr<Kernel>();
  }
  std::vector<bool> reduced(static_cast<size_t>(in.rank()), axes.empty());
  for (const int64_t axis : axes) {
    const auto a = c.axis(axis, in.rank());
    if (!a) return a.error();
    reduced[static_cast<size_t>(a.value())] = true;
  }
  const bool keep = c.integer("keepdims", 1) != 0;
  Shape out;
  for (int d = 0; d < in.rank(); ++d) {
    if (!reduced[static_cast<size_t>(d)])
      out.push_back(in[d]);
    else if (keep)
      out.push_back(1);
  }
  c.output(0, c.dtype(0), out);
  Reduction r = make_reduction(in, reduced);
  switch (c.dtype(0)) {
    case DType::kF32:
      return reduce_kernel<float, F>(std::move(r));
    case DType::kF64:
      return reduce_kernel<double, F>(std::move(r));
    case DType::kI64:
      return reduce_kernel<int64_t, F>(std::move(r));
    case DType::kI32:
      return reduce_kernel<int32_t, F>(std::move(r));
    case DType::kI8:
      if (kWhole) return reduce_kernel<int8_t, F>(std::move(r));
      break;
    case DType::kU8:
      if (kWhole) return reduce_kernel<uint8_t, F>(std::move(r));
      break;
    case DType::kBool:
      if (kWhole && c.opset() >= 20) return reduce_kernel<uint8_t, F>(std::move(r));
      break;
    default:
      break;
  }
  return c.unsupported("of %s", short_type_name(c.dtype(0)));
}

// ---- ArgMax, ArgMin
// ----------------------------------------------------------------------------------

template <class T>
std::unique_ptr<Kernel> arg_kernel(int64_t n_rows, int64_t size, int64_t run, bool largest,
                                   bool last) {
  return make_kernel([=](const Operands& o) {
    const T* x = o.input<T>(0);
    int64_t* y = o.output<int64_t>(0);
    for (int64_t row = 0; row < n_rows; ++row)
      for (int64_t j = 0; j < run; ++j) {
        const T* from = x + row * size * run + j;
        int64_t best = 0;
        for (int64_t i = 1; i < size; ++i) {
          const T a = from[i * run], b = from[best * run];
          if (largest ? a > b || (last && a == b) : a < b || (last && a == b)) best = i;
        }
        y[row * run + j] = best;
      }
  });
}

template <bool kLargest>
Prepared arg(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  const Shape& in = c.shape(0);
  const auto axis = c.axis(c.integer("axis", 0), in.rank());
  if (!axis) return axis.error();
  const int a = axis.value();
  if (in[a] == 0) return c.wrong("of nothing");
  Shape out;
  for (int d = 0; d < in.rank(); ++d) {
    if (d != a)
      out.push_back(in[d]);
    else if (c.integer("keepdims", 1) != 0)
      out.push_back(1);
  }
  c.output(0, DType::kI64, out);
  const int64_t n_rows = in.product(0, a), run = in.product(a + 1, in.rank()), size = in[a];
  const bool last = c.integer("select_last_index", 0) != 0;
  switch (c.dtype(0)) {
    case DType::kF32:
      return arg_kernel<float>(n_rows, size, run, kLargest, last);
    case DType::kF64:
      return arg_kernel<double>(n_rows, size, run, kLargest, last);
    case DType::kI64:
      return arg_kernel<int64_t>(n_rows, size, run, kLargest, last);
    case DType::kI32:
      return arg_kernel<int32_t>(n_rows, size, run, kLargest, last);
    case DType::kI8:
      return arg_kernel<int8_t>(n_rows, size, run, kLargest, last);
    default:
      return arg_kernel<uint8_t>(n_rows, size, run, kLargest, last);
  }
}

constexpr Operator kOperators[] = {
    {"ArgMax", 1, kMaxOpset, arg<true>, true},
    {"ArgMin", 1, kMaxOpset, arg<false>, true},
    {"ReduceL1", 1, kMaxOpset, reduce<L1Of, 18, false>, true},
    {"ReduceL2", 1, kMaxOpset, reduce<L2Of, 18, false>, true},
    {"ReduceLogSum", 1, kMaxOpset, reduce<LogSumOf, 18, false>, true},
    {"ReduceLogSumExp", 1, kMaxOpset, reduce<LogSumExpOf, 18, false>, true},
    {"ReduceMax", 1, kMaxOpset, reduce<MaxOf, 18, true>, true},
    {"ReduceMean", 1, kMaxOpset, reduce<MeanOf, 18, false>, true},
    {"ReduceMin", 1, kMaxOpset, reduce<MinOf, 18, true>, true},
    {"ReduceProd", 1, kMaxOpset, reduce<ProductOf, 18, false>, true},
    {"ReduceSum", 1, kMaxOpset, reduce<SumOf, 13, false>, true},
    {"ReduceSumSquare", 1, kMaxOpset, reduce<SquareOf, 18, false>, true},
};

}  // namespace

std::span<const Operator> reduce_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
