// Choosing, ordering and counting: Where, TopK, OneHot, CumSum, Trilu, Range, EyeLike.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"

namespace outrider::onnx {
namespace {

template <class T>
std::unique_ptr<Kernel> where_kernel(const Loops& loops) {
  return make_kernel([loops](const Operands& o) {
    const uint8_t* condition = o.input<uint8_t>(0);
    const T *yes = o.input<T>(1), *no = o.input<T>(2);
    T* y = o.output<T>(0);
    const int64_t n = loops.inner(), sc = loops.inner_stride(0), sy = loops.inner_stride(1),
                  sn = loops.inner_stride(2);
    loops.rows(0, loops.n_rows(), [&](int64_t at, const int64_t* from) {
      for (int64_t i = 0; i < n; ++i)
        y[at + i] = condition[from[0] + i * sc] != 0 ? yes[from[1] + i * sy] : no[from[2] + i * sn];
    });
  });
}

Prepared where(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(3, 3));
  OUTRIDER_TRY(c.require_type(0, {DType::kBool}));
  if (c.dtype(1) != c.dtype(2))
    return c.wrong("choices are %s and %s", short_type_name(c.dtype(1)),
                   short_type_name(c.dtype(2)));
  const auto both = broadcast_shape(c, c.shape(1), c.shape(2));
  if (!both) return both.error();
  const auto shape = broadcast_shape(c, c.shape(0), both.value());
  if (!shape) return shape.error();
  c.output(0, c.dtype(1), shape.value());
  const Loops loops(shape.value(), {&c.shape(0), &c.shape(1), &c.shape(2)});
  switch (dtype_bytes(c.dtype(1))) {
    case 1:
      return where_kernel<uint8_t>(loops);
    case 2:
      return where_kernel<uint16_t>(loops);
    case 4:
      return where_kernel<uint32_t>(loops);
    default:
      return where_kernel<uint64_t>(loops);
  }
}

// ---- TopK
// ------------------------------------------------------------------------------------------

struct TopSizes {
  int64_t n_rows = 0, size = 0, run = 0, k = 0;
  bool largest = true;
};

// Of equal values the one with the lower index comes first, as the reference does; NaN comes last.
template <class T>
std::unique_ptr<Kernel> top_kernel(const TopSizes& s) {
  return make_kernel([s](const Operands& o) {
    auto* order = reinterpret_cast<int64_t*>(o.scratch);
    for (int64_t row = 0; row < s.n_rows * s.run; ++row) {
      const int64_t outer = row / s.run, inner = row % s.run;
      const T* x = o.input<T>(0) + outer * s.size * s.run + inner;
      std::iota(order, order + s.size, int64_t{0});
      const auto before = [&](int64_t i, int64_t j) {
        const T a = x[i * s.run], b = x[j * s.run];
        if (a != a || b != b) return a == a ? true : b == b ? false : i < j;
        return a != b ? (s.largest ? a > b : a < b) : i < j;
      };
      std::partial_sort(order, order + s.k, order + s.size, before);
      for (int64_t i = 0; i < s.k; ++i) {
        const int64_t to = (outer * s.k + i) * s.run + inner;
        o.output<T>(0)[to] = x[order[i] * s.run];
        if (o.out[1] != nullptr) o.output<int64_t>(1)[to] = order[i];
      }
    }
  });
}

Prepared top_k(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 2));
  int64_t k = c.integer("k", -1);
  if (c.opset() >= 10) {
    const auto given = c.known_number(1, "k");
    if (!given) return given.error();
    k = static_cast<int64_t>(std::clamp(given.value(), -1.0, 1e15));
  }
  const Shape& in = c.shape(0);
  const auto axis = c.axis(c.integer("axis", -1), in.rank());
  if (!axis) return axis.error();
  const int a = axis.value();
  if (k < 0 || k > in[a])
    return c.wrong("k is %lld of %lld", static_cast<long long>(k), static_cast<long long>(in[a]));
  Shape out = in;
  out[a] = k;
  c.output(0, c.dtype(0), out);
  c.output(1, DType::kI64, out);
  c.scratch(static_cast<size_t>(in[a]) * sizeof(int64_t));
  const TopSizes s{in.product(0, a), in[a], in.product(a + 1, in.rank()), k,
                   c.integer("largest", 1) != 0};
  switch (c.dtype(0)) {
    case DType::kF32:
      return top_kernel<float>(s);
    case DType::kF64:
      return top_kernel<double>(s);
    case DType::kI64:
      return top_kernel<int64_t>(s);
    case DType::kI32:
      return top_kernel<int32_t>(s);
    case DType::kI8:
      return top_kernel<int8_t>(s);
    default:
      return top_kernel<uint8_t>(s);
  }
}

// ---- OneHot
// ----------------------------------------------------------------------------------------

Prepared one_hot(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(3, 3));
  OUTRIDER_TRY(c.require_type(0, {DType::kI64, DType::kI32, DType::kF32}));
  const auto given = c.known_number(1, "depth");
  if (!given) return given.error();
  if (!(given.value() >= 1 && given.value() < 1e12)) return c.wrong("depth %g", given.value());
  const auto depth = static_cast<int64_t>(given.value());
  if (c.shape(2).n_values() != 2) return c.wrong("values are %s", c.type(2).text().c_str());
  const Shape in = c.shape(0);
  if (in.rank() + 1 > static_cast<int>(kMaxRank)) return c.unsupported("its result's rank");
  const auto axis = c.axis(c.integer("axis", -1), in.rank() + 1);
  if (!axis) return axis.error();
  const int a = axis.value();
  Shape out;
  for (int d = 0; d <= in.rank(); ++d) out.push_back(d == a ? depth : in[d < a ? d : d - 1]);
  c.output(0, c.dtype(2), out);
  const int64_t n_rows = in.product(0, a), run = in.product(a, in.rank());
  const size_t size = dtype_bytes(c.dtype(2));
  const DType type = c.dtype(0);
  return make_kernel([=](const Operands& o) {
    std::byte* y = o.out[0];
    for (int64_t row = 0; row < n_rows; ++row)
      for (int64_t d = 0; d < depth; ++d)
        for (int64_t i = 0; i < run; ++i, y += size) {
          const int64_t at = row * run + i;
          const double raw = type == DType::kI64   ? static_cast<double>(o.input<int64_t>(0)[at])
                             : type == DType::kI32 ? static_cast<double>(o.input<int32_t>(0)[at])
                                                   : static_cast<double>(o.input<float>(0)[at]);
          const double index = raw < 0 ? raw + static_cast<double>(depth) : raw;
          const bool on = std::trunc(index) == static_cast<double>(d) && index >= 0;
          std::memcpy(y, o.in[2] + (on ? size : 0), size);
        }
  });
}

// ---- CumSum
// ----------------------------------------------------------------------------------------

template <class T>
std::unique_ptr<Kernel> cumsum_kernel(int64_t n_rows, int64_t size, int64_t run, bool exclusive,
                                      bool reverse) {
  return make_kernel([=](const Operands& o) {
    for (int64_t row = 0; row < n_rows * run; ++row) {
      const int64_t base = row / run * size * run + row % run;
      T sum = 0;
      for (int64_t k = 0; k < size; ++k) {
        const int64_t at = base + (reverse ? size - 1 - k : k) * run;
        const T value = o.input<T>(0)[at];
        o.output<T>(0)[at] = exclusive ? sum : static_cast<T>(sum + value);
        sum = static_cast<T>(sum + value);
      }
    }
  });
}

Prepared cumsum(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 2));
  OUTRIDER_TRY(c.require_type(0, {DType::kF32, DType::kF64, DType::kI64, DType::kI32}));
  const auto given = c.known_number(1, "axis");
  if (!given) return given.error();
  const Shape& in = c.shape(0);
  const auto axis =
      c.axis(static_cast<int64_t>(std::clamp(given.value(), -100.0, 100.0)), in.rank());
  if (!axis) return axis.error();
  const int a = axis.value();
  c.output(0, c.dtype(0), in);
  const int64_t n_rows = in.product(0, a), size = in[a], run = in.product(a + 1, in.rank());
  const bool exclusive = c.integer("exclusive", 0) != 0, reverse = c.integer("reverse", 0) != 0;
  switch (c.dtype(0)) {
    case DType::kF32:
      return cumsum_kernel<float>(n_rows, size, run, exclusive, reverse);
    case DType::kF64:
      return cumsum_kernel<double>(n_rows, size, run, exclusive, reverse);
    case DType::kI64:
      return cumsum_kernel<int64_t>(n_rows, size, run, exclusive, reverse);
    default:
      return cumsum_kernel<int32_t>(n_rows, size, run, exclusive, reverse);
  }
}

// ---- made from little
// ------------------------------------------------------------------------------

Prepared trilu(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 2));
  const Shape& in = c.shape(0);
  if (in.rank() < 2) return c.wrong("input %s", in.text().c_str());
  double k = 0;
  if (c.has(1)) {
    const auto given = c.known_number(1, "k");
    if (!given) return given.error();
    k = given.value();
  }
  const bool upper = c.integer("upper", 1) != 0;
  const auto shift = static_cast<int64_t>(std::clamp(k, -1e15, 1e15));
  const int64_t rows = in[in.rank() - 2], cols = in.back(), n = in.product(0, in.rank() - 2);
  const size_t size = dtype_bytes(c.dtype(0));
  c.output(0, c.dtype(0), in);
  return make_kernel([=](const Operands& o) {
    for (int64_t m = 0; m < n * rows; ++m)
      for (int64_t j = 0; j < cols; ++j) {
        const int64_t i = m % rows;
        const bool keep = upper ? j >= i + shift : j <= i + shift;
        const size_t at = static_cast<size_t>(m * cols + j) * size;
        if (keep)
          std::memcpy(o.out[0] + at, o.in[0] + at, size);
        else
          std::memset(o.out[0] + at, 0, size);
      }
  });
}

template <class T>
std::unique_ptr<Kernel> range_kernel(int64_t n) {
  return make_kernel([n](const Operands& o) {
    const T start = *o.input<T>(0), step = *o.input<T>(2);
    for (int64_t i = 0; i < n; ++i)
      o.output<T>(0)[i] = static_cast<T>(start + static_cast<T>(i) * step);
  });
}

Prepared range(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(3, 3));
  OUTRIDER_TRY(c.require_type(0, {DType::kF32, DType::kF64, DType::kI64, DType::kI32}));
  double v[3];
  const char* names[] = {"start", "limit", "delta"};
  for (size_t i = 0; i < 3; ++i) {
    if (c.has(i) && c.dtype(i) != c.dtype(0)) return c.wrong("its inputs differ in type");
    const auto given = c.known_number(i, names[i]);
    if (!given) return given.error();
    v[i] = given.value();
  }
  const double count = std::max(std::ceil((v[1] - v[0]) / v[2]), 0.0);
  if (!(count < 1e15)) return c.wrong("from %g to %g by %g", v[0], v[1], v[2]);
  const auto n = static_cast<int64_t>(count);
  c.output(0, c.dtype(0), {n});
  switch (c.dtype(0)) {
    case DType::kF32:
      return range_kernel<float>(n);
    case DType::kF64:
      return range_kernel<double>(n);
    case DType::kI64:
      return range_kernel<int64_t>(n);
    default:
      return range_kernel<int32_t>(n);
  }
}

Prepared eye_like(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  const Shape in = c.shape(0);
  if (in.rank() != 2) return c.wrong("input %s", in.text().c_str());
  DType dtype = c.dtype(0);
  if (c.has_attribute("dtype") &&
      !known_type(static_cast<TypeNumber>(c.integer("dtype", 0)), dtype))
    return c.unsupported("element type %s",
                         type_name(static_cast<TypeNumber>(c.integer("dtype", 0))));
  if (dtype == DType::kF16 || dtype == DType::kBf16) return c.unsupported("half precision");
  const int64_t k = std::clamp<int64_t>(c.integer("k", 0), -(int64_t{1} << 40), int64_t{1} << 40);
  c.output(0, dtype, in);
  c.outputs_are_known();
  return make_kernel([=](const Operands& o) {
    const size_t size = dtype_bytes(dtype);
    for (int64_t i = 0; i < in[0]; ++i)
      for (int64_t j = 0; j < in[1]; ++j) {
        const int64_t at = i * in[1] + j;
        const bool one = j == i + k;
        if (dtype == DType::kF32)
          o.output<float>(0)[at] = one;
        else if (dtype == DType::kF64)
          o.output<double>(0)[at] = one;
        else {
          std::memset(o.out[0] + static_cast<size_t>(at) * size, 0, size);
          o.out[0][static_cast<size_t>(at) * size] = std::byte{one};
        }
      }
  });
}

constexpr Operator kOperators[] = {
    {"CumSum", 11, kMaxOpset, cumsum, true}, {"EyeLike", 9, kMaxOpset, eye_like},
    {"OneHot", 9, kMaxOpset, one_hot},       {"Range", 11, kMaxOpset, range},
    {"TopK", 1, kMaxOpset, top_k, true},     {"Trilu", 14, kMaxOpset, trilu},
    {"Where", 9, kMaxOpset, where},
};

}  // namespace

std::span<const Operator> select_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
