// Values picked and put by index. An index outside its dimension, which only a run can show, is
// bounded to the nearest one: no input may read beyond an array.
#include <algorithm>
#include <cstring>
#include <vector>

#include "onnx/operators.h"

namespace outrider::onnx {
namespace {

int64_t index_at(const Operands& o, size_t input, bool wide, int64_t i) {
  return wide ? o.input<int64_t>(input)[i] : o.input<int32_t>(input)[i];
}
int64_t bounded(int64_t at, int64_t size) {
  return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size - 1);
}

// Known indices outside their dimension are a fault of the file.
Result<void> check_known(NodeContext& c, size_t input, int64_t size) {
  if (!c.is_constant(input)) return {};
  const bool wide = c.dtype(input) == DType::kI64;
  const int64_t n = c.shape(input).n_values();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = wide ? c.constant<int64_t>(input)[i] : c.constant<int32_t>(input)[i];
    if (at < -size || at >= size)
      return c.wrong("index %lld of a dimension of %lld", static_cast<long long>(at),
                     static_cast<long long>(size));
  }
  return {};
}

Prepared gather(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 2));
  OUTRIDER_TRY(c.require_type(1, {DType::kI64, DType::kI32}));
  const Shape &in = c.shape(0), &at = c.shape(1);
  const auto axis = c.axis(c.integer("axis", 0), in.rank());
  if (!axis) return axis.error();
  const int a = axis.value();
  OUTRIDER_TRY(check_known(c, 1, in[a]));
  if (in.rank() - 1 + at.rank() > static_cast<int>(kMaxRank))
    return c.unsupported("its result's rank");
  Shape out;
  for (int d = 0; d < a; ++d) out.push_back(in[d]);
  for (const int64_t d : at.dims()) out.push_back(d);
  for (int d = a + 1; d < in.rank(); ++d) out.push_back(in[d]);
  if (in[a] == 0 && out.n_values() > 0) return c.wrong("nothing to pick from");
  c.output(0, c.dtype(0), out);
  const int64_t size = in[a], n = at.n_values(), n_rows = in.product(0, a);
  const auto run = static_cast<size_t>(in.product(a + 1, in.rank())) * dtype_bytes(c.dtype(0));
  const bool wide = c.dtype(1) == DType::kI64;
  return make_kernel([=](const Operands& o) {
    std::byte* y = o.out[0];
    for (int64_t row = 0; row < n_rows; ++row) {
      const std::byte* x = o.in[0] + static_cast<size_t>(row * size) * run;
      for (int64_t i = 0; i < n; ++i, y += run)
        if (run > 0)
          std::memcpy(y, x + static_cast<size_t>(bounded(index_at(o, 1, wide, i), size)) * run,
                      run);
    }
  });
}

void strides_of(const Shape& s, std::vector<int64_t>& stride) {
  stride.assign(static_cast<size_t>(s.rank()), 1);
  for (int d = s.rank() - 2; d >= 0; --d)
    stride[static_cast<size_t>(d)] = stride[static_cast<size_t>(d + 1)] * s[d + 1];
}

// Offset in an array with strides `to` of element i of an array of shape `s`, dimension `skip`
// apart.
int64_t offset_of(const Shape& s, const std::vector<int64_t>& to, int64_t i, int skip) {
  int64_t at = 0;
  for (int d = s.rank() - 1; d >= 0; --d) {
    if (d != skip) at += i % s[d] * to[static_cast<size_t>(d)];
    i /= s[d];
  }
  return at;
}

Prepared gather_elements(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 2));
  OUTRIDER_TRY(c.require_type(1, {DType::kI64, DType::kI32}));
  const Shape in = c.shape(0), at = c.shape(1);
  const auto axis = c.axis(c.integer("axis", 0), in.rank());
  if (!axis) return axis.error();
  const int a = axis.value();
  bool fits = in.rank() == at.rank();
  for (int d = 0; fits && d < in.rank(); ++d) fits = d == a || at[d] <= in[d];
  if (!fits || (in[a] == 0 && at.n_values() > 0))
    return c.wrong("indices %s of %s", at.text().c_str(), in.text().c_str());
  OUTRIDER_TRY(check_known(c, 1, in[a]));
  c.output(0, c.dtype(0), at);
  std::vector<int64_t> stride;
  strides_of(in, stride);
  const bool wide = c.dtype(1) == DType::kI64;
  const size_t size = dtype_bytes(c.dtype(0));
  return make_kernel([=](const Operands& o) {
    const int64_t n = at.n_values();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t from = offset_of(at, stride, i, a) +
                           bounded(index_at(o, 1, wide, i), in[a]) * stride[static_cast<size_t>(a)];
      std::memcpy(o.out[0] + static_cast<size_t>(i) * size,
                  o.in[0] + static_cast<size_t>(from) * size, size);
    }
  });
}

Prepared gather_nd(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 2));
  OUTRIDER_TRY(c.require_type(1, {DType::kI64}));
  const Shape in = c.shape(0), at = c.shape(1);
  const int64_t batch = c.integer("batch_dims", 0);
  if (at.rank() < 1 || batch < 0 || batch >= std::min(in.rank(), at.rank()) || at.back() < 1 ||
      at.back() > in.rank() - batch)
    return c.wrong("indices %s of %s", at.text().c_str(), in.text().c_str());
  const int b = static_cast<int>(batch), depth = static_cast<int>(at.back());
  Shape out;
  if (at.rank() - 1 + in.rank() - b - depth > static_cast<int>(kMaxRank))
    return c.unsupported("its result's rank");
  for (int d = 0; d < at.rank() - 1; ++d) {
    if (d < b && at[d] != in[d]) return c.wrong("its batch sizes differ");
    out.push_back(at[d]);
  }
  for (int d = b + depth; d < in.rank(); ++d) out.push_back(in[d]);
  for (int d = b; d < b + depth; ++d)
    if (in[d] == 0 && out.n_values() > 0) return c.wrong("nothing to pick from");
  c.output(0, c.dtype(0), out);
  const auto run = static_cast<size_t>(in.product(b + depth, in.rank())) * dtype_bytes(c.dtype(0));
  const int64_t n = at.product(0, at.rank() - 1), n_batches = at.product(0, b),
                per_batch = n_batches == 0 ? 0 : n / n_batches, step = in.product(b, b + depth);
  return make_kernel([=](const Operands& o) {
    for (int64_t i = 0; i < n; ++i) {
      int64_t from = 0;
      for (int d = 0; d < depth; ++d)
        from = from * in[b + d] + bounded(o.input<int64_t>(1)[i * depth + d], in[b + d]);
      from += i / per_batch * step;
      if (run > 0)
        std::memcpy(o.out[0] + static_cast<size_t>(i) * run,
                    o.in[0] + static_cast<size_t>(from) * run, run);
    }
  });
}

enum class Merge : uint8_t { kReplace, kAdd, kMul, kMin, kMax };

Result<Merge> merge_of(NodeContext& c) {
  const std::string name = c.text("reduction", "none");
  const char* const names[] = {"none", "add", "mul", "min", "max"};
  const auto found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return c.wrong("reduction \"%.20s\"", name.c_str());
  return static_cast<Merge>(found - std::begin(names));
}

template <class T>
void merge_run(Merge merge, const std::byte* from, std::byte* to, int64_t n) {
  const T* x = reinterpret_cast<const T*>(from);
  T* y = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i)
    y[i] = merge == Merge::kAdd   ? static_cast<T>(y[i] + x[i])
           : merge == Merge::kMul ? static_cast<T>(y[i] * x[i])
           : merge == Merge::kMin ? std::min(y[i], x[i])
           : merge == Merge::kMax ? std::max(y[i], x[i])
                                  : x[i];
}

struct MergeRun {
  void (*run)(Merge, const std::byte*, std::byte*, int64_t);
};
Result<MergeRun> merge_run_of(NodeContext& c, Merge merge) {
  switch (c.dtype(0)) {
    case DType::kF32:
      return MergeRun{merge_run<float>};
    case DType::kF64:
      return MergeRun{merge_run<double>};
    case DType::kI64:
      return MergeRun{merge_run<int64_t>};
    case DType::kI32:
      return MergeRun{merge_run<int32_t>};
    case DType::kU8:
      return MergeRun{merge_run<uint8_t>};
    case DType::kI8:
      return MergeRun{merge_run<int8_t>};
    case DType::kF16:
    case DType::kBf16:
      if (merge == Merge::kReplace) return MergeRun{merge_run<uint16_t>};
      break;
    default:
      if (merge == Merge::kReplace) return MergeRun{merge_run<uint8_t>};
      break;
  }
  return c.unsupported("reduction of %s", short_type_name(c.dtype(0)));
}

Prepared scatter_elements(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(3, 3));
  OUTRIDER_TRY(c.require_type(1, {DType::kI64, DType::kI32}));
  const Shape in = c.shape(0), at = c.shape(1);
  const auto axis = c.axis(c.integer("axis", 0), in.rank());
  if (!axis) return axis.error();
  const int a = axis.value();
  bool fits = in.rank() == at.rank() && at == c.shape(2) && c.dtype(2) == c.dtype(0);
  for (int d = 0; fits && d < in.rank(); ++d) fits = d == a || at[d] <= in[d];
  if (!fits || (in[a] == 0 && at.n_values() > 0))
    return c.wrong("indices %s and updates %s of %s", at.text().c_str(), c.type(2).text().c_str(),
                   c.type(0).text().c_str());
  OUTRIDER_TRY(check_known(c, 1, in[a]));
  const auto merge = merge_of(c);
  if (!merge) return merge.error();
  const auto run = merge_run_of(c, merge.value());
  if (!run) return run.error();
  c.output(0, c.dtype(0), in);
  std::vector<int64_t> stride;
  strides_of(in, stride);
  const bool wide = c.dtype(1) == DType::kI64;
  const size_t size = dtype_bytes(c.dtype(0)), n_bytes = c.type(0).n_bytes();
  return make_kernel([=, m = merge.value(), f = run.value()](const Operands& o) {
    if (n_bytes > 0) std::memcpy(o.out[0], o.in[0], n_bytes);
    const int64_t n = at.n_values();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t to = offset_of(at, stride, i, a) +
                         bounded(index_at(o, 1, wide, i), in[a]) * stride[static_cast<size_t>(a)];
      f.run(m, o.in[2] + static_cast<size_t>(i) * size, o.out[0] + static_cast<size_t>(to) * size,
            1);
    }
  });
}

Prepared scatter_nd(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(3, 3));
  OUTRIDER_TRY(c.require_type(1, {DType::kI64}));
  const Shape in = c.shape(0), at = c.shape(1);
  if (at.rank() < 1 || at.back() < 1 || at.back() > in.rank() || c.dtype(2) != c.dtype(0))
    return c.wrong("indices %s of %s", at.text().c_str(), in.text().c_str());
  const int depth = static_cast<int>(at.back());
  const int64_t n = at.product(0, at.rank() - 1), run = in.product(depth, in.rank());
  int64_t wanted = 0;
  if (__builtin_mul_overflow(n, run, &wanted) || c.shape(2).n_values() != wanted)
    return c.wrong("updates %s for indices %s of %s", c.shape(2).text().c_str(), at.text().c_str(),
                   in.text().c_str());
  for (int d = 0; d < depth; ++d)
    if (in[d] == 0 && n > 0) return c.wrong("nothing to put into");
  const auto merge = merge_of(c);
  if (!merge) return merge.error();
  const auto f = merge_run_of(c, merge.value());
  if (!f) return f.error();
  c.output(0, c.dtype(0), in);
  const size_t size = dtype_bytes(c.dtype(0)), n_bytes = c.type(0).n_bytes();
  return make_kernel([=, m = merge.value(), put = f.value()](const Operands& o) {
    if (n_bytes > 0) std::memcpy(o.out[0], o.in[0], n_bytes);
    for (int64_t i = 0; i < n; ++i) {
      int64_t to = 0;
      for (int d = 0; d < depth; ++d)
        to = to * in[d] + bounded(o.input<int64_t>(1)[i * depth + d], in[d]);
      put.run(m, o.in[2] + static_cast<size_t>(i * run) * size,
              o.out[0] + static_cast<size_t>(to * run) * size, run);
    }
  });
}

constexpr Operator kOperators[] = {
    {"Gather", 1, kMaxOpset, gather},
    {"GatherElements", 11, kMaxOpset, gather_elements},
    {"GatherND", 11, kMaxOpset, gather_nd},
    {"Scatter", 9, 10, scatter_elements},
    {"ScatterElements", 11, kMaxOpset, scatter_elements},
    {"ScatterND", 11, kMaxOpset, scatter_nd},
};

}  // namespace

std::span<const Operator> gather_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
