#include "onnx/ops/window.h"

namespace outrider::onnx {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 31;

Result<std::vector<int64_t>> list(NodeContext& c, const char* name, size_t n, int64_t otherwise,
                                  int64_t least) {
  std::vector<int64_t> values = c.integers(name);
  if (values.empty()) values.assign(n, otherwise);
  if (values.size() != n) return c.wrong("%s has %zu entries, wanted %zu", name, values.size(), n);
  for (const int64_t v : values)
    if (v < least || v > kMostSize)
      return c.wrong("%s holds %lld", name, static_cast<long long>(v));
  return values;
}

// Output size and, for SAME, the padding of one dimension. False: the window does not fit.
bool place(Window& w, size_t d, const std::string& auto_pad, const WindowRules& rules) {
  const int64_t reach = (w.kernel[d] - 1) * w.dilation[d] + 1;
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    w.out[d] = (w.in[d] + w.stride[d] - 1) / w.stride[d];
    const int64_t total = std::max<int64_t>(0, (w.out[d] - 1) * w.stride[d] + reach - w.in[d]);
    w.before[d] = auto_pad == "SAME_UPPER" ? total / 2 : (total + 1) / 2;
    w.after[d] = total - w.before[d];
    return true;
  }
  if (auto_pad == "VALID") w.before[d] = w.after[d] = 0;
  const int64_t room = w.in[d] + w.before[d] + w.after[d] - reach;
  if (room < 0) return false;
  w.out[d] = (rules.ceil_mode ? (room + w.stride[d] - 1) / w.stride[d] : room / w.stride[d]) + 1;
  // With ceil, a last window that begins behind the data and its padding is none.
  if (rules.ceil_mode && (w.out[d] - 1) * w.stride[d] >= w.in[d] + w.before[d]) --w.out[d];
  return true;
}

}  // namespace

Result<Window> read_window(NodeContext& c, const std::vector<int64_t>& given,
                           const WindowRules& rules) {
  const Shape& in = c.shape(0);
  const int spatial = in.rank() - 2;
  if (spatial < 1) return c.wrong("input %s has no spatial dimension", in.text().c_str());
  if (spatial > kMaxSpatial)
    return c.unsupported("%d spatial dimensions, this build has %d", spatial, kMaxSpatial);
  const auto n = static_cast<size_t>(spatial);
  std::vector<int64_t> kernel = c.integers("kernel_shape");
  if (!given.empty()) {
    if (!kernel.empty() && kernel != given) return c.wrong("kernel_shape is not its weight's");
    kernel = given;
  }
  if (kernel.size() != n)
    return c.wrong("kernel_shape has %zu entries, wanted %zu", kernel.size(), n);
  const auto strides = list(c, "strides", n, 1, 1), dilations = list(c, "dilations", n, 1, 1),
             pads = list(c, "pads", 2 * n, 0, 0);
  for (const auto* checked : {&strides, &dilations, &pads})
    if (!*checked) return checked->error();
  const std::string auto_pad = c.text("auto_pad", "NOTSET");
  if (auto_pad != "NOTSET" && auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER" &&
      auto_pad != "VALID")
    return c.wrong("auto_pad \"%.20s\"", auto_pad.c_str());
  Window w;
  w.n_spatial = spatial;
  for (size_t i = 0; i < n; ++i) {
    const size_t d = kMaxSpatial - n + i;
    if (kernel[i] < 1 || kernel[i] > kMostSize || in[static_cast<int>(i) + 2] > kMostSize ||
        in[static_cast<int>(i) + 2] < 1)
      return c.wrong("kernel %lld over %lld", static_cast<long long>(kernel[i]),
                     static_cast<long long>(in[static_cast<int>(i) + 2]));
    w.in[d] = in[static_cast<int>(i) + 2];
    w.kernel[d] = kernel[i];
    w.stride[d] = strides.value()[i];
    w.dilation[d] = dilations.value()[i];
    w.before[d] = pads.value()[i];
    w.after[d] = pads.value()[n + i];
    if (!rules.transposed && !place(w, d, auto_pad, rules))
      return c.wrong("a window of %lld does not fit into %lld with its padding",
                     static_cast<long long>(kernel[i]), static_cast<long long>(w.in[d]));
  }
  return w;
}

Shape window_shape(const Window& w, int64_t batch, int64_t channels) {
  Shape out{batch, channels};
  for (int i = 0; i < w.n_spatial; ++i)
    out.push_back(w.out[static_cast<size_t>(kMaxSpatial - w.n_spatial + i)]);
  return out;
}

}  // namespace outrider::onnx
