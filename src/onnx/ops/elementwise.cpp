// Arithmetic of two arrays with broadcasting, and the operators that fold it over a list.
#include <cmath>
#include <type_traits>

#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"

namespace outrider::onnx {
namespace {

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                            static_cast<std::make_unsigned_t<T>>(b));
    else
      return a + b;
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) -
                            static_cast<std::make_unsigned_t<T>>(b));
    else
      return a - b;
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
};
// Whole numbers: toward zero; by zero gives 0, and the smallest by -1 wraps: no file may end the
// process.
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == T(-1)) return static_cast<T>(0 - static_cast<uint64_t>(a));
      }
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};
// A NaN on either side is the result.
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return b < a || b != b ? b : a;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return b > a || b != b ? b : a;
  }
};
// The sign of the divisor.
struct FloorMod {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0 || b == T(-1)) return 0;
      const T r = static_cast<T>(a % b);
      return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
    } else {
      return std::fmod(a, b);
    }
  }
};
// The sign of the dividend.
struct CMod {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return b == 0 || b == T(-1) ? T(0) : static_cast<T>(a % b);
    else
      return std::fmod(a, b);
  }
};

template <class T, class F>
void apply_row(const F& f, const T* a, int64_t sa, const T* b, int64_t sb, T* y, int64_t n) {
  if (sa == 1 && sb == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  } else if (sa == 1 && sb == 0) {
    const T value = *b;
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], value);
  } else if (sa == 0 && sb == 1) {
    const T value = *a;
    for (int64_t i = 0; i < n; ++i) y[i] = f(value, b[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i * sa], b[i * sb]);
  }
}

template <class T, class F>
std::unique_ptr<Kernel> binary_kernel(const Loops& loops, F f) {
  return make_kernel([loops, f](const Operands& o) {
    const T *a = o.input<T>(0), *b = o.input<T>(1);
    T* y = o.output<T>(0);
    const int64_t n = loops.inner(), sa = loops.inner_stride(0), sb = loops.inner_stride(1);
    share_range(o.ops, loops.n_rows(), n, [&](int64_t first, int64_t last) {
      loops.rows(first, last, [&](int64_t at, const int64_t* from) {
        apply_row(f, a + from[0], sa, b + from[1], sb, y + at, n);
      });
    });
  });
}

template <class F>
Prepared typed_binary(NodeContext& c, const Loops& loops, F f) {
  switch (c.dtype(0)) {
    case DType::kF32:
      return binary_kernel<float>(loops, f);
    case DType::kF64:
      return binary_kernel<double>(loops, f);
    case DType::kI64:
      return binary_kernel<int64_t>(loops, f);
    case DType::kI32:
      return binary_kernel<int32_t>(loops, f);
    case DType::kI8:
      return binary_kernel<int8_t>(loops, f);
    default:
      return binary_kernel<uint8_t>(loops, f);
  }
}

constexpr auto kNumbers = {DType::kF32, DType::kF64, DType::kI64,
                           DType::kI32, DType::kI8,  DType::kU8};

Result<void> check_pair(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 2));
  OUTRIDER_TRY(c.require_type(0, kNumbers));
  if (c.dtype(1) != c.dtype(0))
    return c.wrong("operands are %s and %s", short_type_name(c.dtype(0)),
                   short_type_name(c.dtype(1)));
  return {};
}

template <class F>
Prepared binary(NodeContext& c) {
  OUTRIDER_TRY(check_pair(c));
  const auto shape = broadcast_shape(c, c.shape(0), c.shape(1));
  if (!shape) return shape.error();
  c.output(0, c.dtype(0), shape.value());
  return typed_binary(c, Loops(shape.value(), {&c.shape(0), &c.shape(1)}), F{});
}

Prepared mod(NodeContext& c) {
  const bool c_like = c.integer("fmod", 0) != 0;
  const bool real = c.n_inputs() > 0 && (c.dtype(0) == DType::kF32 || c.dtype(0) == DType::kF64);
  if (!c_like && real) return c.wrong("real numbers need fmod=1");
  return c_like ? binary<CMod>(c) : binary<FloorMod>(c);
}

// ---- power: the base's type is the result's; the exponent may be of another
// -------------------------

template <class T, class E>
T power(T a, E b) {
  if constexpr (std::is_integral_v<T>) {
    const double value = std::pow(static_cast<double>(a), static_cast<double>(b));
    if (!(std::abs(value) < 9.2e18)) return 0;  // also NaN: no defined conversion
    return static_cast<T>(static_cast<int64_t>(value));
  } else {
    return static_cast<T>(std::pow(a, static_cast<T>(b)));
  }
}

template <class T, class E>
std::unique_ptr<Kernel> power_kernel(const Loops& loops) {
  return make_kernel([loops](const Operands& o) {
    const T* a = o.input<T>(0);
    const E* b = o.input<E>(1);
    T* y = o.output<T>(0);
    const int64_t n = loops.inner(), sa = loops.inner_stride(0), sb = loops.inner_stride(1);
    share_range(o.ops, loops.n_rows(), n * 8, [&](int64_t first, int64_t last) {
      loops.rows(first, last, [&](int64_t at, const int64_t* from) {
        const T* x = a + from[0];
        const E* e = b + from[1];
        // The exponents that networks have, without a call a value.
        if (sb == 0 && *e == E(2)) {
          for (int64_t i = 0; i < n; ++i) y[at + i] = Mul{}(x[i * sa], x[i * sa]);
        } else {
          for (int64_t i = 0; i < n; ++i) y[at + i] = power(x[i * sa], e[i * sb]);
        }
      });
    });
  });
}

template <class T>
Prepared power_of(NodeContext& c, const Loops& loops) {
  switch (c.dtype(1)) {
    case DType::kF32:
      return power_kernel<T, float>(loops);
    case DType::kF64:
      return power_kernel<T, double>(loops);
    case DType::kI64:
      return power_kernel<T, int64_t>(loops);
    default:
      return power_kernel<T, int32_t>(loops);
  }
}

Prepared pow_op(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 2));
  for (size_t i = 0; i < 2; ++i)
    OUTRIDER_TRY(c.require_type(i, {DType::kF32, DType::kF64, DType::kI64, DType::kI32}));
  const auto shape = broadcast_shape(c, c.shape(0), c.shape(1));
  if (!shape) return shape.error();
  c.output(0, c.dtype(0), shape.value());
  const Loops loops(shape.value(), {&c.shape(0), &c.shape(1)});
  switch (c.dtype(0)) {
    case DType::kF32:
      return power_of<float>(c, loops);
    case DType::kF64:
      return power_of<double>(c, loops);
    case DType::kI64:
      return power_of<int64_t>(c, loops);
    default:
      return power_of<int32_t>(c, loops);
  }
}

// ---- lists
// ---------------------------------------------------------------------------------------

// y = f(... f(f(in0, in1), in2) ...), then divided by the count for Mean.
template <class T, class F>
std::unique_ptr<Kernel> list_kernel(std::vector<Loops> loops, int64_t n_values, bool mean, F f) {
  return make_kernel([loops = std::move(loops), n_values, mean, f](const Operands& o) {
    T* y = o.output<T>(0);
    for (size_t k = 0; k < loops.size(); ++k) {
      const Loops& l = loops[k];
      const T* x = o.input<T>(k);
      const int64_t n = l.inner(), s = l.inner_stride(0);
      l.rows(0, l.n_rows(), [&](int64_t at, const int64_t* from) {
        for (int64_t i = 0; i < n; ++i) {
          const T value = x[from[0] + i * s];
          y[at + i] = k == 0 ? value : f(y[at + i], value);
        }
      });
    }
    if (mean)
      for (int64_t i = 0; i < n_values; ++i)
        y[i] = static_cast<T>(y[i] / static_cast<T>(loops.size()));
  });
}

template <class F>
Prepared list(NodeContext& c, bool mean) {
  if (c.n_inputs() == 0) return c.wrong("no inputs");
  OUTRIDER_TRY(c.require_inputs(c.n_inputs(), c.n_inputs()));
  OUTRIDER_TRY(c.require_type(0, kNumbers));
  Shape shape = c.shape(0);
  for (size_t i = 1; i < c.n_inputs(); ++i) {
    if (c.dtype(i) != c.dtype(0)) return c.wrong("its inputs have different element types");
    const auto wider = broadcast_shape(c, shape, c.shape(i));
    if (!wider) return wider.error();
    shape = wider.value();
  }
  c.output(0, c.dtype(0), shape);
  std::vector<Loops> loops;
  for (size_t i = 0; i < c.n_inputs(); ++i)
    loops.emplace_back(shape, std::initializer_list<const Shape*>{&c.shape(i)});
  const int64_t n = shape.n_values();
  switch (c.dtype(0)) {
    case DType::kF32:
      return list_kernel<float>(std::move(loops), n, mean, F{});
    case DType::kF64:
      return list_kernel<double>(std::move(loops), n, mean, F{});
    case DType::kI64:
      return list_kernel<int64_t>(std::move(loops), n, mean, F{});
    case DType::kI32:
      return list_kernel<int32_t>(std::move(loops), n, mean, F{});
    case DType::kI8:
      return list_kernel<int8_t>(std::move(loops), n, mean, F{});
    default:
      return list_kernel<uint8_t>(std::move(loops), n, mean, F{});
  }
}
template <class F>
Prepared fold(NodeContext& c) {
  return list<F>(c, false);
}
Prepared mean(NodeContext& c) {
  return list<Add>(c, true);
}

constexpr Operator kOperators[] = {
    {"Add", 7, kMaxOpset, binary<Add>, true, Channels::kEach},
    {"Sub", 7, kMaxOpset, binary<Sub>, true, Channels::kEach},
    {"Mul", 7, kMaxOpset, binary<Mul>, true, Channels::kEach},
    {"Div", 7, kMaxOpset, binary<Div>, true, Channels::kEach},
    {"Pow", 7, kMaxOpset, pow_op, true},
    {"Mod", 10, kMaxOpset, mod, true},
    {"Min", 6, kMaxOpset, fold<Min>, true, Channels::kEach},
    {"Max", 6, kMaxOpset, fold<Max>, true, Channels::kEach},
    {"Sum", 6, kMaxOpset, fold<Add>, true, Channels::kEach},
    {"Mean", 6, kMaxOpset, mean, true, Channels::kEach},
};

}  // namespace

std::span<const Operator> elementwise_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
