// Sliding windows of every table against the sum as it is written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference.h"

namespace outrider::test {
namespace {

class WindowsOnEveryTable : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Tables, WindowsOnEveryTable, testing::ValuesIn(table_names()),
                         [](const auto& table) { return table.param; });

struct Case {
  int64_t n, n_taps, n_out, n_rows;
  int32_t lanes;
  bool bias;
  Activation activation;
};

// One chain of fused products over the taps, the bias last.
std::vector<float> wanted(const Case& k, const Correlation& c) {
  std::vector<float> y(static_cast<size_t>(k.n_out * k.n_rows * k.n));
  for (int64_t o = 0; o < k.n_out; ++o)
    for (int64_t r = 0; r < k.n_rows; ++r)
      for (int64_t i = 0; i < k.n; ++i) {
        const int64_t block = o / k.lanes;
        float sum = 0;
        for (int64_t t = 0; t < k.n_taps; ++t)
          sum = std::fmaf(c.w[(block * k.n_taps + t) * k.lanes + o % k.lanes],
                          c.x[block * c.x_step + c.row[r] + c.tap[t] + i], sum);
        if (c.bias != nullptr) sum += c.bias[o];
        if (k.activation == Activation::kRelu) sum = std::max(sum, 0.0f);
        y[static_cast<size_t>((o * k.n_rows + r) * k.n + i)] = sum;
      }
  return y;
}

TEST_P(WindowsOnEveryTable, are_one_chain_over_the_taps_for_every_width) {
  const Case cases[] = {
      {1, 1, 1, 1, 1, false, Activation::kNone},      {28, 25, 8, 28, 8, true, Activation::kRelu},
      {14, 200, 16, 14, 8, false, Activation::kNone}, {7, 9, 5, 3, 8, true, Activation::kNone},
      {15, 9, 3, 7, 1, true, Activation::kRelu},      {16, 3, 9, 2, 8, true, Activation::kNone},
      {17, 3, 8, 1, 8, false, Activation::kNone},     {31, 5, 1, 4, 1, false, Activation::kNone},
      {32, 4, 17, 2, 8, true, Activation::kNone},     {33, 2, 8, 2, 8, true, Activation::kNone},
      {48, 2, 8, 1, 8, true, Activation::kNone},      {63, 7, 4, 2, 1, true, Activation::kNone},
      {65, 7, 4, 2, 1, true, Activation::kNone},      {300, 4, 24, 40, 8, true, Activation::kRelu}};
  for (const Case& k : cases) {
    const int64_t n_blocks = (k.n_out + k.lanes - 1) / k.lanes, step = k.lanes == 1 ? 977 : 0;
    std::vector<int64_t> row, tap;
    for (int64_t r = 0; r < k.n_rows; ++r) row.push_back(r * 11);
    for (int64_t t = 0; t < k.n_taps; ++t) tap.push_back(t * 37 % 101);
    // Exactly as long as what is read: a read behind it is found by a sanitizer.
    const int64_t last = (n_blocks - 1) * step + row.back() + *std::ranges::max_element(tap) + k.n;
    const auto x = random_values(static_cast<size_t>(last), 5);
    const auto w = random_values(static_cast<size_t>(n_blocks * k.n_taps * k.lanes), 6);
    const auto bias = random_values(static_cast<size_t>(k.n_out), 7);
    for (const int n_threads : {1, 2, 3}) {
      const auto ops = make_ops(GetParam(), n_threads);
      std::vector<float> y(static_cast<size_t>(k.n_out * k.n_rows * k.n), NAN);
      Correlation c;
      c.x = x.data();
      c.x_step = step;
      c.row = row.data();
      c.tap = tap.data();
      c.n_rows = k.n_rows;
      c.n_taps = k.n_taps;
      c.n = k.n;
      c.w = w.data();
      c.n_out = k.n_out;
      c.lanes = k.lanes;
      c.bias = k.bias ? bias.data() : nullptr;
      c.activation = k.activation;
      c.y = y.data();
      ops->correlate(c);
      const auto truth = wanted(k, c);
      ASSERT_EQ(std::memcmp(y.data(), truth.data(), y.size() * sizeof(float)), 0)
          << k.n << " places, " << k.n_taps << " taps, " << k.n_out << " outputs, " << n_threads
          << " threads";
    }
  }
}

}  // namespace
}  // namespace outrider::test
