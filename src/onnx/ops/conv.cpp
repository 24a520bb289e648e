// Convolutions. A group's weights [out, in * kernel] times the image laid out in columns
// [in * kernel, places]; one channel a group goes directly.
#include "onnx/ops/conv.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"
#include "onnx/ops/packed.h"
#include "onnx/ops/window.h"

namespace outrider::onnx {
namespace {

// Row k of the columns: one value for every place, kernel index (i, j, l) of one input plane.
void column_row(const Window& w, const float* plane, int64_t tap, float* out) {
  const int64_t l = tap % w.kernel[2], j = tap / w.kernel[2] % w.kernel[1],
                i = tap / (w.kernel[2] * w.kernel[1]);
  const int64_t first = l * w.dilation[2] - w.before[2];
  for (int64_t z = 0; z < w.out[0]; ++z) {
    const int64_t zi = z * w.stride[0] + i * w.dilation[0] - w.before[0];
    for (int64_t y = 0; y < w.out[1]; ++y, out += w.out[2]) {
      const int64_t yi = y * w.stride[1] + j * w.dilation[1] - w.before[1];
      if (zi < 0 || zi >= w.in[0] || yi < 0 || yi >= w.in[1]) {
        std::memset(out, 0, static_cast<size_t>(w.out[2]) * sizeof(float));
        continue;
      }
      const float* row = plane + (zi * w.in[1] + yi) * w.in[2];
      // Places whose source lies inside: the others are padding.
      const int64_t s = w.stride[2];
      const int64_t low = first >= 0 ? 0 : std::min((-first + s - 1) / s, w.out[2]);
      const int64_t high =
          first >= w.in[2] ? low : std::clamp((w.in[2] - first + s - 1) / s, low, w.out[2]);
      for (int64_t x = 0; x < low; ++x) out[x] = 0;
      if (s == 1) {
        std::memcpy(out + low, row + first + low, static_cast<size_t>(high - low) * sizeof(float));
      } else {
        for (int64_t x = low; x < high; ++x) out[x] = row[first + x * s];
      }
      for (int64_t x = high; x < w.out[2]; ++x) out[x] = 0;
    }
  }
}

Result<ConvSizes> conv_sizes(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 3));
  for (size_t i = 0; i < c.n_inputs(); ++i)
    if (c.has(i)) OUTRIDER_TRY(c.require_type(i, {DType::kF32}));
  const Shape &x = c.shape(0), &w = c.shape(1);
  if (x.rank() < 3 || w.rank() != x.rank())
    return c.wrong("input %s and weight %s", x.text().c_str(), w.text().c_str());
  std::vector<int64_t> kernel(w.dims().begin() + 2, w.dims().end());
  const auto window = read_window(c, kernel, {});
  if (!window) return window.error();
  ConvSizes s;
  s.w = window.value();
  s.group = c.integer("group", 1);
  s.n_batch = x[0];
  s.in_channels = x[1];
  s.out_channels = w[0];
  if (s.group < 1 || s.in_channels < 1 || s.out_channels < 1 || s.in_channels % s.group != 0 ||
      s.out_channels % s.group != 0 || w[1] != s.in_channels / s.group)
    return c.wrong("%lld groups, input %s and weight %s", static_cast<long long>(s.group),
                   x.text().c_str(), w.text().c_str());
  s.in_each = s.in_channels / s.group;
  s.out_each = s.out_channels / s.group;
  if (c.has(2) && c.shape(2).n_values() != s.out_channels)
    return c.wrong("bias %s for %lld channels", c.shape(2).text().c_str(),
                   static_cast<long long>(s.out_channels));
  return s;
}

// One output plane of a channel that is a group of its own.
void direct_plane(const Window& w, const float* x, const float* weight, float bias, float* y) {
  const int64_t n = w.n_out();
  for (int64_t i = 0; i < n; ++i) y[i] = bias;
  for (int64_t tap = 0; tap < w.n_kernel(); ++tap) {
    const int64_t l = tap % w.kernel[2], j = tap / w.kernel[2] % w.kernel[1],
                  i = tap / (w.kernel[2] * w.kernel[1]);
    const float factor = weight[tap];
    const int64_t s = w.stride[2], first = l * w.dilation[2] - w.before[2];
    const int64_t low = first >= 0 ? 0 : std::min((-first + s - 1) / s, w.out[2]);
    const int64_t high =
        first >= w.in[2] ? low : std::clamp((w.in[2] - first + s - 1) / s, low, w.out[2]);
    for (int64_t z = 0; z < w.out[0]; ++z) {
      const int64_t zi = z * w.stride[0] + i * w.dilation[0] - w.before[0];
      if (zi < 0 || zi >= w.in[0]) continue;
      for (int64_t r = 0; r < w.out[1]; ++r) {
        const int64_t yi = r * w.stride[1] + j * w.dilation[1] - w.before[1];
        if (yi < 0 || yi >= w.in[1]) continue;
        const float* row = x + (zi * w.in[1] + yi) * w.in[2] + first;
        float* out = y + (z * w.out[1] + r) * w.out[2];
        if (s == 1) {
          for (int64_t k = low; k < high; ++k) out[k] += factor * row[k];
        } else {
          for (int64_t k = low; k < high; ++k) out[k] += factor * row[k * s];
        }
      }
    }
  }
}

std::unique_ptr<Kernel> direct_conv(const ConvSizes& s, bool with_bias, Activation activation) {
  return make_kernel([=](const Operands& o) {
    const int64_t n_in = s.w.n_in(), n_out = s.w.n_out();
    share_range(o.ops, s.n_batch * s.out_channels, n_out * s.w.n_kernel(),
                [&](int64_t first, int64_t last) {
                  for (int64_t plane = first; plane < last; ++plane) {
                    const int64_t b = plane / s.out_channels, ch = plane % s.out_channels;
                    direct_plane(
                        s.w, o.input<float>(0) + (b * s.in_channels + ch / s.out_each) * n_in,
                        o.input<float>(1) + ch * s.w.n_kernel(),
                        with_bias ? o.input<float>(2)[ch] : 0, o.output<float>(0) + plane * n_out);
                  }
                });
    if (activation != Activation::kNone)
      o.ops->activate({o.output<float>(0), s.n_batch * s.out_channels, n_out}, activation);
  });
}

// Few places, many channels: every place is a row, the weight is packed at open.
Prepared row_conv(NodeContext& c, const ConvSizes& s, bool with_bias) {
  const int64_t n = s.w.n_out(), k = s.n_k();
  std::vector<Weight> weights;
  for (int64_t g = 0; g < s.group; ++g) {
    const auto packed =
        pack_weight(c, c.constant<float>(1) + g * s.out_each * k, s.out_each, k, true);
    if (!packed) return packed.error();
    weights.push_back(packed.value());
  }
  c.will_multiply(n, k);
  const size_t columns = static_cast<size_t>(n * k), rows = static_cast<size_t>(n * s.out_each);
  c.scratch((2 * columns + rows) * sizeof(float));
  return make_kernel([=, activation = c.node().activation](const Operands& o) {
    float *wide = reinterpret_cast<float*>(o.scratch), *turned = wide + columns,
          *y = turned + columns;
    for (int64_t b = 0; b < s.n_batch; ++b)
      for (int64_t g = 0; g < s.group; ++g) {
        const float* x = o.input<float>(0) + (b * s.in_channels + g * s.in_each) * s.w.n_in();
        for (int64_t i = 0; i < k; ++i)
          column_row(s.w, x + i / s.w.n_kernel() * s.w.n_in(), i % s.w.n_kernel(), wide + i * n);
        for (int64_t i = 0; i < k; ++i)
          for (int64_t p = 0; p < n; ++p) turned[p * k + i] = wide[i * n + p];
        LinearOut to;
        to.y = {y, n, s.out_each};
        to.bias = with_bias ? o.input<float>(2) + g * s.out_each : nullptr;
        to.activation = activation;
        o.ops->linear({turned, n, k}, weights[static_cast<size_t>(g)], to);
        float* out = o.output<float>(0) + (b * s.out_channels + g * s.out_each) * n;
        for (int64_t ch = 0; ch < s.out_each; ++ch)
          for (int64_t p = 0; p < n; ++p) out[ch * n + p] = y[p * s.out_each + ch];
      }
  });
}

Prepared column_conv(NodeContext& c, const ConvSizes& s, bool with_bias) {
  const int64_t n = s.w.n_out(), k = s.n_k();
  const bool plain = is_plain(s.w);
  c.will_multiply(s.out_each, k);
  c.will_multiply_by(n, k);
  if (!plain) c.scratch(static_cast<size_t>(n * k) * sizeof(float));
  return make_kernel([=, activation = c.node().activation](const Operands& o) {
    for (int64_t b = 0; b < s.n_batch; ++b)
      for (int64_t g = 0; g < s.group; ++g) {
        const float* x = o.input<float>(0) + (b * s.in_channels + g * s.in_each) * s.w.n_in();
        auto* columns = reinterpret_cast<float*>(o.scratch);
        if (!plain)
          share_range(o.ops, k, n, [&](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; ++i)
              column_row(s.w, x + i / s.w.n_kernel() * s.w.n_in(), i % s.w.n_kernel(),
                         columns + i * n);
          });
        float* y = o.output<float>(0) + (b * s.out_channels + g * s.out_each) * n;
        o.ops->product({o.input<float>(1) + g * s.out_each * k, s.out_each, k},
                       {plain ? x : columns, k, n}, false, {y, s.out_each, n});
        if (with_bias)
          for (int64_t ch = 0; ch < s.out_each; ++ch) {
            const float bias = o.input<float>(2)[g * s.out_each + ch];
            for (int64_t i = 0; i < n; ++i) y[ch * n + i] += bias;
          }
      }
    if (activation != Activation::kNone)
      o.ops->activate({o.output<float>(0), s.n_batch * s.out_channels, n}, activation);
  });
}

Prepared conv(NodeContext& c) {
  const auto sizes = conv_sizes(c);
  if (!sizes) return sizes.error();
  const ConvSizes& s = sizes.value();
  const bool in_blocks = channels_fit(c, s);
  if (!in_blocks && c.is_blocked(0)) return c.again_with(NodeContext::Wish::kRows);
  if (in_blocks && !c.is_blocked(0) && wants_blocks(s))
    return c.again_with(NodeContext::Wish::kBlocks);
  const Shape out = window_shape(s.w, s.n_batch, s.out_channels);
  c.output(0, DType::kF32, out);
  int64_t n = 0;
  if (__builtin_mul_overflow(s.w.n_out(), s.n_k(), &n) || n > (int64_t{1} << 34))
    return c.unsupported("%lld places of a kernel of %lld values",
                         static_cast<long long>(s.w.n_out()), static_cast<long long>(s.n_k()));
  c.count_flop(2.0 * static_cast<double>(n) * static_cast<double>(s.n_batch * s.out_channels));
  if (in_blocks) {
    c.blocked_output(0, out);
    return channel_conv(c, s);
  }
  constexpr int64_t kFewPlaces = 12;
  if (c.is_constant(1)) {
    if (!s.is_depthwise() && s.w.n_out() <= kFewPlaces) return row_conv(c, s, c.has(2));
    if (window_fits(s)) return window_conv(c, s, c.has(2));
  }
  if (s.in_each == 1) return direct_conv(s, c.has(2), c.node().activation);
  return column_conv(c, s, c.has(2));
}

// ---- ConvTranspose
// ---------------------------------------------------------------------------------

// Output sizes and padding from attributes: output_shape wins over pads.
Result<void> place_transposed(NodeContext& c, Window& w) {
  const auto n = static_cast<size_t>(w.n_spatial);
  std::vector<int64_t> more = c.integers("output_padding"), wanted = c.integers("output_shape");
  if (more.empty()) more.assign(n, 0);
  if (wanted.size() == n + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (more.size() != n || (!wanted.empty() && wanted.size() != n))
    return c.wrong("output_padding or output_shape has another rank");
  const std::string auto_pad = c.text("auto_pad", "NOTSET");
  for (size_t i = 0; i < n; ++i) {
    const size_t d = kMaxSpatial - n + i;
    if (more[i] < 0 || more[i] >= std::max(w.stride[d], w.dilation[d]))
      return c.wrong("output_padding %lld", static_cast<long long>(more[i]));
    const int64_t whole =
        (w.in[d] - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1 + more[i];
    const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    if (!wanted.empty() || same) {
      w.out[d] = wanted.empty() ? w.in[d] * w.stride[d] : wanted[i];
      const int64_t total = std::max<int64_t>(whole - w.out[d], 0);
      w.before[d] =
          auto_pad == "SAME_UPPER" || auto_pad == "NOTSET" ? total / 2 : total - total / 2;
      if (auto_pad == "NOTSET") w.before[d] = total - total / 2;
    } else {
      w.out[d] = whole - w.before[d] - w.after[d];
    }
    if (w.out[d] < 1) return c.wrong("an output of size %lld", static_cast<long long>(w.out[d]));
  }
  return {};
}

// What one tap of one input plane adds to an output plane.
void add_tap(const Window& w, const float* from, int64_t tap, float* plane) {
  const int64_t l = tap % w.kernel[2], j = tap / w.kernel[2] % w.kernel[1],
                i = tap / (w.kernel[2] * w.kernel[1]);
  for (int64_t z = 0; z < w.in[0]; ++z)
    for (int64_t y = 0; y < w.in[1]; ++y)
      for (int64_t x = 0; x < w.in[2]; ++x, ++from) {
        const int64_t zo = z * w.stride[0] + i * w.dilation[0] - w.before[0],
                      yo = y * w.stride[1] + j * w.dilation[1] - w.before[1],
                      xo = x * w.stride[2] + l * w.dilation[2] - w.before[2];
        if (zo < 0 || zo >= w.out[0] || yo < 0 || yo >= w.out[1] || xo < 0 || xo >= w.out[2])
          continue;
        plane[(zo * w.out[1] + yo) * w.out[2] + xo] += *from;
      }
}

Prepared conv_transpose(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 3));
  for (size_t i = 0; i < c.n_inputs(); ++i)
    if (c.has(i)) OUTRIDER_TRY(c.require_type(i, {DType::kF32}));
  const Shape &x = c.shape(0), &weight = c.shape(1);
  if (x.rank() < 3 || weight.rank() != x.rank() || weight[0] != x[1])
    return c.wrong("input %s and weight %s", x.text().c_str(), weight.text().c_str());
  const std::vector<int64_t> kernel(weight.dims().begin() + 2, weight.dims().end());
  auto window = read_window(c, kernel, {true, false});
  if (!window) return window.error();
  Window& w = window.value();
  OUTRIDER_TRY(place_transposed(c, w));
  const int64_t group = c.integer("group", 1);
  if (group < 1 || x[1] < 1 || x[1] % group != 0 || weight[1] < 1)
    return c.wrong("%lld groups of %lld channels", static_cast<long long>(group),
                   static_cast<long long>(x[1]));
  const int64_t in_each = x[1] / group, out_each = weight[1], out_channels = out_each * group,
                n_batch = x[0], in_channels = x[1], n_rows = out_each * w.n_kernel(), n = w.n_in();
  if (c.has(2) && c.shape(2).n_values() != out_channels)
    return c.wrong("bias %s for %lld channels", c.shape(2).text().c_str(),
                   static_cast<long long>(out_channels));
  c.output(0, DType::kF32, window_shape(w, n_batch, out_channels));
  c.will_multiply(n_rows, in_each);
  c.count_flop(2.0 * static_cast<double>(n_batch * group * n_rows) * static_cast<double>(in_each) *
               static_cast<double>(n));
  c.will_multiply_by(n, in_each);
  c.scratch(static_cast<size_t>(n_rows * n + n_rows * in_each) * sizeof(float));
  const bool with_bias = c.has(2);
  return make_kernel([=](const Operands& o) {
    float *columns = reinterpret_cast<float*>(o.scratch), *turned = columns + n_rows * n;
    for (int64_t g = 0; g < group; ++g) {
      const float* from = o.input<float>(1) + g * in_each * n_rows;
      for (int64_t i = 0; i < in_each; ++i)
        for (int64_t r = 0; r < n_rows; ++r) turned[r * in_each + i] = from[i * n_rows + r];
      for (int64_t b = 0; b < n_batch; ++b) {
        o.ops->product({turned, n_rows, in_each},
                       {o.input<float>(0) + (b * in_channels + g * in_each) * n, in_each, n}, false,
                       {columns, n_rows, n});
        share_range(o.ops, out_each, w.n_kernel() * n, [&](int64_t first, int64_t last) {
          for (int64_t ch = first; ch < last; ++ch) {
            float* plane = o.output<float>(0) + (b * out_channels + g * out_each + ch) * w.n_out();
            std::fill_n(plane, w.n_out(), with_bias ? o.input<float>(2)[g * out_each + ch] : 0.0f);
            for (int64_t tap = 0; tap < w.n_kernel(); ++tap)
              add_tap(w, columns + (ch * w.n_kernel() + tap) * n, tap, plane);
          }
        });
      }
    }
  });
}

constexpr Operator kOperators[] = {
    {"Conv", 1, kMaxOpset, conv, true, Channels::kReads},
    {"ConvTranspose", 1, kMaxOpset, conv_transpose, true},
};

}  // namespace

std::span<const Operator> conv_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
