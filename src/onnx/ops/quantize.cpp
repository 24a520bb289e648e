// Between real and whole numbers of 8 bits: y = round(x / scale) + zero, x = (y - zero) * scale.
// One scale and zero for all, for each index of an axis, or for each block of an axis.
#include <cmath>
#include <limits>

#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"

namespace outrider::onnx {
namespace {

// Which scale a value has: scales are [outer, n_scales, inner], values [outer, axis, inner].
struct Scales {
  int64_t n_outer = 1, n_axis = 1, n_inner = 1, block = 1, n_scales = 1;
  bool inner_has_own = false;

  template <class F>  // f(index of the value, index of its scale)
  void each(const F& f) const {
    int64_t at = 0;
    for (int64_t o = 0; o < n_outer; ++o)
      for (int64_t a = 0; a < n_axis; ++a)
        for (int64_t i = 0; i < n_inner; ++i, ++at)
          f(at, inner_has_own ? (o * n_scales + a / block) * n_inner + i : a / block);
  }
};

Result<Scales> scales_of(NodeContext& c) {
  const Shape &x = c.shape(0), &scale = c.shape(1);
  if (c.has(2) && c.shape(2).n_values() != scale.n_values())
    return c.wrong("zero points %s for scales %s", c.shape(2).text().c_str(), scale.text().c_str());
  Scales s;
  const int64_t block = c.integer("block_size", 0);
  if (scale.n_values() == 1 && block == 0) {
    s.n_inner = x.n_values();
    return s;
  }
  const auto axis = c.axis(c.integer("axis", 1), x.rank());
  if (!axis) return axis.error();
  const int a = axis.value();
  s.n_outer = x.product(0, a);
  s.n_axis = x[a];
  s.n_inner = x.product(a + 1, x.rank());
  if (block == 0) {
    if (scale.rank() != 1 || scale[0] != x[a])
      return c.wrong("scales %s for axis %d of %s", scale.text().c_str(), a, x.text().c_str());
    return s;
  }
  bool fits = block > 0 && scale.rank() == x.rank();
  for (int d = 0; d < x.rank() && fits; ++d)
    fits = scale[d] == (d == a ? (x[d] + block - 1) / block : x[d]);
  if (!fits)
    return c.wrong("scales %s for blocks of %lld of %s", scale.text().c_str(),
                   static_cast<long long>(block), x.text().c_str());
  s.block = block;
  s.n_scales = scale[a];
  s.inner_has_own = true;
  return s;
}

template <class T>
std::unique_ptr<Kernel> quantize_kernel(const Scales& s, bool with_zero) {
  return make_kernel([=](const Operands& o) {
    constexpr float kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
    s.each([&](int64_t at, int64_t k) {
      const float zero = !with_zero ? 0 : static_cast<float>(o.input<T>(2)[k]);
      const float q = std::nearbyint(o.input<float>(0)[at] / o.input<float>(1)[k]) + zero;
      // Beyond the range the nearest end; NaN becomes the zero point: every value has a result.
      o.output<T>(0)[at] = static_cast<T>(q != q ? zero : std::min(std::max(q, kLow), kHigh));
    });
  });
}

Prepared quantize(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 3));
  OUTRIDER_TRY(c.require_type(0, {DType::kF32}));
  OUTRIDER_TRY(c.require_type(1, {DType::kF32}));
  DType type = DType::kU8;
  if (const int64_t number = c.integer("output_dtype", 0); number != 0) {
    if (number < 0 || number > 255 || !known_type(static_cast<TypeNumber>(number), type))
      return c.unsupported("to element type %lld", static_cast<long long>(number));
  } else if (c.has(2)) {
    type = c.dtype(2);
  }
  if (c.has(2) && c.dtype(2) != type) return c.wrong("a zero point of another type");
  const auto scales = scales_of(c);
  if (!scales) return scales.error();
  c.output(0, type, c.shape(0));
  if (type == DType::kU8) return quantize_kernel<uint8_t>(scales.value(), c.has(2));
  if (type == DType::kI8) return quantize_kernel<int8_t>(scales.value(), c.has(2));
  return c.unsupported("to %s", short_type_name(type));
}

template <class T>
std::unique_ptr<Kernel> dequantize_kernel(const Scales& s, bool with_zero) {
  return make_kernel([=](const Operands& o) {
    s.each([&](int64_t at, int64_t k) {
      const int64_t zero = !with_zero ? 0 : o.input<T>(2)[k];
      o.output<float>(0)[at] =
          static_cast<float>(int64_t{o.input<T>(0)[at]} - zero) * o.input<float>(1)[k];
    });
  });
}

Prepared dequantize(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 3));
  OUTRIDER_TRY(c.require_type(0, {DType::kU8, DType::kI8, DType::kI32}));
  OUTRIDER_TRY(c.require_type(1, {DType::kF32}));
  if (c.has(2) && c.dtype(2) != c.dtype(0)) return c.wrong("a zero point of another type");
  const auto scales = scales_of(c);
  if (!scales) return scales.error();
  c.output(0, DType::kF32, c.shape(0));
  if (c.dtype(0) == DType::kU8) return dequantize_kernel<uint8_t>(scales.value(), c.has(2));
  if (c.dtype(0) == DType::kI8) return dequantize_kernel<int8_t>(scales.value(), c.has(2));
  return dequantize_kernel<int32_t>(scales.value(), c.has(2));
}

constexpr Operator kOperators[] = {
    {"DequantizeLinear", 10, kMaxOpset, dequantize, true},
    {"QuantizeLinear", 10, kMaxOpset, quantize, true},
};

}  // namespace

std::span<const Operator> quantize_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
