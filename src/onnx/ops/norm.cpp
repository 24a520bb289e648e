// Normalisations. Means and variances in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"

namespace outrider::onnx {
namespace {

Result<void> require_floats(NodeContext& c, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (c.has(i)) OUTRIDER_TRY(c.require_type(i, {DType::kF32}));
  return {};
}

Result<void> require_length(NodeContext& c, size_t i, int64_t n) {
  if (c.shape(i).n_values() != n)
    return c.wrong("input %zu is %s, wanted %lld values", i, c.shape(i).text().c_str(),
                   static_cast<long long>(n));
  return {};
}

// y = x * factor + shift for every channel: four constant rows become two at open.
Prepared batch_norm(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(5, 5));
  OUTRIDER_TRY(require_floats(c, 5));
  if (c.integer("training_mode", 0) != 0 || c.integer("spatial", 1) == 0)
    return c.unsupported("training mode, or statistics for each place");
  const Shape& in = c.shape(0);
  if (in.rank() < 1) return c.wrong("a single value");
  const int64_t n_channels = in.rank() == 1 ? 1 : in[1];
  for (size_t i = 1; i < 5; ++i) OUTRIDER_TRY(require_length(c, i, n_channels));
  c.output(0, DType::kF32, in);
  const double epsilon = static_cast<double>(c.real("epsilon", 1e-5f));
  const int64_t n_batch = in[0], run = in.product(2, std::max(in.rank(), 2));
  return make_kernel([=](const Operands& o) {
    const float *scale = o.input<float>(1), *bias = o.input<float>(2), *mean = o.input<float>(3),
                *variance = o.input<float>(4);
    share_range(o.ops, n_batch * n_channels, run, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        const int64_t ch = row % n_channels;
        const double f =
            static_cast<double>(scale[ch]) / std::sqrt(static_cast<double>(variance[ch]) + epsilon);
        const float factor = static_cast<float>(f),
                    shift = static_cast<float>(static_cast<double>(bias[ch]) -
                                               static_cast<double>(mean[ch]) * f);
        const float* x = o.input<float>(0) + row * run;
        float* y = o.output<float>(0) + row * run;
        for (int64_t i = 0; i < run; ++i) y[i] = x[i] * factor + shift;
      }
    });
  });
}

struct Moments {
  double mean = 0, inverse = 0;
};
Moments moments(const float* x, int64_t n, double epsilon) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i]) - mean;
    squares += d * d;
  }
  return {mean, 1 / std::sqrt(squares / static_cast<double>(n) + epsilon)};
}

// Groups of channels of one sample; scale and bias by channel, or by group where `by_group`.
Prepared grouped_norm(NodeContext& c, int64_t n_groups, bool by_group) {
  const Shape& in = c.shape(0);
  const int64_t n_channels = in[1];
  if (n_groups < 1 || n_channels % n_groups != 0)
    return c.wrong("%lld groups of %lld channels", static_cast<long long>(n_groups),
                   static_cast<long long>(n_channels));
  for (size_t i = 1; i < 3; ++i)
    OUTRIDER_TRY(require_length(c, i, by_group ? n_groups : n_channels));
  c.output(0, DType::kF32, in);
  const double epsilon = static_cast<double>(c.real("epsilon", 1e-5f));
  const int64_t n_batch = in[0], run = in.product(2, in.rank()), width = n_channels / n_groups;
  if (run == 0) return c.wrong("of nothing");
  return make_kernel([=](const Operands& o) {
    share_range(o.ops, n_batch * n_groups, width * run, [&](int64_t first, int64_t last) {
      for (int64_t g = first; g < last; ++g) {
        const float* x = o.input<float>(0) + g * width * run;
        float* y = o.output<float>(0) + g * width * run;
        const Moments m = moments(x, width * run, epsilon);
        for (int64_t k = 0; k < width; ++k) {
          const int64_t group = g % n_groups, at = by_group ? group : group * width + k;
          const double f = m.inverse * static_cast<double>(o.input<float>(1)[at]),
                       shift = static_cast<double>(o.input<float>(2)[at]) - m.mean * f;
          for (int64_t i = k * run; i < (k + 1) * run; ++i)
            y[i] = static_cast<float>(static_cast<double>(x[i]) * f + shift);
        }
      }
    });
  });
}

Prepared instance_norm(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(3, 3));
  OUTRIDER_TRY(require_floats(c, 3));
  if (c.shape(0).rank() < 3) return c.wrong("input %s", c.shape(0).text().c_str());
  return grouped_norm(c, c.shape(0)[1], false);
}

// Up to opset 20 scale and bias belong to the groups, from 21 on to the channels.
Prepared group_norm(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(3, 3));
  OUTRIDER_TRY(require_floats(c, 3));
  if (c.shape(0).rank() < 2) return c.wrong("input %s", c.shape(0).text().c_str());
  return grouped_norm(c, c.integer("num_groups", 0), c.opset() < 21);
}

Prepared layer_norm(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 3));
  OUTRIDER_TRY(require_floats(c, 3));
  const Shape& in = c.shape(0);
  const auto axis = c.axis(c.integer("axis", -1), in.rank());
  if (!axis) return axis.error();
  const int a = axis.value();
  const int64_t n = in.product(a, in.rank()), n_rows = in.product(0, a);
  if (n < 1) return c.wrong("of nothing");
  OUTRIDER_TRY(require_length(c, 1, n));
  if (c.has(2)) OUTRIDER_TRY(require_length(c, 2, n));
  Shape means = in;
  for (int d = a; d < in.rank(); ++d) means[d] = 1;
  c.output(0, DType::kF32, in);
  const bool more = c.wants(1) || c.wants(2);
  if (more) c.output(1, DType::kF32, means), c.output(2, DType::kF32, means);
  const float epsilon = c.real("epsilon", 1e-5f);
  const bool with_bias = c.has(2);
  if (!with_bias) c.scratch(static_cast<size_t>(n) * sizeof(float));
  return make_kernel([=](const Operands& o) {
    const float* bias = o.input<float>(2);
    if (!with_bias) {
      bias = reinterpret_cast<const float*>(o.scratch);
      std::fill_n(reinterpret_cast<float*>(o.scratch), n, 0.0f);
    }
    const View<const float> x(o.input<float>(0), n_rows, n);
    if (more)
      for (int64_t i = 0; i < n_rows; ++i) {
        const Moments m = moments(x.row(i), n, static_cast<double>(epsilon));
        o.output<float>(1)[i] = static_cast<float>(m.mean);
        o.output<float>(2)[i] = static_cast<float>(m.inverse);
      }
    o.ops->layer_norm(x, o.input<float>(1), bias, epsilon, {o.output<float>(0), n_rows, n});
  });
}

Prepared lp_norm(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  OUTRIDER_TRY(require_floats(c, 1));
  const Shape& in = c.shape(0);
  const auto axis = c.axis(c.integer("axis", -1), in.rank());
  if (!axis) return axis.error();
  const int64_t p = c.integer("p", 2);
  if (p != 1 && p != 2) return c.wrong("p is %lld", static_cast<long long>(p));
  const int a = axis.value();
  const int64_t n_rows = in.product(0, a), size = in[a], run = in.product(a + 1, in.rank());
  c.output(0, DType::kF32, in);
  return make_kernel([=](const Operands& o) {
    for (int64_t row = 0; row < n_rows * run; ++row) {
      const int64_t at = row / run * size * run + row % run;
      const float* x = o.input<float>(0) + at;
      double sum = 0;
      for (int64_t i = 0; i < size; ++i) {
        const double v = static_cast<double>(x[i * run]);
        sum += p == 1 ? std::abs(v) : v * v;
      }
      if (p == 2) sum = std::sqrt(sum);
      for (int64_t i = 0; i < size; ++i)
        o.output<float>(0)[at + i * run] =
            sum == 0 ? 0 : static_cast<float>(static_cast<double>(x[i * run]) / sum);
    }
  });
}

// (x - mean) / sqrt(variance) over `axes`, {0, 2, 3} unless given.
Prepared mean_variance_norm(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  OUTRIDER_TRY(require_floats(c, 1));
  const Shape& in = c.shape(0);
  std::vector<int64_t> axes = c.integers("axes");
  if (axes.empty()) axes = {0, 2, 3};
  std::vector<bool> reduced(static_cast<size_t>(in.rank()), false);
  for (const int64_t axis : axes) {
    const auto a = c.axis(axis, in.rank());
    if (!a) return a.error();
    reduced[static_cast<size_t>(a.value())] = true;
  }
  // Which group each value belongs to.
  Shape kept;
  for (int d = 0; d < in.rank(); ++d) kept.push_back(reduced[static_cast<size_t>(d)] ? 1 : in[d]);
  const Loops loops(in, {&kept});
  const int64_t n_groups = kept.n_values(), n = in.n_values();
  if (n == 0) return c.wrong("of nothing");
  c.output(0, DType::kF32, in);
  c.scratch(static_cast<size_t>(n_groups) * 2 * sizeof(double));
  return make_kernel([=](const Operands& o) {
    double *sum = reinterpret_cast<double*>(o.scratch), *squares = sum + n_groups;
    std::fill_n(sum, 2 * n_groups, 0.0);
    const float* x = o.input<float>(0);
    const double each = static_cast<double>(n / n_groups);
    const auto visit = [&](const auto& f) {
      loops.rows(0, loops.n_rows(), [&](int64_t at, const int64_t* from) {
        for (int64_t i = 0; i < loops.inner(); ++i) f(at + i, from[0] + i * loops.inner_stride(0));
      });
    };
    visit([&](int64_t i, int64_t g) { sum[g] += static_cast<double>(x[i]); });
    visit([&](int64_t i, int64_t g) {
      const double d = static_cast<double>(x[i]) - sum[g] / each;
      squares[g] += d * d;
    });
    visit([&](int64_t i, int64_t g) {
      o.output<float>(0)[i] = static_cast<float>((static_cast<double>(x[i]) - sum[g] / each) /
                                                 (std::sqrt(squares[g] / each) + 1e-9));
    });
  });
}

Prepared lrn(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 1));
  OUTRIDER_TRY(require_floats(c, 1));
  const Shape& in = c.shape(0);
  const int64_t size = c.integer("size", 0);
  if (in.rank() < 2 || size < 1) return c.wrong("size %lld", static_cast<long long>(size));
  const double alpha = static_cast<double>(c.real("alpha", 1e-4f)) / static_cast<double>(size),
               beta = static_cast<double>(c.real("beta", 0.75f)),
               bias = static_cast<double>(c.real("bias", 1));
  const int64_t n_batch = in[0], n_channels = in[1], run = in.product(2, in.rank());
  c.output(0, DType::kF32, in);
  return make_kernel([=](const Operands& o) {
    for (int64_t b = 0; b < n_batch; ++b)
      for (int64_t ch = 0; ch < n_channels; ++ch)
        for (int64_t i = 0; i < run; ++i) {
          const float* x = o.input<float>(0) + b * n_channels * run + i;
          const int64_t low = std::max<int64_t>(0, ch - (size - 1) / 2),
                        high = std::min(n_channels - 1, ch + size / 2);
          double sum = 0;
          for (int64_t k = low; k <= high; ++k)
            sum += static_cast<double>(x[k * run]) * static_cast<double>(x[k * run]);
          o.output<float>(0)[(b * n_channels + ch) * run + i] = static_cast<float>(
              static_cast<double>(x[ch * run]) / std::pow(bias + alpha * sum, beta));
        }
  });
}

constexpr Operator kOperators[] = {
    {"BatchNormalization", 7, kMaxOpset, batch_norm, true},
    {"GroupNormalization", 18, kMaxOpset, group_norm, true},
    {"InstanceNormalization", 6, kMaxOpset, instance_norm, true},
    {"LRN", 1, kMaxOpset, lrn, true},
    {"LayerNormalization", 17, kMaxOpset, layer_norm, true},
    {"LpNormalization", 1, kMaxOpset, lp_norm, true},
    {"MeanVarianceNormalization", 9, kMaxOpset, mean_variance_norm, true},
};

}  // namespace

std::span<const Operator> norm_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
