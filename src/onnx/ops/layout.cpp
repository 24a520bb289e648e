// Operators that move values and compute nothing: by element size, whatever the type.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "onnx/channels.h"
#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"

namespace outrider::onnx {
namespace {

// y in row-major order from x at `offset` with strides in elements: Transpose, Slice, Expand.
struct Walk {
  Shape shape;  // of y
  int64_t stride[kMaxRank] = {};
  int64_t offset = 0;
};

// Joins dimensions that are one run in both. Sizes may still be beyond every limit: the plan
// refuses them later.
Walk joined(const Walk& w) {
  Walk out;
  out.offset = w.offset;
  for (int d = 0; d < w.shape.rank(); ++d) {
    if (w.shape[d] == 1) continue;
    const int last = out.shape.rank() - 1;
    int64_t run = 0, n = 0;
    if (last >= 0 && !__builtin_mul_overflow(w.stride[d], w.shape[d], &run) &&
        out.stride[last] == run && !__builtin_mul_overflow(out.shape[last], w.shape[d], &n)) {
      out.shape[last] = n;
      out.stride[last] = w.stride[d];
    } else {
      out.shape.push_back(w.shape[d]);
      out.stride[last + 1] = w.stride[d];
    }
  }
  return out;
}

template <class T>
void walk_rows(const Walk& w, const T* x, T* y, int64_t first, int64_t last) {
  const int rank = w.shape.rank();
  const int64_t n = rank == 0 ? 1 : w.shape.back(), s = rank == 0 ? 0 : w.stride[rank - 1];
  int64_t index[kMaxRank] = {}, at = w.offset, rest = first;
  for (int d = rank - 2; d >= 0; --d) {
    index[d] = rest % w.shape[d];
    rest /= w.shape[d];
    at += index[d] * w.stride[d];
  }
  for (int64_t row = first; row < last; ++row) {
    T* to = y + row * n;
    if (s == 1) {
      std::memcpy(to, x + at, static_cast<size_t>(n) * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = x[at + i * s];
    }
    for (int d = rank - 2; d >= 0; --d) {
      at += w.stride[d];
      if (++index[d] < w.shape[d]) break;
      at -= w.shape[d] * w.stride[d];
      index[d] = 0;
    }
  }
}

template <class T>
std::unique_ptr<Kernel> walk_kernel(const Walk& w) {
  return make_kernel([w](const Operands& o) {
    const int64_t n = w.shape.n_values();
    if (n == 0) return;
    const int64_t inner = w.shape.rank() == 0 ? 1 : w.shape.back();
    share_range(o.ops, n / inner, inner, [&](int64_t first, int64_t last) {
      walk_rows(w, o.input<T>(0), o.output<T>(0), first, last);
    });
  });
}

std::unique_ptr<Kernel> walk(DType dtype, const Walk& raw) {
  const Walk w = joined(raw);
  switch (dtype_bytes(dtype)) {
    case 1:
      return walk_kernel<uint8_t>(w);
    case 2:
      return walk_kernel<uint16_t>(w);
    case 4:
      return walk_kernel<uint32_t>(w);
    default:
      return walk_kernel<uint64_t>(w);
  }
}

void row_major(const Shape& s, int64_t* stride) {
  int64_t step = 1;
  for (int d = s.rank() - 1; d >= 0; --d) {
    stride[d] = step;
    step *= s[d];
  }
}

Prepared transpose(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  const Shape& in = c.shape(0);
  std::vector<int64_t> order = c.integers("perm");
  if (order.empty())
    for (int d = in.rank() - 1; d >= 0; --d) order.push_back(d);
  if (static_cast<int>(order.size()) != in.rank())
    return c.wrong("perm has %zu entries for rank %d", order.size(), in.rank());
  int64_t stride[kMaxRank];
  row_major(in, stride);
  Walk w;
  std::vector<bool> seen(order.size(), false);
  for (size_t d = 0; d < order.size(); ++d) {
    const auto from = c.axis(order[d], in.rank());
    if (!from) return from.error();
    if (seen[static_cast<size_t>(from.value())]) return c.wrong("perm names a dimension twice");
    seen[static_cast<size_t>(from.value())] = true;
    w.shape.push_back(in[from.value()]);
    w.stride[d] = stride[from.value()];
  }
  c.output(0, c.dtype(0), w.shape);
  return walk(c.dtype(0), w);
}

// ---- Slice
// -----------------------------------------------------------------------------------------

struct Cut {
  std::vector<int64_t> starts, ends, axes, steps;
};

Result<Cut> read_cut(NodeContext& c) {
  Cut cut;
  if (c.opset() < 10) {
    cut = {c.integers("starts"), c.integers("ends"), c.integers("axes"), {}};
  } else {
    std::vector<int64_t>* lists[] = {&cut.starts, &cut.ends, &cut.axes, &cut.steps};
    const char* names[] = {"starts", "ends", "axes", "steps"};
    for (size_t i = 0; i < 4; ++i) {
      if (i >= 2 && !c.has(i + 1)) continue;
      auto list = c.known_ints(i + 1, names[i]);
      if (!list) return list.error();
      *lists[i] = std::move(list.value());
    }
  }
  const size_t n = cut.starts.size();
  if (cut.axes.empty())
    for (size_t i = 0; i < n; ++i) cut.axes.push_back(static_cast<int64_t>(i));
  if (cut.steps.empty()) cut.steps.assign(n, 1);
  if (cut.ends.size() != n || cut.axes.size() != n || cut.steps.size() != n)
    return c.wrong("%zu starts, %zu ends, %zu axes and %zu steps", n, cut.ends.size(),
                   cut.axes.size(), cut.steps.size());
  return cut;
}

Prepared slice(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 5));
  const auto cut = read_cut(c);
  if (!cut) return cut.error();
  Walk w;
  w.shape = c.shape(0);
  row_major(w.shape, w.stride);
  std::vector<bool> seen(kMaxRank, false);
  for (size_t i = 0; i < cut.value().starts.size(); ++i) {
    const auto axis = c.axis(cut.value().axes[i], w.shape.rank());
    if (!axis) return axis.error();
    const int d = axis.value();
    if (seen[static_cast<size_t>(d)]) return c.wrong("axis %d twice", d);
    seen[static_cast<size_t>(d)] = true;
    const int64_t size = c.shape(0)[d], step = cut.value().steps[i];
    if (step == 0 || step == INT64_MIN) return c.wrong("step %lld", static_cast<long long>(step));
    const auto bound = [&](int64_t at, int64_t low, int64_t high) {
      if (at < 0) at = at < -size ? -1 : at + size;
      return std::clamp(at, low, high);
    };
    int64_t first = cut.value().starts[i], last = cut.value().ends[i], n = 0;
    if (step > 0) {
      first = bound(first, 0, size);
      last = last < -size ? 0 : bound(last, 0, size);
      n = last > first ? (last - first - 1) / step + 1 : 0;
    } else if (size > 0) {
      first = bound(first, 0, size - 1);
      last = last < -size ? -1 : bound(last, -1, size - 1);
      n = first > last ? (first - last - 1) / -step + 1 : 0;
    }
    w.shape[d] = n;
    if (n > 0) w.offset += first * w.stride[d];
    w.stride[d] = n > 1 ? w.stride[d] * step : w.stride[d];
  }
  c.output(0, c.dtype(0), w.shape);
  return walk(c.dtype(0), w);
}

Prepared expand(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 2));
  const auto wanted = c.known_ints(1, "the shape");
  if (!wanted) return wanted.error();
  if (wanted.value().size() > kMaxRank)
    return c.unsupported("%zu dimensions", wanted.value().size());
  for (const int64_t dim : wanted.value())
    if (dim < 0) return c.wrong("the shape has dimension %lld", static_cast<long long>(dim));
  const auto shape = broadcast_shape(c, c.shape(0), Shape(wanted.value()));
  if (!shape) return shape.error();
  Walk w;
  w.shape = shape.value();
  int64_t own[kMaxRank];
  row_major(c.shape(0), own);
  const int shift = w.shape.rank() - c.shape(0).rank();
  for (int d = shift; d < w.shape.rank(); ++d)
    w.stride[d] = c.shape(0)[d - shift] == 1 ? 0 : own[d - shift];
  c.output(0, c.dtype(0), w.shape);
  return walk(c.dtype(0), w);
}

// Each dimension becomes two, the outer one with stride 0.
Prepared tile(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 2));
  const auto repeats = c.known_ints(1, "repeats");
  if (!repeats) return repeats.error();
  const Shape& in = c.shape(0);
  if (static_cast<int>(repeats.value().size()) != in.rank())
    return c.wrong("%zu repeats for rank %d", repeats.value().size(), in.rank());
  int64_t own[kMaxRank];
  row_major(in, own);
  Shape out;
  Walk w;
  int n = 0;
  for (int d = 0; d < in.rank(); ++d) {
    const int64_t times = repeats.value()[static_cast<size_t>(d)];
    int64_t size = 0;
    if (times < 0 || __builtin_mul_overflow(times, in[d], &size))
      return c.wrong("repeat %lld", static_cast<long long>(times));
    out.push_back(size);
    if (times != 1) {
      if (n == static_cast<int>(kMaxRank)) return c.unsupported("so many repeated dimensions");
      w.shape.push_back(times);
      w.stride[n++] = 0;
    }
    if (n == static_cast<int>(kMaxRank)) return c.unsupported("so many repeated dimensions");
    w.shape.push_back(in[d]);
    w.stride[n++] = own[d];
  }
  c.output(0, c.dtype(0), out);
  return walk(c.dtype(0), w);
}

Prepared depth_to_space(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  const Shape& in = c.shape(0);
  const int64_t b = c.integer("blocksize", 0);
  const std::string mode = c.text("mode", "DCR");
  if (in.rank() != 4 || b < 1 || b > 65536 || in[1] % (b * b) != 0)
    return c.wrong("blocksize %lld of %s", static_cast<long long>(b), in.text().c_str());
  if (mode != "DCR" && mode != "CRD") return c.wrong("mode \"%.20s\"", mode.c_str());
  const int64_t depth = in[1] / (b * b), h = in[2], v = in[3], plane = h * v;
  Walk w;
  w.shape = {in[0], depth, h, b, v, b};
  const bool dcr = mode == "DCR";
  const int64_t stride[] = {in[1] * plane,
                            (dcr ? 1 : b * b) * plane,
                            v,
                            (dcr ? b * depth : b) * plane,
                            1,
                            (dcr ? depth : 1) * plane};
  std::copy(std::begin(stride), std::end(stride), w.stride);
  c.output(0, c.dtype(0), {in[0], depth, h * b, v * b});
  return walk(c.dtype(0), w);
}

Prepared space_to_depth(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  const Shape& in = c.shape(0);
  const int64_t b = c.integer("blocksize", 0);
  if (in.rank() != 4 || b < 1 || b > 65536 || in[2] % b != 0 || in[3] % b != 0)
    return c.wrong("blocksize %lld of %s", static_cast<long long>(b), in.text().c_str());
  const int64_t plane = in[2] * in[3];
  Walk w;
  w.shape = {in[0], b, b, in[1], in[2] / b, in[3] / b};
  const int64_t stride[] = {in[1] * plane, in[3], 1, plane, b * in[3], b};
  std::copy(std::begin(stride), std::end(stride), w.stride);
  c.output(0, c.dtype(0), {in[0], in[1] * b * b, in[2] / b, in[3] / b});
  return walk(c.dtype(0), w);
}

// ---- Concat, Split
// ---------------------------------------------------------------------------------

// In channel blocks: whole blocks behind each other.
bool joins_blocks(const NodeContext& c, int axis) {
  for (size_t i = 0; i < c.n_inputs(); ++i) {
    const bool is_last = i + 1 == c.n_inputs();
    if (!c.is_blocked(i) || (!is_last && c.shape(i)[1] % kChannelBlock != 0)) return false;
  }
  return axis == 1;
}

Prepared concat(NodeContext& c) {
  if (c.n_inputs() == 0) return c.wrong("no inputs");
  OUTRIDER_TRY(c.require_inputs(c.n_inputs(), c.n_inputs()));
  const auto axis = c.axis(c.integer("axis", 1), c.shape(0).rank());
  if (!axis) return axis.error();
  const int a = axis.value();
  bool any_blocked = false;
  for (size_t i = 0; i < c.n_inputs(); ++i) any_blocked = any_blocked || c.is_blocked(i);
  if (any_blocked && !joins_blocks(c, a)) return c.again_with(NodeContext::Wish::kRows);
  Shape out = c.shape(0);
  const size_t size = dtype_bytes(c.dtype(0));
  std::vector<size_t> runs;
  for (size_t i = 0; i < c.n_inputs(); ++i) {
    Shape other = c.shape(i);
    if (c.dtype(i) != c.dtype(0) || other.rank() != out.rank())
      return c.wrong("inputs %s and %s", c.type(0).text().c_str(), c.type(i).text().c_str());
    const Shape laid = any_blocked ? blocked_shape(other) : other;
    runs.push_back(static_cast<size_t>(laid.product(a, laid.rank())) * size);
    if (i == 0) continue;
    int64_t sum = 0;
    if (__builtin_add_overflow(out[a], other[a], &sum)) return c.wrong("the sizes overflow");
    out[a] = other[a] = sum;
    if (!(other == out))
      return c.wrong("inputs %s and %s", c.type(0).text().c_str(), c.type(i).text().c_str());
  }
  if (any_blocked)
    c.blocked_output(0, out);
  else
    c.output(0, c.dtype(0), out);
  const auto n_rows = static_cast<size_t>(out.product(0, a));
  return make_kernel([runs, n_rows](const Operands& o) {
    std::byte* y = o.out[0];
    for (size_t row = 0; row < n_rows; ++row) {
      for (size_t i = 0; i < runs.size(); ++i) {
        if (runs[i] > 0) std::memcpy(y, o.in[i] + row * runs[i], runs[i]);
        y += runs[i];
      }
    }
  });
}

Result<std::vector<int64_t>> split_sizes(NodeContext& c, int64_t size) {
  const auto n = static_cast<int64_t>(c.n_outputs());
  std::vector<int64_t> sizes = c.opset() < 13 ? c.integers("split") : std::vector<int64_t>();
  if (c.opset() >= 13 && c.has(1)) {
    auto list = c.known_ints(1, "split");
    if (!list) return list.error();
    sizes = std::move(list.value());
  } else if (sizes.empty()) {
    const int64_t parts = c.integer("num_outputs", n);
    if (parts != n)
      return c.wrong("num_outputs is %lld, it has %lld", static_cast<long long>(parts),
                     static_cast<long long>(n));
    const int64_t each = (size + n - 1) / n;
    if (c.opset() < 18 && size % n != 0)
      return c.wrong("%lld cannot be split into %lld equal parts", static_cast<long long>(size),
                     static_cast<long long>(n));
    for (int64_t i = 0; i < n; ++i) sizes.push_back(std::clamp<int64_t>(size - i * each, 0, each));
  }
  int64_t sum = 0;
  for (const int64_t part : sizes)
    if (part < 0 || __builtin_add_overflow(sum, part, &sum)) return c.wrong("a size below 0");
  if (static_cast<int64_t>(sizes.size()) != n || sum != size)
    return c.wrong("%zu sizes with sum %lld for %lld outputs of a dimension of %lld", sizes.size(),
                   static_cast<long long>(sum), static_cast<long long>(n),
                   static_cast<long long>(size));
  return sizes;
}

Prepared split(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 2));
  if (c.n_outputs() == 0) return c.wrong("no outputs");
  const Shape& in = c.shape(0);
  const auto axis = c.axis(c.integer("axis", 0), in.rank());
  if (!axis) return axis.error();
  const int a = axis.value();
  const auto sizes = split_sizes(c, in[a]);
  if (!sizes) return sizes.error();
  std::vector<size_t> runs;
  for (size_t i = 0; i < sizes.value().size(); ++i) {
    Shape out = in;
    out[a] = sizes.value()[i];
    runs.push_back(static_cast<size_t>(out.product(a, out.rank())) * dtype_bytes(c.dtype(0)));
    c.output(i, c.dtype(0), out);
  }
  const auto n_rows = static_cast<size_t>(in.product(0, a));
  return make_kernel([runs, n_rows](const Operands& o) {
    const std::byte* x = o.in[0];
    for (size_t row = 0; row < n_rows; ++row) {
      for (size_t i = 0; i < runs.size(); ++i) {
        if (runs[i] > 0) std::memcpy(o.out[i] + row * runs[i], x, runs[i]);
        x += runs[i];
      }
    }
  });
}

// ---- Pad
// -------------------------------------------------------------------------------------------

enum class Fill : uint8_t { kConstant, kReflect, kEdge, kWrap };

struct Padding {
  Shape in, out;
  int64_t before[kMaxRank] = {};
  Fill fill = Fill::kConstant;
};

// Where output index i of a dimension comes from, -1: from the constant.
int64_t source(const Padding& p, int d, int64_t i) {
  const int64_t n = p.in[d];
  int64_t at = i - p.before[d];
  if (at >= 0 && at < n) return at;
  switch (p.fill) {
    case Fill::kEdge:
      return at < 0 ? 0 : n - 1;
    case Fill::kReflect: {
      if (n == 1) return 0;
      const int64_t period = 2 * (n - 1);
      at = ((at % period) + period) % period;
      return at < n ? at : period - at;
    }
    case Fill::kWrap:
      return ((at % n) + n) % n;
    default:
      return -1;
  }
}

template <class T>
std::unique_ptr<Kernel> pad_kernel(const Padding& p, bool value_given) {
  // Sources of every index of every dimension, once.
  std::vector<std::vector<int64_t>> from(static_cast<size_t>(p.out.rank()));
  int64_t stride[kMaxRank];
  row_major(p.in, stride);
  for (int d = 0; d < p.out.rank(); ++d)
    for (int64_t i = 0; i < p.out[d]; ++i) {
      const int64_t at = source(p, d, i);
      from[static_cast<size_t>(d)].push_back(at < 0 ? -1 : at * stride[d]);
    }
  return make_kernel([from, value_given, n = p.out.n_values()](const Operands& o) {
    const T* x = o.input<T>(0);
    T* y = o.output<T>(0);
    const T value = value_given ? *o.input<T>(2) : T{};
    const int rank = static_cast<int>(from.size());
    int64_t index[kMaxRank] = {};
    for (int64_t i = 0; i < n;) {
      int64_t at = 0;
      bool inside = true;
      for (int d = 0; d + 1 < rank; ++d) {
        const int64_t step = from[static_cast<size_t>(d)][static_cast<size_t>(index[d])];
        inside = inside && step >= 0;
        at += step;
      }
      if (rank == 0) {
        y[i++] = x[0];
      } else {
        for (const int64_t step : from.back()) y[i++] = inside && step >= 0 ? x[at + step] : value;
      }
      for (int d = rank - 2; d >= 0; --d) {
        if (++index[d] < static_cast<int64_t>(from[static_cast<size_t>(d)].size())) break;
        index[d] = 0;
      }
    }
  });
}

Result<Padding> read_padding(NodeContext& c) {
  Padding p;
  p.in = c.shape(0);
  const std::string mode = c.text("mode", "constant");
  const char* const names[] = {"constant", "reflect", "edge", "wrap"};
  const auto found = std::find(std::begin(names), std::end(names), mode);
  if (found == std::end(names)) return c.wrong("mode \"%.20s\"", mode.c_str());
  p.fill = static_cast<Fill>(found - std::begin(names));
  std::vector<int64_t> pads = c.integers("pads"), axes;
  if (c.opset() >= 11) {
    auto list = c.known_ints(1, "pads");
    if (!list) return list.error();
    pads = std::move(list.value());
    if (c.has(3)) {
      auto given = c.known_ints(3, "axes");
      if (!given) return given.error();
      axes = std::move(given.value());
    }
  }
  if (!c.has(3))
    for (int d = 0; d < p.in.rank(); ++d) axes.push_back(d);
  if (pads.size() != 2 * axes.size())
    return c.wrong("%zu pads for %zu dimensions", pads.size(), axes.size());
  p.out = p.in;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto d = c.axis(axes[i], p.in.rank());
    if (!d) return d.error();
    const int64_t before = pads[i], after = pads[i + axes.size()], size = p.in[d.value()];
    constexpr int64_t kMost = int64_t{1} << 40;
    if (std::abs(before) > kMost || std::abs(after) > kMost || size + before + after < 0)
      return c.wrong("pads %lld and %lld of a dimension of %lld", static_cast<long long>(before),
                     static_cast<long long>(after), static_cast<long long>(size));
    if (size == 0 && p.fill != Fill::kConstant) return c.wrong("nothing to repeat");
    p.before[d.value()] = before;
    p.out[d.value()] = size + before + after;
  }
  return p;
}

Prepared pad(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 4));
  const auto read = read_padding(c);
  if (!read) return read.error();
  const Padding& p = read.value();
  c.output(0, c.dtype(0), p.out);
  // The tables below are as long as the dimensions: refused before they are made.
  for (const int64_t dim : p.out.dims())
    if (dim > (int64_t{1} << 27)) return c.unsupported("a result of %s", p.out.text().c_str());
  const bool given = c.has(2);
  if (given && (c.dtype(2) != c.dtype(0) || c.shape(2).n_values() != 1))
    return c.wrong("fill value is %s", c.type(2).text().c_str());
  switch (dtype_bytes(c.dtype(0))) {
    case 1:
      return pad_kernel<uint8_t>(p, given);
    case 2:
      return pad_kernel<uint16_t>(p, given);
    case 4:
      return pad_kernel<uint32_t>(p, given);
    default:
      return pad_kernel<uint64_t>(p, given);
  }
}

// Up to opset 10 the fill value is an attribute.
Prepared pad_attributes(NodeContext& c) {
  if (c.real("value", 0) != 0) return c.unsupported("a fill value other than 0 before opset 11");
  return pad(c);
}

constexpr Operator kOperators[] = {
    {"Concat", 4, kMaxOpset, concat, false, Channels::kReads},
    {"DepthToSpace", 1, kMaxOpset, depth_to_space},
    {"Expand", 8, kMaxOpset, expand},
    {"Pad", 2, 10, pad_attributes},
    {"Pad", 11, kMaxOpset, pad},
    {"Slice", 1, kMaxOpset, slice},
    {"SpaceToDepth", 1, kMaxOpset, space_to_depth},
    {"Split", 2, kMaxOpset, split},
    {"Tile", 6, kMaxOpset, tile},
    {"Transpose", 1, kMaxOpset, transpose},
};

}  // namespace

std::span<const Operator> layout_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
