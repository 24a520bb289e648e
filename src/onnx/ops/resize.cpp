// Resize and Upsample: one pass an axis, each output index a few weighted input indices.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"

namespace outrider::onnx {
namespace {

enum class Mode : uint8_t { kNearest, kLinear, kCubic };

struct Rules {
  Mode mode = Mode::kNearest;
  std::string coordinates = "half_pixel", rounding = "round_prefer_floor";
  double cubic_a = -0.75, outside = 0;
  bool exclude_outside = false, antialias = false;
};

struct Axis {
  int64_t in = 1, out = 1;
  double scale = 1, roi_first = 0, roi_last = 1;
  double length = 1;  // of the output before it was rounded to whole values
};

struct Tap {
  std::vector<int64_t> at;
  std::vector<float> weight;
  bool outside = false;  // the fill value instead
};

double original(const Rules& r, const Axis& a, int64_t i) {
  const double x = static_cast<double>(i), in = static_cast<double>(a.in),
               out = static_cast<double>(a.out);
  if (r.coordinates == "asymmetric") return x / a.scale;
  // The standard's tests take the length that was asked for here, not the one it was rounded to.
  if (r.coordinates == "align_corners") return out == 1 ? 0 : x * (in - 1) / (a.length - 1);
  if (r.coordinates == "pytorch_half_pixel") return out > 1 ? (x + 0.5) / a.scale - 0.5 : 0;
  if (r.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (r.coordinates == "half_pixel_symmetric") {
    // The centre stays where it is although the output was rounded to whole pixels.
    const double adjust = out / (a.scale * in), centre = in / 2;
    return centre * (1 - adjust) + (x + 0.5) / a.scale - 0.5;
  }
  if (r.coordinates == "tf_crop_and_resize")
    return out > 1 ? a.roi_first * (in - 1) + x * (a.roi_last - a.roi_first) * (in - 1) / (out - 1)
                   : 0.5 * (a.roi_first + a.roi_last) * (in - 1);
  return (x + 0.5) / a.scale - 0.5;
}

double nearest(const Rules& r, double x) {
  if (r.rounding == "round_prefer_floor") return std::ceil(x - 0.5);
  if (r.rounding == "round_prefer_ceil") return std::floor(x + 0.5);
  return r.rounding == "ceil" ? std::ceil(x) : std::floor(x);
}

double cubic(double a, double s) {
  s = std::abs(s);
  if (s <= 1) return ((a + 2) * s - (a + 3)) * s * s + 1;
  return s < 2 ? ((a * s - 5 * a) * s + 8 * a) * s - 4 * a : 0;
}

Tap tap_of(const Rules& r, const Axis& a, int64_t i) {
  Tap tap;
  const double x = original(r, a, i), last = static_cast<double>(a.in - 1);
  if (r.coordinates == "tf_crop_and_resize" && (x < 0 || x > last)) {
    tap.outside = true;
    return tap;
  }
  const auto bounded = [&](double at) { return static_cast<int64_t>(std::clamp(at, 0.0, last)); };
  if (r.mode == Mode::kNearest) {
    tap.at = {bounded(nearest(r, x))};
    tap.weight = {1};
    return tap;
  }
  // Where the result is smaller and antialiased the kernel is as much wider.
  const double shrink = r.antialias ? std::min(a.scale, 1.0) : 1,
               reach = r.mode == Mode::kLinear ? 1 : 2;
  const bool beyond_counts = r.mode == Mode::kCubic || shrink < 1;
  const double inside = beyond_counts ? x : std::clamp(x, 0.0, last), base = std::floor(inside);
  const auto first = static_cast<int64_t>(std::floor(-reach / shrink)) + 1, end = 2 - first;
  std::vector<double> weights;
  double sum = 0;
  for (int64_t k = first; k < end; ++k) {
    const double at = base + static_cast<double>(k), distance = std::abs(at - inside) * shrink;
    double weight =
        r.mode == Mode::kLinear ? std::max(0.0, 1 - distance) : cubic(r.cubic_a, distance);
    if (r.exclude_outside && (at < 0 || at > last)) weight = 0;
    weights.push_back(weight);
    sum += weight;
    tap.at.push_back(bounded(at));
  }
  const bool divide = r.exclude_outside || shrink < 1;
  for (const double weight : weights)
    tap.weight.push_back(static_cast<float>(divide ? weight / sum : weight));
  return tap;
}

// [n_rows, in, run] -> [n_rows, out, run].
struct Pass {
  int64_t n_rows = 0, in = 0, run = 0;
  std::vector<Tap> taps;
};

template <class T>
void apply(const Pass& p, float outside, const T* x, T* y) {
  for (int64_t row = 0; row < p.n_rows; ++row, x += p.in * p.run)
    for (const Tap& tap : p.taps) {
      for (int64_t i = 0; i < p.run; ++i) {
        if (tap.outside) {
          y[i] = static_cast<T>(outside);
        } else if (tap.at.size() == 1) {
          y[i] = x[tap.at[0] * p.run + i];
        } else {
          float sum = 0;
          for (size_t k = 0; k < tap.at.size(); ++k)
            sum += tap.weight[k] * static_cast<float>(x[tap.at[k] * p.run + i]);
          y[i] = static_cast<T>(sum);
        }
      }
      y += p.run;
    }
}

template <class T>
std::unique_ptr<Kernel> resize_kernel(std::vector<Pass> passes, float outside, size_t bytes,
                                      size_t half) {
  return make_kernel([=, passes = std::move(passes)](const Operands& o) {
    if (passes.empty()) {
      std::memcpy(o.out[0], o.in[0], bytes);
      return;
    }
    const T* x = o.input<T>(0);
    for (size_t i = 0; i < passes.size(); ++i) {
      T* y = i + 1 == passes.size() ? o.output<T>(0)
                                    : reinterpret_cast<T*>(o.scratch + (i % 2) * half);
      apply(passes[i], outside, x, y);
      x = y;
    }
  });
}

Prepared make_resize(NodeContext& c, const Rules& rules, const std::vector<Axis>& axes) {
  const Shape in = c.shape(0);
  Shape out;
  for (const Axis& a : axes) {
    if (a.in < 1 || a.out < 1 || a.out > (int64_t{1} << 27))
      return c.unsupported("from %lld to %lld", static_cast<long long>(a.in),
                           static_cast<long long>(a.out));
    out.push_back(a.out);
  }
  c.output(0, c.dtype(0), out);
  std::vector<Pass> passes;
  Shape now = in;
  size_t largest = 0;
  for (int d = 0; d < in.rank(); ++d) {
    const Axis& a = axes[static_cast<size_t>(d)];
    const bool whole = a.roi_first == 0 && a.roi_last == 1;
    if (a.in == a.out && a.scale == 1 && whole) continue;
    // Every result has its weights at open; a long axis made short has as many as it has values.
    constexpr double kMostWeights = 1 << 26;
    const double each = rules.antialias ? 4 / std::min(a.scale, 1.0) + 2 : 4;
    if (!(each * static_cast<double>(a.out) <= kMostWeights))
      return c.unsupported("from %lld to %lld with antialias", static_cast<long long>(a.in),
                           static_cast<long long>(a.out));
    Pass p{now.product(0, d), a.in, now.product(d + 1, now.rank()), {}};
    for (int64_t i = 0; i < a.out; ++i) p.taps.push_back(tap_of(rules, a, i));
    passes.push_back(std::move(p));
    now[d] = a.out;
    if (now.n_values() > (int64_t{1} << 36))
      return c.unsupported("a result of %s", out.text().c_str());
    largest = std::max(largest, TensorType{c.dtype(0), now}.n_bytes());
  }
  const size_t half = (largest + 63) / 64 * 64;
  if (passes.size() > 1) c.scratch(2 * half);
  const auto outside = static_cast<float>(rules.outside);
  const size_t bytes = c.type(0).n_bytes();
  switch (c.dtype(0)) {
    case DType::kF32:
      return resize_kernel<float>(std::move(passes), outside, bytes, half);
    case DType::kI32:
      return resize_kernel<int32_t>(std::move(passes), outside, bytes, half);
    case DType::kI8:
      return resize_kernel<int8_t>(std::move(passes), outside, bytes, half);
    case DType::kU8:
      return resize_kernel<uint8_t>(std::move(passes), outside, bytes, half);
    default:
      return c.unsupported("of %s", short_type_name(c.dtype(0)));
  }
}

Result<Mode> mode_of(NodeContext& c) {
  const std::string mode = c.text("mode", "nearest");
  if (mode == "nearest") return Mode::kNearest;
  if (mode == "linear" || mode == "bilinear" || mode == "trilinear") return Mode::kLinear;
  if (mode == "cubic") return Mode::kCubic;
  return c.wrong("mode \"%.20s\"", mode.c_str());
}

Result<std::vector<double>> known_reals(NodeContext& c, size_t i, const char* what) {
  OUTRIDER_TRY(c.require_type(i, {DType::kF32}));
  if (!c.is_constant(i)) {
    c.note_undetermined(i);
    return c.unsupported("%s depends on the inputs; this build needs it at open", what);
  }
  const float* values = c.constant<float>(i);
  return std::vector<double>(values, values + c.shape(i).n_values());
}

// Sizes from scales, the same for all opsets.
Result<void> scale_axes(NodeContext& c, std::vector<Axis>& axes, const std::vector<int>& which,
                        const std::vector<double>& scales) {
  if (scales.size() != which.size())
    return c.wrong("%zu scales for %zu dimensions", scales.size(), which.size());
  for (size_t i = 0; i < which.size(); ++i) {
    Axis& a = axes[static_cast<size_t>(which[i])];
    a.scale = scales[i];
    const double out = std::floor(static_cast<double>(a.in) * a.scale);
    if (!(scales[i] > 0) || !(out < 1e9)) return c.wrong("scale %g", scales[i]);
    a.out = static_cast<int64_t>(out);
    a.length = static_cast<double>(a.in) * a.scale;
  }
  return {};
}

// Scales from sizes; where the sides must keep their ratio one scale holds for all of them.
Result<void> size_axes(NodeContext& c, std::vector<Axis>& axes, const std::vector<int>& which,
                       const std::vector<int64_t>& sizes) {
  const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    return c.wrong("keep_aspect_ratio_policy \"%.20s\"", policy.c_str());
  double common = 0;
  for (size_t i = 0; i < which.size(); ++i) {
    Axis& a = axes[static_cast<size_t>(which[i])];
    a.out = sizes[i];
    a.length = static_cast<double>(a.out);
    a.scale = a.in > 0 ? a.length / static_cast<double>(a.in) : 1;
    common = i == 0                   ? a.scale
             : policy == "not_larger" ? std::min(common, a.scale)
                                      : std::max(common, a.scale);
  }
  for (size_t i = 0; i < which.size() && policy != "stretch"; ++i) {
    Axis& a = axes[static_cast<size_t>(which[i])];
    a.scale = common;
    a.length = std::floor(static_cast<double>(a.in) * common + 0.5);
    a.out = static_cast<int64_t>(a.length);
  }
  return {};
}

std::vector<Axis> plain_axes(const Shape& in, std::vector<int>& which) {
  std::vector<Axis> axes;
  for (int d = 0; d < in.rank(); ++d) {
    axes.push_back({in[d], in[d], 1, 0, 1, static_cast<double>(in[d])});
    which.push_back(d);
  }
  return axes;
}

// Upsample 7 and 9, Resize 10: corners meet, nearest is the one below.
Prepared upsample(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 2));
  const auto mode = mode_of(c);
  if (!mode) return mode.error();
  std::vector<int> which;
  std::vector<Axis> axes = plain_axes(c.shape(0), which);
  std::vector<double> scales;
  if (c.has(1)) {
    auto given = known_reals(c, 1, "scales");
    if (!given) return given.error();
    scales = std::move(given.value());
  } else {
    for (const float s : c.reals("scales")) scales.push_back(static_cast<double>(s));
  }
  OUTRIDER_TRY(scale_axes(c, axes, which, scales));
  Rules rules;
  rules.mode = mode.value();
  rules.coordinates = "asymmetric";
  rules.rounding = "floor";
  return make_resize(c, rules, axes);
}

Result<Rules> read_rules(NodeContext& c) {
  Rules r;
  const auto mode = mode_of(c);
  if (!mode) return mode.error();
  r.mode = mode.value();
  r.coordinates = c.text("coordinate_transformation_mode", "half_pixel");
  r.rounding = c.text("nearest_mode", "round_prefer_floor");
  r.cubic_a = static_cast<double>(c.real("cubic_coeff_a", -0.75f));
  r.outside = static_cast<double>(c.real("extrapolation_value", 0));
  r.exclude_outside = c.integer("exclude_outside", 0) != 0;
  const char* const known[] = {"half_pixel",        "half_pixel_symmetric", "pytorch_half_pixel",
                               "align_corners",     "asymmetric",           "tf_half_pixel_for_nn",
                               "tf_crop_and_resize"};
  if (std::ranges::find(known, r.coordinates) == std::end(known))
    return c.wrong("coordinates \"%.40s\"", r.coordinates.c_str());
  const char* const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  if (std::ranges::find(roundings, r.rounding) == std::end(roundings))
    return c.wrong("nearest_mode \"%.40s\"", r.rounding.c_str());
  r.antialias = c.integer("antialias", 0) != 0;
  return r;
}

Prepared resize(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 4));
  const auto rules = read_rules(c);
  if (!rules) return rules.error();
  const Shape in = c.shape(0);
  std::vector<int> which;
  std::vector<Axis> axes = plain_axes(in, which);
  if (const auto given = c.integers("axes"); !given.empty()) {
    which.clear();
    for (const int64_t axis : given) {
      const auto a = c.axis(axis, in.rank());
      if (!a) return a.error();
      which.push_back(a.value());
    }
  }
  const bool by_scales = c.has(2) && c.shape(2).n_values() > 0;
  if (by_scales) {
    const auto scales = known_reals(c, 2, "scales");
    if (!scales) return scales.error();
    OUTRIDER_TRY(scale_axes(c, axes, which, scales.value()));
  } else {
    const auto sizes = c.known_ints(3, "sizes");
    if (!sizes) return sizes.error();
    if (sizes.value().size() != which.size())
      return c.wrong("%zu sizes for %zu dimensions", sizes.value().size(), which.size());
    OUTRIDER_TRY(size_axes(c, axes, which, sizes.value()));
  }
  if (rules.value().coordinates == "tf_crop_and_resize") {
    const auto roi = known_reals(c, 1, "roi");
    if (!roi) return roi.error();
    if (roi.value().size() != 2 * which.size())
      return c.wrong("roi has %zu values", roi.value().size());
    for (size_t i = 0; i < which.size(); ++i) {
      axes[static_cast<size_t>(which[i])].roi_first = roi.value()[i];
      axes[static_cast<size_t>(which[i])].roi_last = roi.value()[i + which.size()];
    }
  }
  return make_resize(c, rules.value(), axes);
}

constexpr Operator kOperators[] = {
    {"Resize", 10, 10, upsample, true},
    {"Resize", 11, kMaxOpset, resize, true},
    {"Upsample", 7, 9, upsample, true},
};

}  // namespace

std::span<const Operator> resize_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
