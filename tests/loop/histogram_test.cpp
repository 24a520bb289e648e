#include "loop/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace outrider::loop {
namespace {

TEST(Histogram, nothing_counted_is_zero) {
  const auto h = std::make_unique<Histogram>();
  EXPECT_EQ(h->percentile_ns(0.5), 0);
  EXPECT_EQ(h->max_ns(), 0);
}

TEST(Histogram, small_durations_are_exact) {
  const auto h = std::make_unique<Histogram>();
  for (int i = 0; i < 64; ++i) h->add(i);
  EXPECT_EQ(h->percentile_ns(0.5), 31);
  EXPECT_EQ(h->percentile_ns(1), 63);
  EXPECT_EQ(h->percentile_ns(0), 0);
}

TEST(Histogram, a_percentile_is_never_too_low_and_at_most_a_sixtyfourth_too_high) {
  for (const int64_t top : {int64_t{100}, int64_t{20000}, int64_t{3000000}, int64_t{1} << 40}) {
    const auto h = std::make_unique<Histogram>();
    std::vector<int64_t> values;
    uint64_t state = 7;
    for (int i = 0; i < 5000; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      values.push_back(static_cast<int64_t>((state >> 20) % static_cast<uint64_t>(top)));
      h->add(values.back());
    }
    std::ranges::sort(values);
    for (const double share : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      const auto rank = static_cast<size_t>(share * 5000 + 0.999999);
      const int64_t exact = values[std::max<size_t>(rank, 1) - 1], told = h->percentile_ns(share);
      EXPECT_GE(told, exact) << top << " " << share;
      EXPECT_LE(told, exact + exact / 64 + 1) << top << " " << share;
    }
    EXPECT_EQ(h->max_ns(), values.back());
  }
}

TEST(Histogram, borders_of_int64_are_counted) {
  const auto h = std::make_unique<Histogram>();
  h->add(-5);
  h->add(INT64_MAX);
  EXPECT_EQ(h->n(), 2);
  EXPECT_EQ(h->percentile_ns(0.5), 0);
  EXPECT_EQ(h->percentile_ns(1), INT64_MAX);
}

}  // namespace
}  // namespace outrider::loop
