// Truth values: comparisons, logic, tests of numbers.
#include <cmath>
#include <functional>

#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"

namespace outrider::onnx {
namespace {

template <class T, class F>
std::unique_ptr<Kernel> pair_kernel(const Loops& loops, F f) {
  return make_kernel([loops, f](const Operands& o) {
    const T *a = o.input<T>(0), *b = o.input<T>(1);
    uint8_t* y = o.output<uint8_t>(0);
    const int64_t n = loops.inner(), sa = loops.inner_stride(0), sb = loops.inner_stride(1);
    loops.rows(0, loops.n_rows(), [&](int64_t at, const int64_t* from) {
      for (int64_t i = 0; i < n; ++i) y[at + i] = f(a[from[0] + i * sa], b[from[1] + i * sb]);
    });
  });
}

Result<Loops> pair_loops(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 2));
  if (c.dtype(0) != c.dtype(1))
    return c.wrong("operands are %s and %s", short_type_name(c.dtype(0)),
                   short_type_name(c.dtype(1)));
  const auto shape = broadcast_shape(c, c.shape(0), c.shape(1));
  if (!shape) return shape.error();
  c.output(0, DType::kBool, shape.value());
  return Loops(shape.value(), {&c.shape(0), &c.shape(1)});
}

template <class F>
Prepared compare(NodeContext& c) {
  const auto loops = pair_loops(c);
  if (!loops) return loops.error();
  switch (c.dtype(0)) {
    case DType::kF32:
      return pair_kernel<float>(loops.value(), F{});
    case DType::kF64:
      return pair_kernel<double>(loops.value(), F{});
    case DType::kI64:
      return pair_kernel<int64_t>(loops.value(), F{});
    case DType::kI32:
      return pair_kernel<int32_t>(loops.value(), F{});
    case DType::kI8:
      return pair_kernel<int8_t>(loops.value(), F{});
    default:
      return pair_kernel<uint8_t>(loops.value(), F{});
  }
}

template <class F>
Prepared logic(NodeContext& c) {
  const auto loops = pair_loops(c);
  if (!loops) return loops.error();
  OUTRIDER_TRY(c.require_type(0, {DType::kBool}));
  return pair_kernel<uint8_t>(loops.value(), F{});
}

template <class T, class F>
std::unique_ptr<Kernel> test_kernel(int64_t n, F f) {
  return make_kernel([n, f](const Operands& o) {
    const T* x = o.input<T>(0);
    uint8_t* y = o.output<uint8_t>(0);
    for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  });
}

Prepared not_op(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  OUTRIDER_TRY(c.require_type(0, {DType::kBool}));
  c.output(0, DType::kBool, c.shape(0));
  return test_kernel<uint8_t>(c.shape(0).n_values(), [](uint8_t x) { return x == 0; });
}

template <class F>
Prepared test_real(NodeContext& c, F f) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  OUTRIDER_TRY(c.require_type(0, {DType::kF32, DType::kF64}));
  c.output(0, DType::kBool, c.shape(0));
  const int64_t n = c.shape(0).n_values();
  if (c.dtype(0) == DType::kF64) return test_kernel<double>(n, f);
  return test_kernel<float>(n, f);
}
Prepared is_nan(NodeContext& c) {
  return test_real(c, [](auto x) { return std::isnan(x); });
}
Prepared is_inf(NodeContext& c) {
  const bool above = c.integer("detect_positive", 1) != 0,
             below = c.integer("detect_negative", 1) != 0;
  return test_real(c, [above, below](auto x) { return std::isinf(x) && (x > 0 ? above : below); });
}

constexpr Operator kOperators[] = {
    {"And", 7, kMaxOpset, logic<std::logical_and<>>},
    {"Equal", 7, kMaxOpset, compare<std::equal_to<>>, true},
    {"Greater", 7, kMaxOpset, compare<std::greater<>>, true},
    {"GreaterOrEqual", 12, kMaxOpset, compare<std::greater_equal<>>, true},
    {"IsInf", 10, kMaxOpset, is_inf, true},
    {"IsNaN", 9, kMaxOpset, is_nan, true},
    {"Less", 7, kMaxOpset, compare<std::less<>>, true},
    {"LessOrEqual", 12, kMaxOpset, compare<std::less_equal<>>, true},
    {"Not", 1, kMaxOpset, not_op},
    {"Or", 7, kMaxOpset, logic<std::logical_or<>>},
    {"Xor", 7, kMaxOpset, logic<std::not_equal_to<>>},
};

}  // namespace

std::span<const Operator> compare_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
