// From one element type to another.
#include <cmath>
#include <limits>
#include <type_traits>

#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"
#include "tensor/float16.h"

namespace outrider::onnx {
namespace {

// Storage types that C++ has no arithmetic for.
struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
struct Truth {
  uint8_t value;
};

inline float plain(Half x) {
  return detail::half_to_float(x.bits);
}
inline float plain(Brain x) {
  return detail::bfloat_to_float(x.bits);
}
inline uint8_t plain(Truth x) {
  return x.value;
}
template <class T>
inline T plain(T x) {
  return x;
}

template <class To, class From>
To convert(From from) {
  const auto x = plain(from);
  if constexpr (std::is_same_v<To, Half>) {
    return {detail::float_to_half(static_cast<float>(x))};
  } else if constexpr (std::is_same_v<To, Brain>) {
    return {detail::float_to_bfloat(static_cast<float>(x))};
  } else if constexpr (std::is_same_v<To, Truth>) {
    return {static_cast<uint8_t>(x != 0)};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<decltype(x)>) {
    // Toward zero; what does not fit is bounded, NaN becomes 0: every value has a result.
    if (!(x == x)) return 0;
    constexpr double kLow = static_cast<double>(std::numeric_limits<int64_t>::min());
    const double d = static_cast<double>(x);
    const int64_t whole = d >= 9.2233720368547758e18 ? std::numeric_limits<int64_t>::max()
                          : d <= kLow                ? std::numeric_limits<int64_t>::min()
                                                     : static_cast<int64_t>(d);
    if constexpr (sizeof(To) < 8) {
      if (whole > std::numeric_limits<To>::max()) return std::numeric_limits<To>::max();
      if (whole < std::numeric_limits<To>::min()) return std::numeric_limits<To>::min();
    }
    return static_cast<To>(whole);
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
std::unique_ptr<Kernel> cast_kernel(int64_t n) {
  return make_kernel([n](const Operands& o) {
    const From* x = o.input<From>(0);
    To* y = o.output<To>(0);
    share_range(o.ops, n, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) y[i] = convert<To>(x[i]);
    });
  });
}

template <class To>
std::unique_ptr<Kernel> cast_from(DType from, int64_t n) {
  switch (from) {
    case DType::kF32:
      return cast_kernel<To, float>(n);
    case DType::kF64:
      return cast_kernel<To, double>(n);
    case DType::kF16:
      return cast_kernel<To, Half>(n);
    case DType::kBf16:
      return cast_kernel<To, Brain>(n);
    case DType::kI64:
      return cast_kernel<To, int64_t>(n);
    case DType::kI32:
      return cast_kernel<To, int32_t>(n);
    case DType::kI8:
      return cast_kernel<To, int8_t>(n);
    case DType::kBool:
      return cast_kernel<To, Truth>(n);
    default:
      return cast_kernel<To, uint8_t>(n);
  }
}

Prepared cast_to(NodeContext& c, DType to) {
  if (to == c.dtype(0)) {
    c.output_is_input(0, 0, c.shape(0));
    return std::unique_ptr<Kernel>();
  }
  c.output(0, to, c.shape(0));
  const int64_t n = c.shape(0).n_values();
  const DType from = c.dtype(0);
  switch (to) {
    case DType::kF32:
      return cast_from<float>(from, n);
    case DType::kF64:
      return cast_from<double>(from, n);
    case DType::kF16:
      return cast_from<Half>(from, n);
    case DType::kBf16:
      return cast_from<Brain>(from, n);
    case DType::kI64:
      return cast_from<int64_t>(from, n);
    case DType::kI32:
      return cast_from<int32_t>(from, n);
    case DType::kI8:
      return cast_from<int8_t>(from, n);
    case DType::kBool:
      return cast_from<Truth>(from, n);
    default:
      return cast_from<uint8_t>(from, n);
  }
}

Prepared cast(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  const int64_t number = c.integer("to", 0);
  DType to;
  if (!known_type(static_cast<TypeNumber>(number), to))
    return c.unsupported("to element type %s", type_name(static_cast<TypeNumber>(number)));
  return cast_to(c, to);
}

Prepared cast_like(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 2));
  return cast_to(c, c.dtype(1));
}

constexpr Operator kOperators[] = {
    {"Cast", 6, kMaxOpset, cast},
    {"CastLike", 15, kMaxOpset, cast_like},
};

}  // namespace

std::span<const Operator> cast_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
