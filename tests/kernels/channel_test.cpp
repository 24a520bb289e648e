// Convolutions over channel blocks on every table against the chain as it is written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference.h"

namespace outrider::test {
namespace {

class ChannelsOnEveryTable : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Tables, ChannelsOnEveryTable, testing::ValuesIn(table_names()),
                         [](const auto& table) { return table.param; });

struct Case {
  int64_t places_a,
      places_b;  // of a run with all taps, of one that misses the first row and column
  int64_t kernel, n_outer, n_run, n_last, n_blocks;
  bool own, add;
  Activation activation;
};

// The tensors of a case, exactly as long as what is read: a read behind them is found by a
// sanitizer.
struct Arrays {
  std::vector<float> x, w, bias, add;
  std::vector<int64_t> from, to, tap;
  std::vector<ChannelConv::Run> runs;
  ChannelConv job;

  explicit Arrays(const Case& k) {
    const int64_t n = k.places_a + k.places_b, step = kChannelBlock;
    const int64_t row = 5 * step;
    job.kernel_y = job.kernel_x = k.kernel;
    job.n_outer = k.n_outer;
    job.n_run = k.n_run;
    job.n_last = k.n_last;
    job.x_run = 1;
    job.x_x = step;
    job.x_y = row;
    job.x_outer = job.x_block = (n + k.kernel) * step + k.kernel * row;
    job.own = k.own;
    job.n_blocks = k.n_blocks;
    job.y_block = n * step;
    job.activation = k.activation;
    for (int64_t p = 0; p < n; ++p) {
      from.push_back((p * 7 % n) * step);
      to.push_back((n - 1 - p) * step);
    }
    runs.push_back({0, k.places_a, 0, k.kernel, 0, k.kernel});
    if (k.places_b > 0) runs.push_back({k.places_a, k.places_b, 1, k.kernel - 1, 1, k.kernel - 1});
    const int64_t n_x = k.own ? k.n_blocks : k.n_outer;
    const int64_t reach = (n - 1) * step + (k.kernel - 1) * (row + step) +
                          (k.own ? step : std::max(k.n_last, k.n_outer > 1 ? k.n_run : 0));
    x = random_values(static_cast<size_t>((n_x - 1) * job.x_outer + reach), 5);
    const int64_t taps = k.kernel * k.kernel * k.n_outer * k.n_run;
    w = random_values(static_cast<size_t>(taps * k.n_blocks * step), 6);
    bias = random_values(static_cast<size_t>(k.n_blocks * step), 7);
    add = random_values(static_cast<size_t>(k.n_blocks * job.y_block), 8);
    if (k.n_outer == 1 && !k.own) {
      for (int64_t i = 0; i < k.kernel * k.kernel * k.n_run; ++i)
        tap.push_back(i / k.n_run / k.kernel * row + i / k.n_run % k.kernel * step + i % k.n_run);
      job.tap = tap.data();
    }
    job.x = x.data();
    job.w = w.data();
    job.bias = bias.data();
    job.add = k.add ? add.data() : nullptr;
    job.from = from.data();
    job.to = to.data();
    job.runs = runs;
  }
};

float product_at(const ChannelConv& c, const ChannelConv::Run& run, int64_t p, int64_t o) {
  const int64_t block = o / kChannelBlock, lane = o % kChannelBlock;
  const int64_t group = block / 4, in_group = std::min<int64_t>(4, c.n_blocks - group * 4);
  const int64_t values = c.kernel_y * c.kernel_x * c.n_outer * c.n_run * kChannelBlock;
  float sum = 0;
  for (int64_t outer = 0; outer < c.n_outer; ++outer)
    for (int64_t y = run.y0; y < run.y0 + run.n_y; ++y)
      for (int64_t x = run.x0; x < run.x0 + run.n_x; ++x) {
        const int64_t at = c.from[p] + (y - run.y0) * c.x_y + (x - run.x0) * c.x_x;
        const int64_t tap = (outer * c.kernel_y + y) * c.kernel_x + x;
        if (c.own) {
          sum = std::fmaf(c.x[block * c.x_block + at + lane],
                          c.w[(block * c.kernel_y * c.kernel_x + tap) * kChannelBlock + lane], sum);
          continue;
        }
        for (int64_t r = 0; r < (outer + 1 < c.n_outer ? c.n_run : c.n_last); ++r)
          sum = std::fmaf(c.x[outer * c.x_outer + at + r * c.x_run],
                          c.w[group * 4 * values +
                              ((tap * c.n_run + r) * in_group + block % 4) * kChannelBlock + lane],
                          sum);
      }
  return sum;
}

std::vector<float> wanted(const ChannelConv& c) {
  std::vector<float> y(static_cast<size_t>(c.n_blocks * c.y_block), NAN);
  for (const auto& run : c.runs)
    for (int64_t p = run.first; p < run.first + run.n_places; ++p)
      for (int64_t o = 0; o < c.n_blocks * kChannelBlock; ++o) {
        const int64_t at = o / kChannelBlock * c.y_block + c.to[p] + o % kChannelBlock;
        float value = product_at(c, run, p, o) + c.bias[o];
        if (c.add != nullptr) value += c.add[at];
        if (c.activation == Activation::kRelu) value = std::max(value, 0.0f);
        y[static_cast<size_t>(at)] = value;
      }
  return y;
}

TEST_P(ChannelsOnEveryTable, are_one_chain_for_every_number_of_blocks_and_places) {
  const auto none = Activation::kNone, relu = Activation::kRelu;
  const Case cases[] = {
      {1, 0, 1, 1, 3, 3, 1, false, false, none},     {5, 2, 3, 1, 3, 3, 2, false, false, relu},
      {7, 3, 2, 2, 16, 16, 3, false, true, none},    {6, 0, 1, 3, 16, 4, 4, false, true, relu},
      {25, 9, 3, 9, 16, 16, 5, false, true, relu},   {40, 1, 1, 2, 16, 1, 7, false, false, none},
      {13, 0, 5, 2, 16, 15, 9, false, false, none},  {1, 1, 3, 1, 1, 1, 1, true, false, none},
      {19, 8, 3, 1, 1, 1, 3, true, true, relu},      {300, 30, 5, 1, 1, 1, 2, true, false, none},
      {190, 30, 3, 4, 16, 12, 6, false, false, none}};
  for (const Case& k : cases) {
    const Arrays a(k);
    const auto truth = wanted(a.job);
    for (const int n_threads : {1, 2, 3}) {
      const auto ops = make_ops(GetParam(), n_threads);
      std::vector<float> y(truth.size(), NAN);
      ChannelConv job = a.job;
      job.y = y.data();
      ops->convolve(job);
      ASSERT_EQ(std::memcmp(y.data(), truth.data(), y.size() * sizeof(float)), 0)
          << k.places_a << " and " << k.places_b << " places, kernel " << k.kernel << ", "
          << k.n_outer << " blocks in, " << k.n_blocks << " out, " << n_threads << " threads";
    }
  }
}

// Activations that are no maximum go through the table's own row.
TEST_P(ChannelsOnEveryTable, activations_are_those_of_activate) {
  // Places of the outputs go backwards, so that none lie behind each other; then all of them do.
  for (const bool in_order : {false, true}) {
    Arrays a({9, 4, 3, 2, 16, 16, 2, false, false, Activation::kTanh});
    if (in_order) std::ranges::reverse(a.to);
    const auto ops = make_ops(GetParam(), 1);
    std::vector<float> y(a.add.size()), plain(a.add.size());
    ChannelConv job = a.job;
    job.y = y.data();
    ops->convolve(job);
    job.activation = Activation::kNone;
    job.y = plain.data();
    ops->convolve(job);
    ops->activate({plain.data(), static_cast<int64_t>(plain.size()) / kChannelBlock, kChannelBlock},
                  Activation::kTanh);
    EXPECT_EQ(std::memcmp(y.data(), plain.data(), y.size() * sizeof(float)), 0);
  }
}

}  // namespace
}  // namespace outrider::test
