// One array in, one of the same shape out.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"

namespace outrider::onnx {
namespace {

// y[i] = f(x[i], constants) for an element type.
template <class T, class F>
std::unique_ptr<Kernel> map_kernel(int64_t n, int64_t weight, F f) {
  return make_kernel([n, weight, f](const Operands& o) {
    const T* x = o.input<T>(0);
    T* y = o.output<T>(0);
    share_range(o.ops, n, weight, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) y[i] = f(x[i]);
    });
  });
}

constexpr int64_t kCheap = 1, kCostly = 16;

// f for f32 and f64.
template <class F>
Prepared map_real(NodeContext& c, int64_t weight, F f) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  OUTRIDER_TRY(c.require_type(0, {DType::kF32, DType::kF64}));
  c.output(0, c.dtype(0), c.shape(0));
  const int64_t n = c.shape(0).n_values();
  if (c.dtype(0) == DType::kF64) return map_kernel<double>(n, weight, f);
  return map_kernel<float>(n, weight, f);
}

// f for whole numbers too.
template <class F>
Prepared map_number(NodeContext& c, F f) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  OUTRIDER_TRY(c.require_type(
      0, {DType::kF32, DType::kF64, DType::kI64, DType::kI32, DType::kI8, DType::kU8}));
  c.output(0, c.dtype(0), c.shape(0));
  const int64_t n = c.shape(0).n_values();
  switch (c.dtype(0)) {
    case DType::kF32:
      return map_kernel<float>(n, kCheap, f);
    case DType::kF64:
      return map_kernel<double>(n, kCheap, f);
    case DType::kI64:
      return map_kernel<int64_t>(n, kCheap, f);
    case DType::kI32:
      return map_kernel<int32_t>(n, kCheap, f);
    case DType::kI8:
      return map_kernel<int8_t>(n, kCheap, f);
    default:
      return map_kernel<uint8_t>(n, kCheap, f);
  }
}

#define OUTRIDER_REAL(name, weight, expression)                                              \
  Prepared name(NodeContext& c) {                                                            \
    return map_real(c, weight, [](auto x) { return static_cast<decltype(x)>(expression); }); \
  }
OUTRIDER_REAL(exp_op, kCostly, std::exp(x))
OUTRIDER_REAL(log_op, kCostly, std::log(x))
OUTRIDER_REAL(sqrt_op, kCheap, std::sqrt(x))
OUTRIDER_REAL(reciprocal, kCheap, 1 / x)
OUTRIDER_REAL(floor_op, kCheap, std::floor(x))
OUTRIDER_REAL(ceil_op, kCheap, std::ceil(x))
OUTRIDER_REAL(round_op, kCheap, std::nearbyint(x))  // halves to even
OUTRIDER_REAL(sin_op, kCostly, std::sin(x))
OUTRIDER_REAL(cos_op, kCostly, std::cos(x))
OUTRIDER_REAL(tan_op, kCostly, std::tan(x))
OUTRIDER_REAL(asin_op, kCostly, std::asin(x))
OUTRIDER_REAL(acos_op, kCostly, std::acos(x))
OUTRIDER_REAL(atan_op, kCostly, std::atan(x))
OUTRIDER_REAL(sinh_op, kCostly, std::sinh(x))
OUTRIDER_REAL(cosh_op, kCostly, std::cosh(x))
OUTRIDER_REAL(asinh_op, kCostly, std::asinh(x))
OUTRIDER_REAL(acosh_op, kCostly, std::acosh(x))
OUTRIDER_REAL(atanh_op, kCostly, std::atanh(x))
OUTRIDER_REAL(erf_op, kCostly, std::erf(x))
OUTRIDER_REAL(softplus, kCostly, x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)))
OUTRIDER_REAL(softsign, kCheap, x / (1 + std::abs(x)))
OUTRIDER_REAL(mish, kCostly,
              x* std::tanh(x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x))))
#undef OUTRIDER_REAL

Prepared abs_op(NodeContext& c) {
  return map_number(c, [](auto x) { return x < 0 ? static_cast<decltype(x)>(0 - x) : x; });
}
Prepared neg_op(NodeContext& c) {
  return map_number(c, [](auto x) {
    if constexpr (std::is_integral_v<decltype(x)>)
      return static_cast<decltype(x)>(0 - static_cast<uint64_t>(x));
    else
      return -x;
  });
}
Prepared sign_op(NodeContext& c) {
  return map_number(c, [](auto x) { return static_cast<decltype(x)>((x > 0) - (x < 0)); });
}

// The ones that Ops has: on its vectors for f32, by formula for f64.
template <Activation kActivation>
Prepared activation(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  OUTRIDER_TRY(c.require_type(0, {DType::kF32, DType::kF64}));
  c.output(0, c.dtype(0), c.shape(0));
  const int64_t n = c.shape(0).n_values();
  if (c.dtype(0) == DType::kF64) {
    return map_kernel<double>(n, kCostly, [](double x) {
      if (kActivation == Activation::kRelu) return x < 0 ? 0 : x;
      return kActivation == Activation::kTanh ? std::tanh(x) : 1 / (1 + std::exp(-x));
    });
  }
  // Rows, so that threads can share them; any cut gives the same bits.
  const int64_t cols = n % 1024 == 0 && n > 1024 ? 1024 : n;
  return make_kernel([n, cols](const Operands& o) {
    if (n == 0) return;
    std::memcpy(o.out[0], o.in[0], static_cast<size_t>(n) * sizeof(float));
    o.ops->activate({o.output<float>(0), n / cols, cols}, kActivation);
  });
}

Prepared elu(NodeContext& c) {
  const float alpha = c.real("alpha", 1);
  if (alpha == 1 && c.n_inputs() == 1 && c.dtype(0) == DType::kF32)
    return activation<Activation::kElu>(c);
  return map_real(c, kCostly, [alpha](auto x) {
    return x > 0 ? x : static_cast<decltype(x)>(static_cast<decltype(x)>(alpha) * std::expm1(x));
  });
}
Prepared hard_swish(NodeContext& c) {
  if (c.n_inputs() == 1 && c.dtype(0) == DType::kF32) return activation<Activation::kHardSwish>(c);
  return map_real(c, kCheap, [](auto x) {
    using T = decltype(x);
    return static_cast<T>(x * std::max(T(0), std::min(T(1), static_cast<T>(x / 6 + T(0.5)))));
  });
}
Prepared celu(NodeContext& c) {
  const float alpha = c.real("alpha", 1);
  return map_real(c, kCostly, [alpha](auto x) {
    using T = decltype(x);
    return std::max(T(0), x) + std::min(T(0), static_cast<T>(T(alpha) * std::expm1(x / T(alpha))));
  });
}
Prepared selu(NodeContext& c) {
  const float alpha = c.real("alpha", 1.67326319217681884765625f),
              gamma = c.real("gamma", 1.05070102214813232421875f);
  return map_real(c, kCostly, [alpha, gamma](auto x) {
    using T = decltype(x);
    return static_cast<T>(T(gamma) * (x > 0 ? x : static_cast<T>(T(alpha) * std::expm1(x))));
  });
}
Prepared leaky_relu(NodeContext& c) {
  const float alpha = c.real("alpha", 0.01f);
  return map_real(c, kCheap, [alpha](auto x) {
    return x < 0 ? static_cast<decltype(x)>(x * static_cast<decltype(x)>(alpha)) : x;
  });
}
Prepared thresholded_relu(NodeContext& c) {
  const float alpha = c.real("alpha", 1);
  return map_real(c, kCheap, [alpha](auto x) {
    return x > static_cast<decltype(x)>(alpha) ? x : decltype(x)(0);
  });
}
Prepared hard_sigmoid(NodeContext& c) {
  const float alpha = c.real("alpha", 0.2f), beta = c.real("beta", 0.5f);
  return map_real(c, kCheap, [alpha, beta](auto x) {
    using T = decltype(x);
    return std::max(T(0), std::min(T(1), static_cast<T>(x * T(alpha) + T(beta))));
  });
}
Prepared shrink(NodeContext& c) {
  const float lambda = c.real("lambd", 0.5f), bias = c.real("bias", 0);
  return map_real(c, kCheap, [lambda, bias](auto x) {
    using T = decltype(x);
    return x < T(-lambda) ? x + T(bias) : x > T(lambda) ? x - T(bias) : T(0);
  });
}
Prepared gelu(NodeContext& c) {
  const std::string how = c.text("approximate", "none");
  if (how != "none" && how != "tanh") return c.wrong("approximate is \"%.20s\"", how.c_str());
  if (how == "tanh" && c.n_inputs() == 1 && c.dtype(0) == DType::kF32)
    return activation<Activation::kGeluTanh>(c);
  if (how == "tanh")
    return map_real(c, kCostly, [](auto x) {
      using T = decltype(x);
      return static_cast<T>(x / 2 *
                            (1 + std::tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x))));
    });
  return map_real(c, kCostly, [](auto x) {
    using T = decltype(x);
    return static_cast<T>(x / 2 * (1 + std::erf(x * T(0.7071067811865476))));
  });
}

// Limits are attributes up to opset 10, inputs of one value after it; they may depend on the
// inputs.
template <class T>
std::unique_ptr<Kernel> clip_kernel(int64_t n, bool low_given, bool high_given) {
  return make_kernel([n, low_given, high_given](const Operands& o) {
    const T* x = o.input<T>(0);
    T* y = o.output<T>(0);
    const T low = low_given ? *o.input<T>(1) : std::numeric_limits<T>::lowest(),
            high = high_given ? *o.input<T>(2) : std::numeric_limits<T>::max();
    // A NaN stays; without limits infinities stay too.
    for (int64_t i = 0; i < n; ++i) {
      T value = x[i];
      if (low_given && value < low) value = low;
      if (high_given && value > high) value = high;
      y[i] = value;
    }
  });
}

Prepared clip(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 3));
  OUTRIDER_TRY(c.require_type(
      0, {DType::kF32, DType::kF64, DType::kI64, DType::kI32, DType::kI8, DType::kU8}));
  c.output(0, c.dtype(0), c.shape(0));
  const int64_t n = c.shape(0).n_values();
  for (size_t i = 1; i < 3; ++i)
    if (c.has(i) && (c.dtype(i) != c.dtype(0) || c.shape(i).n_values() != 1))
      return c.wrong("limit %zu is %s", i, c.type(i).text().c_str());
  switch (c.dtype(0)) {
    case DType::kF32:
      return clip_kernel<float>(n, c.has(1), c.has(2));
    case DType::kF64:
      return clip_kernel<double>(n, c.has(1), c.has(2));
    case DType::kI64:
      return clip_kernel<int64_t>(n, c.has(1), c.has(2));
    case DType::kI32:
      return clip_kernel<int32_t>(n, c.has(1), c.has(2));
    case DType::kI8:
      return clip_kernel<int8_t>(n, c.has(1), c.has(2));
    default:
      return clip_kernel<uint8_t>(n, c.has(1), c.has(2));
  }
}
Prepared clip_attributes(NodeContext& c) {
  const float low = c.real("min", std::numeric_limits<float>::lowest()),
              high = c.real("max", std::numeric_limits<float>::max());
  return map_real(c, kCheap, [low, high](auto x) {
    using T = decltype(x);
    return x < T(low) ? T(low) : x > T(high) ? T(high) : x;
  });
}

Prepared prelu(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 2));
  OUTRIDER_TRY(c.require_type(0, {DType::kF32}));
  OUTRIDER_TRY(c.require_type(1, {DType::kF32}));
  const auto shape = broadcast_shape(c, c.shape(0), c.shape(1));
  if (!shape) return shape.error();
  if (!(shape.value() == c.shape(0)))
    return c.wrong("slope %s is larger than its input", c.shape(1).text().c_str());
  c.output(0, DType::kF32, shape.value());
  return make_kernel([loops = Loops(shape.value(), {&c.shape(0), &c.shape(1)})](const Operands& o) {
    const float *x = o.input<float>(0), *slope = o.input<float>(1);
    float* y = o.output<float>(0);
    const int64_t n = loops.inner(), sx = loops.inner_stride(0), ss = loops.inner_stride(1);
    loops.rows(0, loops.n_rows(), [&](int64_t at, const int64_t* from) {
      for (int64_t i = 0; i < n; ++i) {
        const float value = x[from[0] + i * sx];
        y[at + i] = value < 0 ? value * slope[from[1] + i * ss] : value;
      }
    });
  });
}

constexpr Operator kOperators[] = {
    {"Abs", 6, kMaxOpset, abs_op, true, Channels::kEach},
    {"Acos", 7, kMaxOpset, acos_op, true, Channels::kEach},
    {"Acosh", 9, kMaxOpset, acosh_op, true, Channels::kEach},
    {"Asin", 7, kMaxOpset, asin_op, true, Channels::kEach},
    {"Asinh", 9, kMaxOpset, asinh_op, true, Channels::kEach},
    {"Atan", 7, kMaxOpset, atan_op, true, Channels::kEach},
    {"Atanh", 9, kMaxOpset, atanh_op, true, Channels::kEach},
    {"Ceil", 6, kMaxOpset, ceil_op, true, Channels::kEach},
    {"Celu", 12, kMaxOpset, celu, true, Channels::kEach},
    {"Clip", 6, 10, clip_attributes, true, Channels::kEach},
    {"Clip", 11, kMaxOpset, clip, true, Channels::kEach},
    {"Cos", 7, kMaxOpset, cos_op, true, Channels::kEach},
    {"Cosh", 9, kMaxOpset, cosh_op, true, Channels::kEach},
    {"Elu", 6, kMaxOpset, elu, true, Channels::kEach},
    {"Erf", 9, kMaxOpset, erf_op, true, Channels::kEach},
    {"Exp", 6, kMaxOpset, exp_op, true, Channels::kEach},
    {"Floor", 6, kMaxOpset, floor_op, true, Channels::kEach},
    {"Gelu", 20, kMaxOpset, gelu, true, Channels::kEach},
    {"HardSigmoid", 6, kMaxOpset, hard_sigmoid, true, Channels::kEach},
    {"HardSwish", 14, kMaxOpset, hard_swish, true, Channels::kEach},
    {"LeakyRelu", 6, kMaxOpset, leaky_relu, true, Channels::kEach},
    {"Log", 6, kMaxOpset, log_op, true, Channels::kEach},
    {"Mish", 18, kMaxOpset, mish, true, Channels::kEach},
    {"Neg", 6, kMaxOpset, neg_op, true, Channels::kEach},
    {"PRelu", 7, kMaxOpset, prelu, true, Channels::kEach},
    {"Reciprocal", 6, kMaxOpset, reciprocal, true, Channels::kEach},
    {"Relu", 6, kMaxOpset, activation<Activation::kRelu>, true, Channels::kEach},
    {"Round", 11, kMaxOpset, round_op, true, Channels::kEach},
    {"Selu", 6, kMaxOpset, selu, true, Channels::kEach},
    {"Shrink", 9, kMaxOpset, shrink, true, Channels::kEach},
    {"Sigmoid", 6, kMaxOpset, activation<Activation::kSigmoid>, true, Channels::kEach},
    {"Sign", 9, kMaxOpset, sign_op, true, Channels::kEach},
    {"Sin", 7, kMaxOpset, sin_op, true, Channels::kEach},
    {"Sinh", 9, kMaxOpset, sinh_op, true, Channels::kEach},
    {"Softplus", 1, kMaxOpset, softplus, true, Channels::kEach},
    {"Softsign", 1, kMaxOpset, softsign, true, Channels::kEach},
    {"Sqrt", 6, kMaxOpset, sqrt_op, true, Channels::kEach},
    {"Tan", 7, kMaxOpset, tan_op, true, Channels::kEach},
    {"Tanh", 6, kMaxOpset, activation<Activation::kTanh>, true, Channels::kEach},
    {"ThresholdedRelu", 10, kMaxOpset, thresholded_relu, true, Channels::kEach},
};

}  // namespace

std::span<const Operator> unary_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
