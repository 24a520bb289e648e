#include "kernels/channel_conv.h"

#include <algorithm>

#include "base/assert.h"

namespace outrider {
namespace {

static_assert(kChannelBlock == kPanelLanes);

// Weights that one pass over the places goes through: more would leave the second-level cache
// before the next places want them.
constexpr int64_t kPassValues = int64_t{1} << 16;
// Below so many multiply-adds one thread is done before a second has heard of it.
constexpr int64_t kAloneProducts = int64_t{1} << 19;

class Conv {
 public:
  Conv(const ChannelConv& job, const KernelTable& table) : job_(job), table_(table) {
    for (const ChannelConv::Run& run : job.runs) n_places_ += run.n_places;
    blocks_each_ = job.own ? 1 : kMaxChannelBlocks;
    n_groups_ = (job.n_blocks + blocks_each_ - 1) / blocks_each_;
    const int64_t taps = job.kernel_y * job.kernel_x;
    outer_values_ = taps * job.n_run * kChannelBlock;
    n_items_ = n_groups_ * n_places_;
    n_products_ = n_places_ * job.n_blocks * job.n_outer * outer_values_;
  }
  int64_t n_items() const { return n_items_; }
  int64_t n_products() const { return n_products_; }

  // Items are places of one group after the other.
  void items(Range range) const noexcept {
    while (range.first < range.last) {
      const int64_t group = range.first / n_places_, first = range.first % n_places_;
      const int64_t last = std::min(n_places_, first + range.last - range.first);
      group_places(group, {first, last});
      range.first += last - first;
    }
  }

 private:
  void group_places(int64_t group, Range places) const noexcept {
    const int64_t block = group * blocks_each_,
                  n_blocks = std::min(blocks_each_, job_.n_blocks - block);
    ChannelWindows c = {};
    c.n_blocks = static_cast<int32_t>(n_blocks);
    c.x_outer = job_.x_outer;
    c.x_y = job_.x_y;
    c.x_x = job_.x_x;
    c.x_run = job_.x_run;
    c.n_run = job_.n_run;
    c.w_x = job_.n_run * n_blocks * kChannelBlock;
    c.w_y = c.w_x * job_.kernel_x;
    c.w_outer = c.w_y * job_.kernel_y;
    c.bias = job_.bias + block * kChannelBlock;
    c.y = job_.y + block * job_.y_block;
    c.add = job_.add != nullptr ? job_.add + block * job_.y_block : nullptr;
    c.y_block = job_.y_block;
    c.relu = job_.activation == Activation::kRelu ? 1 : 0;
    const float* w = job_.w + block * job_.n_outer * outer_values_;
    const float* x = job_.x + (job_.own ? block * job_.x_block : 0);
    const int64_t pass = std::max<int64_t>(1, kPassValues / c.w_outer);
    for (int64_t outer = 0; outer < job_.n_outer; outer += pass) {
      const bool ends = outer + pass >= job_.n_outer;
      c.begins = outer == 0 ? 1 : 0;
      c.ends = ends ? 1 : 0;
      c.n_outer = ends ? job_.n_outer - outer : pass;
      c.n_last = ends ? job_.n_last : job_.n_run;
      c.x = x + outer * job_.x_outer;
      c.w = w + outer * c.w_outer;
      runs(c, places);
    }
  }

  void runs(ChannelWindows& c, Range places) const noexcept {
    const float* w = c.w;
    for (const ChannelConv::Run& run : job_.runs) {
      const int64_t first = std::max(run.first, places.first),
                    last = std::min(run.first + run.n_places, places.last);
      if (first >= last) continue;
      c.from = job_.from + first;
      c.to = job_.to + first;
      c.n_places = last - first;
      const bool whole = run.n_y == job_.kernel_y && run.n_x == job_.kernel_x;
      c.tap = whole ? job_.tap : nullptr;
      c.n_y = run.n_y;
      c.n_x = run.n_x;
      c.w = w + run.y0 * c.w_y + run.x0 * c.w_x;
      (job_.own ? table_.own_windows : table_.channel_windows)(&c);
    }
    c.w = w;
    if (c.ends == 0 || c.relu != 0 || job_.activation == Activation::kNone) return;
    for (int32_t block = 0; block < c.n_blocks; ++block) activate(c.y + block * c.y_block, places);
  }

  // Places that lie behind each other at once.
  void activate(float* y, Range places) const noexcept {
    for (int64_t p = places.first; p < places.last;) {
      int64_t end = p + 1;
      while (end < places.last && job_.to[end] == job_.to[end - 1] + kChannelBlock) ++end;
      table_.activate_row(y + job_.to[p], (end - p) * kChannelBlock,
                          static_cast<int32_t>(job_.activation));
      p = end;
    }
  }

  const ChannelConv& job_;
  const KernelTable& table_;
  int64_t n_places_ = 0, blocks_each_ = 1, n_groups_ = 0, outer_values_ = 0;
  int64_t n_items_ = 0, n_products_ = 0;
};

}  // namespace

void convolve_channels(const ChannelConv& job, const KernelTable& table,
                       ThreadPool& pool) noexcept {
  OUTRIDER_ASSERT(!job.own || (job.n_outer == 1 && job.n_run == 1));
  OUTRIDER_ASSERT(job.tap == nullptr || (job.n_outer == 1 && job.n_last == job.n_run));
  const Conv conv(job, table);
  if (conv.n_products() <= kAloneProducts || pool.n_threads() == 1)
    return conv.items({0, conv.n_items()});
  pool.run([&](int t) { conv.items(part_of(conv.n_items(), t, pool.n_threads())); });
}

}  // namespace outrider
