// Convolutions with constant weights as windows that slide over a padded copy of the input, eight
// output channels at a time (Ops::correlate).
//
// The copy makes every tap read neighbours for neighbouring places: padding is in it, and with a
// stride s the columns x, x + s, x + 2 s, ... lie beside each other. It has one of two orders. By
// rows, [z, y, channel, x]: what an output row reads is one stretch of memory for each row of the
// kernel. By planes, [channel, y, x]: a whole plane is one long row, whose places between two rows
// are computed and dropped; for rows so short that they would leave most lanes empty.
#include <algorithm>
#include <cstring>
#include <vector>

#include "onnx/ops/broadcast.h"
#include "onnx/ops/conv.h"

namespace outrider::onnx {
namespace {

constexpr int64_t kLanes = 16;  // of the widest vectors; a constant, so that all machines agree

int64_t padded_size(const Window& w, size_t d) {
  return (w.out[d] - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1;
}

// Column c of a phase is x = c * stride + first of the input, for c in [low, high).
struct Phase {
  int64_t first = 0, low = 0, high = 0;
};
std::vector<Phase> phases_of(const Window& w, int64_t n) {
  std::vector<Phase> phases;
  const int64_t s = w.stride[2];
  for (int64_t phase = 0; phase < s; ++phase) {
    const int64_t first = phase - w.before[2];
    const int64_t low = first >= 0 ? 0 : std::min((-first + s - 1) / s, n);
    const int64_t high = first >= w.in[2] ? low : std::clamp((w.in[2] - first + s - 1) / s, low, n);
    phases.push_back({first, low, high});
  }
  return phases;
}

// Rows are short: a call of memcpy costs more than such a row. Four values at a time, the last four
// over what is there already.
inline void copy_row(const float* from, int64_t n, float* to) {
  if (n < 4) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i + 4 <= n; i += 4) std::memcpy(to + i, from + i, 4 * sizeof(float));
  std::memcpy(to + n - 4, from + n - 4, 4 * sizeof(float));
}

// Both phases of a stride of 2 at once: the compiler makes vectors of whole pairs.
void fill_pairs(std::span<const Phase> phases, const float* row, int64_t n, float* even,
                float* odd) {
  const Phase &a = phases[0], &b = phases[1];
  const int64_t low = std::max(a.low, b.low), high = std::min(a.high, b.high);
  for (int64_t c = 0; c < low; ++c) {
    even[c] = c < a.low || c >= a.high ? 0 : row[a.first + c * 2];
    odd[c] = c < b.low || c >= b.high ? 0 : row[b.first + c * 2];
  }
  const float* pair = row + a.first;
  for (int64_t c = low; c < high; ++c) {
    even[c] = pair[c * 2];
    odd[c] = pair[c * 2 + 1];
  }
  for (int64_t c = std::max(low, high); c < n; ++c) {
    even[c] = c < a.low || c >= a.high ? 0 : row[a.first + c * 2];
    odd[c] = c < b.low || c >= b.high ? 0 : row[b.first + c * 2];
  }
}

// One row of the input by phases, phase_step from one to the next, n columns each.
void fill_row(std::span<const Phase> phases, const float* row, int64_t n, int64_t phase_step,
              float* to) {
  const auto s = static_cast<int64_t>(phases.size());
  if (s == 2) return fill_pairs(phases, row, n, to, to + phase_step);
  for (const Phase& p : phases) {
    for (int64_t c = 0; c < p.low; ++c) to[c] = 0;
    if (s == 1) {
      copy_row(row + p.first + p.low, p.high - p.low, to + p.low);
    } else {
      for (int64_t c = p.low; c < p.high; ++c) to[c] = row[p.first + c * s];
    }
    for (int64_t c = p.high; c < n; ++c) to[c] = 0;
    to += phase_step;
  }
}
void fill_nothing(const Window& w, int64_t n, int64_t phase_step, float* to) {
  for (int64_t phase = 0; phase < w.stride[2]; ++phase)
    std::fill_n(to + phase * phase_step, n, 0.0f);
}

// How the copy lies and what Ops::correlate is told of it.
struct Layout {
  enum Order : uint8_t { kAsItIs, kRows, kPlanes } order = kRows;
  int64_t n_channels = 0, channel_step = 0;   // from one channel's values to the next's
  int64_t n_lines = 0, n_values = 0;          // units of copying; the whole copy
  int64_t size_y = 0, columns = 0, rows = 0;  // padded rows; columns of a phase; rows of a phase
  int64_t phase_step = 0, line_values = 0;
  int64_t n_rows = 0, n = 0;  // of the job
  std::vector<Phase> phases;

  Layout(const Window& w, int64_t channels, Order o) : order(o), n_channels(channels) {
    size_y = padded_size(w, 1);
    columns = (padded_size(w, 2) + w.stride[2] - 1) / w.stride[2];
    phases = phases_of(w, columns);
    if (order == kAsItIs) {
      channel_step = w.n_in();
      n_rows = 1;
      n = w.n_out();
    } else if (order == kRows) {
      phase_step = columns;
      channel_step = columns * w.stride[2];
      line_values = channel_step * n_channels;
      n_lines = padded_size(w, 0) * size_y;
      n_values = n_lines * line_values;
      n_rows = w.out[0] * w.out[1];
      n = w.out[2];
    } else {
      rows = (size_y + w.stride[1] - 1) / w.stride[1];
      phase_step = rows * columns;
      channel_step = line_values = phase_step * w.stride[1] * w.stride[2];
      n_lines = n_channels;
      n_values = n_lines * line_values;
      n_rows = 1;
      n = (w.out[1] - 1) * columns + w.out[2];
    }
  }

  // Where tap `index` of a channel begins, behind the row of the job itself.
  int64_t tap(const Window& w, int64_t channel, int64_t index) const {
    if (order == kAsItIs) return channel * channel_step;
    const int64_t l = index % w.kernel[2] * w.dilation[2],
                  j = index / w.kernel[2] % w.kernel[1] * w.dilation[1],
                  i = index / (w.kernel[2] * w.kernel[1]) * w.dilation[0];
    const int64_t at = channel * channel_step + l / w.stride[2];
    if (order == kRows) return at + (i * size_y + j) * line_values + l % w.stride[2] * phase_step;
    return at + (j % w.stride[1] * w.stride[2] + l % w.stride[2]) * phase_step +
           j / w.stride[1] * columns;
  }
  int64_t row(const Window& w, int64_t r) const {
    if (order != kRows) return 0;
    return (r / w.out[1] * w.stride[0] * size_y + r % w.out[1] * w.stride[1]) * line_values;
  }

  // Lines [first, last) of the copy of one batch entry.
  void fill(const Window& w, const float* x, int64_t first, int64_t last, float* to) const {
    for (int64_t line = first; line < last; ++line)
      order == kRows ? fill_rows(w, line, x, to + line * line_values)
                     : fill_plane(w, x + line * w.n_in(), to + line * line_values);
  }

 private:
  void fill_rows(const Window& w, int64_t line, const float* x, float* to) const {
    const int64_t zi = line / size_y - w.before[0], yi = line % size_y - w.before[1];
    if (zi < 0 || zi >= w.in[0] || yi < 0 || yi >= w.in[1]) {
      std::fill_n(to, line_values, 0.0f);
      return;
    }
    const float* row = x + (zi * w.in[1] + yi) * w.in[2];
    for (int64_t ch = 0; ch < n_channels; ++ch, row += w.n_in(), to += channel_step)
      fill_row(phases, row, columns, phase_step, to);
  }
  void fill_plane(const Window& w, const float* x, float* to) const {
    for (int64_t y = 0; y < size_y; ++y) {
      const int64_t yi = y - w.before[1];
      float* at = to + y % w.stride[1] * w.stride[2] * phase_step + y / w.stride[1] * columns;
      if (yi < 0 || yi >= w.in[1])
        fill_nothing(w, columns, phase_step, at);
      else
        fill_row(phases, x + yi * w.in[2], columns, phase_step, at);
    }
  }
};

// The share of lanes that hold a place.
double lanes_used(int64_t n_places, int64_t n_rows, int64_t n) {
  const int64_t vectors = (n + kLanes - 1) / kLanes;
  return static_cast<double>(n_places) / static_cast<double>(n_rows * vectors * kLanes);
}

Layout::Order order_of(const ConvSizes& s) {
  if (is_plain(s.w)) return Layout::kAsItIs;
  constexpr int64_t kMostPlaneValues = 1 << 18;  // beyond it the taps of one place miss the caches
  constexpr double kWorthDropping = 1.15;
  const Layout rows(s.w, s.in_channels, Layout::kRows), planes(s.w, s.in_channels, Layout::kPlanes);
  const bool flat = s.w.in[0] == 1 && s.w.kernel[0] == 1 && s.w.out[0] == 1;
  const double by_rows = lanes_used(s.w.n_out(), rows.n_rows, rows.n),
               by_planes = lanes_used(s.w.n_out(), 1, planes.n);
  return flat && planes.n_values <= kMostPlaneValues && by_planes > kWorthDropping * by_rows
             ? Layout::kPlanes
             : Layout::kRows;
}

// Weights of one group as Correlation wants them.
void lay_weights(const float* from, int64_t n_out, int64_t n_taps, int64_t lanes, float* to) {
  for (int64_t first = 0; first < n_out; first += lanes)
    for (int64_t t = 0; t < n_taps; ++t)
      for (int64_t l = 0; l < lanes; ++l)
        *to++ = first + l < n_out ? from[(first + l) * n_taps + t] : 0;
}

// Places of rows from a row of the whole plane.
void drop_between_rows(const Window& w, const Layout& layout, int64_t n_out, const float* from,
                       float* to) {
  for (int64_t o = 0; o < n_out; ++o, from += layout.n)
    for (int64_t y = 0; y < w.out[1]; ++y, to += w.out[2])
      copy_row(from + y * layout.columns, w.out[2], to);
}

}  // namespace

// Padded inputs beyond all bounds are left to the other ways, and so are rows that leave most lanes
// empty where a plane cannot be one row.
bool window_fits(const ConvSizes& s) {
  constexpr int64_t kMostValues = int64_t{1} << 28;
  constexpr int64_t kMostStride = 64;  // a row is copied in so many phases
  constexpr double kLeastUsed = 0.3;
  if (is_plain(s.w)) return true;
  if (s.w.stride[2] > kMostStride) return false;
  int64_t n = s.in_channels;
  for (size_t d = 0; d < kMaxSpatial; ++d)
    if (__builtin_mul_overflow(
            n, s.w.out[d] * s.w.stride[d] + s.w.kernel[d] * s.w.dilation[d] + s.w.stride[d], &n) ||
        n > kMostValues)
      return false;
  const Layout layout(s.w, s.in_channels, order_of(s));
  return lanes_used(s.w.n_out(), layout.n_rows, layout.n) >= kLeastUsed;
}

Prepared window_conv(NodeContext& c, const ConvSizes& s, bool with_bias) {
  const bool each_its_own = s.is_depthwise();
  const int64_t lanes = each_its_own ? 1 : 8, n_taps = s.n_k();
  const int64_t n_groups = each_its_own ? 1 : s.group,
                n_out = each_its_own ? s.out_channels : s.out_each;
  const Layout layout(s.w, s.in_channels, order_of(s));
  const int64_t n_blocks = (n_out + lanes - 1) / lanes, group_values = n_blocks * n_taps * lanes;
  auto* weights = reinterpret_cast<float*>(
      c.keep(static_cast<size_t>(n_groups * group_values) * sizeof(float)).data());
  for (int64_t g = 0; g < n_groups; ++g)
    lay_weights(c.constant<float>(1) + g * n_out * n_taps, n_out, n_taps, lanes,
                weights + g * group_values);
  auto* tap =
      reinterpret_cast<int64_t*>(c.keep(static_cast<size_t>(n_taps) * sizeof(int64_t)).data());
  auto* row = reinterpret_cast<int64_t*>(
      c.keep(static_cast<size_t>(layout.n_rows) * sizeof(int64_t)).data());
  const int64_t n_kernel = s.w.n_kernel();
  for (int64_t t = 0; t < n_taps; ++t) tap[t] = layout.tap(s.w, t / n_kernel, t % n_kernel);
  for (int64_t r = 0; r < layout.n_rows; ++r) row[r] = layout.row(s.w, r);
  const bool by_planes = layout.order == Layout::kPlanes;
  c.scratch(static_cast<size_t>(layout.n_values + (by_planes ? n_out * layout.n : 0)) *
            sizeof(float));

  return make_kernel([=, activation = c.node().activation](const Operands& o) {
    auto *copy = reinterpret_cast<float*>(o.scratch), *long_rows = copy + layout.n_values;
    Correlation job;
    job.x_step = each_its_own ? layout.channel_step : 0;
    job.row = row;
    job.tap = tap;
    job.n_rows = layout.n_rows;
    job.n_taps = n_taps;
    job.n = layout.n;
    job.n_out = n_out;
    job.lanes = static_cast<int32_t>(lanes);
    job.activation = activation;
    for (int64_t b = 0; b < s.n_batch; ++b) {
      const float* x = o.input<float>(0) + b * s.in_channels * s.w.n_in();
      if (layout.n_lines > 0)
        share_range(o.ops, layout.n_lines, layout.line_values,
                    [&](int64_t first, int64_t last) { layout.fill(s.w, x, first, last, copy); });
      for (int64_t g = 0; g < n_groups; ++g) {
        float* y = o.output<float>(0) + (b * s.out_channels + g * n_out) * s.w.n_out();
        job.x = (layout.n_lines > 0 ? copy : x) + g * s.in_each * layout.channel_step;
        job.w = weights + g * group_values;
        job.bias = with_bias ? o.input<float>(2) + g * n_out : nullptr;
        job.y = by_planes ? long_rows : y;
        o.ops->correlate(job);
        if (by_planes) drop_between_rows(s.w, layout, n_out, long_rows, y);
      }
    }
  });
}

}  // namespace outrider::onnx
