// Convolutions with constant weights whose outputs, and mostly inputs, lie in channel blocks
// (Ops::convolve): no copy with padding, no lane without a place. Places whose windows reach beyond
// the input at the same taps form a run.
#include <algorithm>
#include <vector>

#include "onnx/channels.h"
#include "onnx/ops/broadcast.h"
#include "onnx/ops/conv.h"

namespace outrider::onnx {
namespace {

// Output indices [first, last) of one dimension whose windows have the taps [tap, tap + n_taps).
struct Stretch {
  int64_t first, last, tap, n_taps;
};
std::vector<Stretch> stretches(const Window& w, size_t d) {
  std::vector<Stretch> all;
  for (int64_t i = 0; i < w.out[d]; ++i) {
    const int64_t begin = i * w.stride[d] - w.before[d], step = w.dilation[d];
    const int64_t tap = begin >= 0 ? 0 : std::min((-begin + step - 1) / step, w.kernel[d]);
    const int64_t end =
        begin >= w.in[d] ? tap : std::clamp((w.in[d] - begin + step - 1) / step, tap, w.kernel[d]);
    if (!all.empty() && all.back().tap == tap && all.back().n_taps == end - tap)
      all.back().last = i + 1;
    else
      all.push_back({i, i + 1, tap, end - tap});
  }
  return all;
}

struct Places {
  std::vector<ChannelConv::Run> runs;
  std::vector<int64_t> from, to;
};
// x_step: values from one column of the input to the next.
Places places_of(const Window& w, int64_t x_step) {
  Places p;
  for (const Stretch& rows : stretches(w, 1))
    for (const Stretch& columns : stretches(w, 2)) {
      p.runs.push_back({static_cast<int64_t>(p.from.size()),
                        (rows.last - rows.first) * (columns.last - columns.first), rows.tap,
                        rows.n_taps, columns.tap, columns.n_taps});
      for (int64_t y = rows.first; y < rows.last; ++y)
        for (int64_t x = columns.first; x < columns.last; ++x) {
          const int64_t yi = y * w.stride[1] - w.before[1] + rows.tap * w.dilation[1],
                        xi = x * w.stride[2] - w.before[2] + columns.tap * w.dilation[2];
          const bool any = rows.n_taps > 0 && columns.n_taps > 0;
          p.from.push_back(any ? (yi * w.in[2] + xi) * x_step : 0);
          p.to.push_back((y * w.out[2] + x) * kChannelBlock);
        }
    }
  return p;
}

// Weights of one group of the convolution as ChannelConv wants them.
void lay_weights(const ConvSizes& s, int64_t n_outer, int64_t n_run, const float* from, float* to) {
  constexpr int64_t kGroup = 4 * kChannelBlock;
  const int64_t n_kernel = s.w.n_kernel();
  for (int64_t first = 0; first < s.out_each; first += kGroup) {
    const int64_t lanes = std::min(kGroup, channel_blocks(s.out_each - first) * kChannelBlock);
    for (int64_t outer = 0; outer < n_outer; ++outer)
      for (int64_t tap = 0; tap < n_kernel; ++tap)
        for (int64_t run = 0; run < n_run; ++run, to += lanes) {
          const int64_t in = outer * n_run + run;
          if (in >= s.in_each) continue;
          for (int64_t l = 0; l < std::min(lanes, s.out_each - first); ++l)
            to[l] = from[((first + l) * s.in_each + in) * n_kernel + tap];
        }
  }
}
void lay_own_weights(const ConvSizes& s, const float* from, float* to) {
  const int64_t n_kernel = s.w.n_kernel();
  for (int64_t ch = 0; ch < s.out_channels; ++ch)
    for (int64_t tap = 0; tap < n_kernel; ++tap)
      to[(ch / kChannelBlock * n_kernel + tap) * kChannelBlock + ch % kChannelBlock] =
          from[ch * n_kernel + tap];
}

template <class T>
T* kept(NodeContext& c, int64_t n) {
  return reinterpret_cast<T*>(c.keep(static_cast<size_t>(n) * sizeof(T)).data());
}

class ChannelKernel final : public Kernel {
 public:
  // From one sample, or one group of it, to the next: in values.
  struct Steps {
    int64_t n_batch = 1, n_groups = 1, in_values = 0, out_values = 0;
    int64_t group_in = 0, group_out = 0, group_weights = 0;
  };
  ChannelKernel(const ChannelConv& job, const Steps& steps, std::vector<ChannelConv::Run> runs)
      : job_(job), steps_(steps), runs_(std::move(runs)) {}

  void run(const Operands& o) const noexcept override {
    ChannelConv job = job_;
    job.runs = runs_;
    for (int64_t b = 0; b < steps_.n_batch; ++b)
      for (int64_t g = 0; g < steps_.n_groups; ++g) {
        const int64_t to = b * steps_.out_values + g * steps_.group_out;
        job.x = o.input<float>(0) + b * steps_.in_values + g * steps_.group_in;
        job.w = job_.w + g * steps_.group_weights;
        job.bias = job_.bias + g * job_.n_blocks * kChannelBlock;
        job.y = o.output<float>(0) + to;
        job.add = adds_ ? o.input<float>(kAdded) + to : nullptr;
        o.ops->convolve(job);
      }
  }
  bool absorb(Activation activation) override {
    if (job_.activation != Activation::kNone) return false;
    job_.activation = activation;
    return true;
  }
  bool absorb_add() override {
    if (adds_ || job_.activation != Activation::kNone) return false;
    return adds_ = true;
  }

 private:
  ChannelConv job_;
  Steps steps_;
  std::vector<ChannelConv::Run> runs_;
  bool adds_ = false;
};

}  // namespace

bool channels_fit(const NodeContext& c, const ConvSizes& s) {
  constexpr int64_t kLeastChannels = 8, kFewPlaces = 12;
  // Of tables made before the result's size is looked at, and so that no offset can overflow.
  constexpr int64_t kMostPlaces = int64_t{1} << 20, kMostDilation = int64_t{1} << 20;
  if (!c.is_constant(1) || c.is_constant(0) || (c.has(2) && !c.is_constant(2))) return false;
  if (s.w.n_spatial > 2 || s.out_channels < kLeastChannels || s.w.n_out() <= kFewPlaces ||
      s.w.n_out() > kMostPlaces || s.n_batch < 1 || s.w.dilation[1] > kMostDilation ||
      s.w.dilation[2] > kMostDilation)
    return false;
  const bool whole = s.in_each % kChannelBlock == 0 && s.out_each % kChannelBlock == 0;
  return s.group == 1 || s.is_depthwise() || whole;
}

bool wants_blocks(const ConvSizes& s) {
  return s.group != 1 || s.in_channels >= kChannelBlock;
}

Prepared channel_conv(NodeContext& c, const ConvSizes& s) {
  const bool own = s.is_depthwise(), blocked = c.is_blocked(0);
  const int64_t n_groups = own ? 1 : s.group, x_step = blocked ? kChannelBlock : 1;
  ChannelConv job;
  job.own = own;
  job.kernel_y = s.w.kernel[1];
  job.kernel_x = s.w.kernel[2];
  if (!own) {
    job.n_run = blocked ? std::min(s.in_each, kChannelBlock) : s.in_each;
    job.n_outer = blocked ? channel_blocks(s.in_each) : 1;
    job.n_last = s.in_each - (job.n_outer - 1) * job.n_run;
  }
  job.x_block = job.x_outer = s.w.n_in() * kChannelBlock;
  job.x_y = s.w.dilation[1] * s.w.in[2] * x_step;
  job.x_x = s.w.dilation[2] * x_step;
  job.x_run = blocked ? 1 : s.w.n_in();
  job.n_blocks = channel_blocks(own ? s.out_channels : s.out_each);
  job.y_block = s.w.n_out() * kChannelBlock;
  job.activation = c.node().activation;

  const int64_t group_values =
      job.n_blocks * kChannelBlock * s.w.n_kernel() * job.n_outer * job.n_run;
  auto* weights = kept<float>(c, n_groups * group_values);
  if (own)
    lay_own_weights(s, c.constant<float>(1), weights);
  else
    for (int64_t g = 0; g < n_groups; ++g)
      lay_weights(s, job.n_outer, job.n_run, c.constant<float>(1) + g * s.out_each * s.n_k(),
                  weights + g * group_values);
  auto* bias = kept<float>(c, n_groups * job.n_blocks * kChannelBlock);
  if (c.has(2)) std::copy_n(c.constant<float>(2), s.out_channels, bias);
  const Places places = places_of(s.w, x_step);
  auto *from = kept<int64_t>(c, s.w.n_out()), *to = kept<int64_t>(c, s.w.n_out());
  std::ranges::copy(places.from, from);
  std::ranges::copy(places.to, to);
  if (!own && !blocked) {
    auto* tap = kept<int64_t>(c, s.w.n_kernel() * s.in_each);
    job.tap = tap;
    for (int64_t y = 0; y < job.kernel_y; ++y)
      for (int64_t x = 0; x < job.kernel_x; ++x)
        for (int64_t r = 0; r < s.in_each; ++r) *tap++ = y * job.x_y + x * job.x_x + r * job.x_run;
  }
  job.from = from;
  job.to = to;

  const int64_t in_values =
      blocked ? channel_blocks(s.in_channels) * job.x_outer : s.in_channels * s.w.n_in();
  const int64_t out_values = channel_blocks(s.out_channels) * job.y_block;
  ChannelKernel::Steps steps;
  steps.n_batch = s.n_batch;
  steps.n_groups = n_groups;
  steps.in_values = in_values;
  steps.out_values = out_values;
  steps.group_in = s.in_each * s.w.n_in();
  steps.group_out = job.n_blocks * job.y_block;
  steps.group_weights = group_values;
  job.w = weights;
  job.bias = bias;
  return std::unique_ptr<Kernel>(new ChannelKernel(job, steps, places.runs));
}

}  // namespace outrider::onnx
