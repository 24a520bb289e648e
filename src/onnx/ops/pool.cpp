// Pools: a sliding window's largest value or mean, and those of whole planes.
#include "onnx/ops/pool.h"

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "onnx/channels.h"
#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"

namespace outrider::onnx {
namespace {

struct PoolRules {
  bool count_padding = false;
  bool column_major = false;  // of the indices
};

// Where the places of tap l in the last dimension have their value inside: [low, high).
struct TapSpan {
  int64_t first = 0, low = 0, high = 0;  // place p reads first + p * stride
};
std::vector<TapSpan> tap_spans(const Window& w) {
  std::vector<TapSpan> spans;
  const int64_t n = w.out[2], s = w.stride[2];
  for (int64_t l = 0; l < w.kernel[2]; ++l) {
    const int64_t first = l * w.dilation[2] - w.before[2];
    const int64_t low = first >= 0 ? 0 : std::min((-first + s - 1) / s, n);
    const int64_t high = first >= w.in[2] ? low : std::clamp((w.in[2] - first + s - 1) / s, low, n);
    spans.push_back({first, low, high});
  }
  return spans;
}

// One output row: the largest of its windows, the inner loop over places without a branch.
void max_row(const Window& w, std::span<const TapSpan> spans, const Part& a, const Part& b,
             const float* x, float* out) {
  const int64_t s = w.stride[2];
  std::fill_n(out, w.out[2], std::numeric_limits<float>::lowest());
  for (int64_t i = a.first, zi = a.at; i < a.last; ++i, zi += w.dilation[0])
    for (int64_t j = b.first, yi = b.at; j < b.last; ++j, yi += w.dilation[1]) {
      const float* row = x + (zi * w.in[1] + yi) * w.in[2];
      for (const TapSpan& span : spans) {
        const float* from = row + span.first;
        if (s == 2) {  // what most networks have: the compiler makes vectors of a constant stride
          for (int64_t k = span.low; k < span.high; ++k) out[k] = larger(from[k * 2], out[k]);
        } else {
          for (int64_t k = span.low; k < span.high; ++k) out[k] = larger(from[k * s], out[k]);
        }
      }
    }
}

template <class T>
std::unique_ptr<Kernel> max_kernel(const Window& w, int64_t n_planes, const PoolRules& rules) {
  return make_kernel([=](const Operands& o) {
    share_range(o.ops, n_planes, w.n_out() * w.n_kernel(), [&](int64_t first, int64_t last) {
      for (int64_t plane = first; plane < last; ++plane) {
        const T* x = o.input<T>(0) + plane * w.n_in();
        T* y = o.output<T>(0) + plane * w.n_out();
        int64_t* places = o.out[1] == nullptr ? nullptr : o.output<int64_t>(1) + plane * w.n_out();
        each_window(w, [&](int64_t at, const Part& a, const Part& b, const Part& c) {
          T best = std::numeric_limits<T>::lowest();
          int64_t place = 0;
          bool any = false;
          for (int64_t i = a.first, zi = a.at; i < a.last; ++i, zi += w.dilation[0])
            for (int64_t j = b.first, yi = b.at; j < b.last; ++j, yi += w.dilation[1])
              for (int64_t k = c.first, xi = c.at; k < c.last; ++k, xi += w.dilation[2]) {
                const T value = x[(zi * w.in[1] + yi) * w.in[2] + xi];
                if (any && !(value > best) && value == value) continue;
                best = value;
                any = true;
                place = rules.column_major ? (xi * w.in[1] + yi) * w.in[0] + zi
                                           : (zi * w.in[1] + yi) * w.in[2] + xi;
              }
          y[at] = best;
          if (places != nullptr) places[at] = plane * w.n_in() + place;
        });
      }
    });
  });
}

// Without indices: tap by tap over whole rows.
std::unique_ptr<Kernel> max_rows_kernel(const Window& w, int64_t n_planes) {
  return make_kernel([=, spans = tap_spans(w)](const Operands& o) {
    share_range(o.ops, n_planes, w.n_out() * w.n_kernel(), [&](int64_t first, int64_t last) {
      for (int64_t z = 0; z < w.out[0]; ++z)
        for (int64_t y = 0; y < w.out[1]; ++y) {
          const Part a = inside(w, 0, z), b = inside(w, 1, y);
          const int64_t at = (z * w.out[1] + y) * w.out[2];
          for (int64_t plane = first; plane < last; ++plane)
            max_row(w, spans, a, b, o.input<float>(0) + plane * w.n_in(),
                    o.output<float>(0) + plane * w.n_out() + at);
        }
    });
  });
}

Prepared max_pool(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  OUTRIDER_TRY(c.require_type(0, {DType::kF32, DType::kF64, DType::kI8, DType::kU8}));
  const auto window = read_window(c, {}, {false, c.integer("ceil_mode", 0) != 0});
  if (!window) return window.error();
  const Window& w = window.value();
  PoolRules rules;
  rules.column_major = c.integer("storage_order", 0) != 0;
  if (rules.column_major && c.wants(1) && w.n_spatial != 2)
    return c.unsupported("column-major indices of %d dimensions", w.n_spatial);
  const Shape out = window_shape(w, c.shape(0)[0], c.shape(0)[1]);
  if (c.is_blocked(0)) {
    if (c.wants(1)) return c.again_with(NodeContext::Wish::kRows);
    c.blocked_output(0, out);
    return block_max_pool(w, out[0] * channel_blocks(out[1]));
  }
  c.output(0, c.dtype(0), out);
  c.output(1, DType::kI64, out);
  const int64_t n_planes = out[0] * out[1];
  switch (c.dtype(0)) {
    case DType::kF32:
      return c.wants(1) ? max_kernel<float>(w, n_planes, rules) : max_rows_kernel(w, n_planes);
    case DType::kF64:
      return max_kernel<double>(w, n_planes, rules);
    case DType::kI8:
      return max_kernel<int8_t>(w, n_planes, rules);
    default:
      return max_kernel<uint8_t>(w, n_planes, rules);
  }
}

// How many places of a window count when padding does: those inside the padded data.
int64_t padded(const Window& w, size_t d, int64_t out) {
  const int64_t begin = out * w.stride[d] - w.before[d], end = w.in[d] + w.after[d];
  int64_t n = 0;
  for (int64_t k = 0; k < w.kernel[d]; ++k) n += begin + k * w.dilation[d] < end;
  return n;
}

Prepared average_pool(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  OUTRIDER_TRY(c.require_type(0, {DType::kF32}));
  const auto window = read_window(c, {}, {false, c.integer("ceil_mode", 0) != 0});
  if (!window) return window.error();
  const Window w = window.value();
  const bool count_padding = c.integer("count_include_pad", 0) != 0;
  const Shape out = window_shape(w, c.shape(0)[0], c.shape(0)[1]);
  if (c.is_blocked(0)) {
    c.blocked_output(0, out);
    return block_average_pool(w, out[0] * channel_blocks(out[1]), count_padding);
  }
  c.output(0, DType::kF32, out);
  const int64_t n_planes = out[0] * out[1];
  return make_kernel([=](const Operands& o) {
    share_range(o.ops, n_planes, w.n_out() * w.n_kernel(), [&](int64_t first, int64_t last) {
      for (int64_t plane = first; plane < last; ++plane) {
        const float* x = o.input<float>(0) + plane * w.n_in();
        float* y = o.output<float>(0) + plane * w.n_out();
        each_window(w, [&](int64_t at, const Part& a, const Part& b, const Part& e) {
          double sum = 0;
          for (int64_t i = a.first, zi = a.at; i < a.last; ++i, zi += w.dilation[0])
            for (int64_t j = b.first, yi = b.at; j < b.last; ++j, yi += w.dilation[1])
              for (int64_t k = e.first, xi = e.at; k < e.last; ++k, xi += w.dilation[2])
                sum += static_cast<double>(x[(zi * w.in[1] + yi) * w.in[2] + xi]);
          const int64_t n = n_counted(w, at, a, b, e, count_padding);
          y[at] = n == 0 ? 0 : static_cast<float>(sum / static_cast<double>(n));
        });
      }
    });
  });
}

Prepared lp_pool(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  OUTRIDER_TRY(c.require_type(0, {DType::kF32}));
  const auto window = read_window(c, {}, {false, c.integer("ceil_mode", 0) != 0});
  if (!window) return window.error();
  const Window w = window.value();
  const auto p = static_cast<double>(c.integer("p", 2));
  if (p < 1) return c.wrong("p is %g", p);
  const Shape out = window_shape(w, c.shape(0)[0], c.shape(0)[1]);
  c.output(0, DType::kF32, out);
  const int64_t n_planes = out[0] * out[1];
  return make_kernel([=](const Operands& o) {
    for (int64_t plane = 0; plane < n_planes; ++plane) {
      const float* x = o.input<float>(0) + plane * w.n_in();
      each_window(w, [&](int64_t at, const Part& a, const Part& b, const Part& e) {
        double sum = 0;
        for (int64_t i = a.first, zi = a.at; i < a.last; ++i, zi += w.dilation[0])
          for (int64_t j = b.first, yi = b.at; j < b.last; ++j, yi += w.dilation[1])
            for (int64_t k = e.first, xi = e.at; k < e.last; ++k, xi += w.dilation[2])
              sum +=
                  std::pow(std::abs(static_cast<double>(x[(zi * w.in[1] + yi) * w.in[2] + xi])), p);
        o.output<float>(0)[plane * w.n_out() + at] = static_cast<float>(std::pow(sum, 1 / p));
      });
    }
  });
}

template <bool kMax>
Prepared global(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  OUTRIDER_TRY(c.require_type(0, {DType::kF32}));
  Shape out = c.shape(0);
  if (out.rank() < 3) return c.wrong("input %s has no spatial dimension", out.text().c_str());
  const int64_t n_planes = out[0] * out[1], run = out.product(2, out.rank());
  if (run == 0) return c.wrong("of nothing");
  if (kMax && c.is_blocked(0)) return c.again_with(NodeContext::Wish::kRows);
  for (int d = 2; d < out.rank(); ++d) out[d] = 1;
  c.output(0, DType::kF32, out);
  if (c.is_blocked(0)) return block_global_average(out[0], out[1], run);
  return make_kernel([=](const Operands& o) {
    share_range(o.ops, n_planes, run, [&](int64_t first, int64_t last) {
      for (int64_t plane = first; plane < last; ++plane) {
        const float* x = o.input<float>(0) + plane * run;
        // Eight sums side by side: one would wait for itself.
        constexpr int64_t kSums = 8;
        double sums[kSums] = {};
        float best = x[0];
        int64_t i = 0;
        for (; !kMax && i + kSums <= run; i += kSums)
          for (int64_t k = 0; k < kSums; ++k) sums[k] += static_cast<double>(x[i + k]);
        for (; i < run; ++i) {
          if (kMax)
            best = x[i] > best || x[i] != x[i] ? x[i] : best;
          else
            sums[0] += static_cast<double>(x[i]);
        }
        double sum = 0;
        for (const double part : sums) sum += part;
        o.output<float>(0)[plane] =
            kMax ? best : static_cast<float>(sum / static_cast<double>(run));
      }
    });
  });
}

constexpr Operator kOperators[] = {
    {"AveragePool", 7, kMaxOpset, average_pool, true, Channels::kReads},
    {"GlobalAveragePool", 1, kMaxOpset, global<false>, true, Channels::kReads},
    {"GlobalMaxPool", 1, kMaxOpset, global<true>, true, Channels::kReads},
    {"LpPool", 2, kMaxOpset, lp_pool, true},
    {"MaxPool", 1, kMaxOpset, max_pool, true, Channels::kReads},
};

}  // namespace

int64_t n_counted(const Window& w, int64_t at, const Part& a, const Part& b, const Part& e,
                  bool count_padding) {
  if (!count_padding) return (a.last - a.first) * (b.last - b.first) * (e.last - e.first);
  const int64_t column = at % w.out[2], row = at / w.out[2] % w.out[1],
                slab = at / (w.out[2] * w.out[1]);
  return padded(w, 0, slab) * padded(w, 1, row) * padded(w, 2, column);
}

std::span<const Operator> pool_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
