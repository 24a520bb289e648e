#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace outrider {
namespace {

TEST(UniformStream, is_splitmix64_of_its_key) {
  const UniformStream stream(1234567);
  // Published outputs of SplitMix64 for this seed.
  const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                               4593380528125082431u, 16408922859458223821u};
  for (size_t i = 5; i-- > 0;) EXPECT_EQ(stream.bits(i), expected[i]) << "in any order: " << i;
}

TEST(UniformStream, differs_by_seed_and_by_name) {
  const UniformStream a(1, "blk.0.attn_q"), b(1, "blk.0.attn_k"), c(2, "blk.0.attn_q");
  EXPECT_NE(a.bits(0), b.bits(0));
  EXPECT_NE(a.bits(0), c.bits(0));
  EXPECT_EQ(a.bits(9), UniformStream(1, "blk.0.attn_q").bits(9));
}

TEST(UniformStream, stays_in_its_interval_and_fills_it_evenly) {
  const UniformStream stream(3, "x");
  constexpr int kValues = 64'000, kBins = 16;
  int bins[kBins] = {};
  for (int i = 0; i < kValues; ++i) {
    const float u = stream.unit(static_cast<uint64_t>(i));
    ASSERT_TRUE(u >= 0.0f && u < 1.0f);
    ASSERT_EQ(stream.symmetric(static_cast<uint64_t>(i)), 2.0f * u - 1.0f);
    ++bins[static_cast<int>(u * kBins)];
  }
  // Binomial with p = 1/16: five standard deviations.
  const double sigma = std::sqrt(kValues * (1.0 / kBins) * (1 - 1.0 / kBins));
  for (const int n : bins) EXPECT_NEAR(n, kValues / kBins, 5 * sigma);
}

std::string shared_folder() {
  const char* folder = std::getenv("OUTRIDER_SHARED");
  return folder != nullptr ? folder : OUTRIDER_SOURCE_DIR "/../shared";
}

TEST(NormalNoise, seed_41_gives_the_recorded_values_bit_for_bit) {
  std::ifstream file(shared_folder() + "/golden/noise41_50x32.bin", std::ios::binary);
  if (!file) GTEST_SKIP() << "no recorded noise in " << shared_folder() << "; set OUTRIDER_SHARED";
  std::vector<float> recorded(50 * 32), drawn(50 * 32);
  file.read(reinterpret_cast<char*>(recorded.data()), 50 * 32 * 4);
  ASSERT_EQ(file.gcount(), 50 * 32 * 4);
  fill_normal_noise(drawn);
  for (size_t i = 0; i < drawn.size(); ++i) {
    ASSERT_EQ(std::memcmp(&drawn[i], &recorded[i], 4), 0) << i << ": " << drawn[i];
  }
}

#ifdef __GLIBCXX__
TEST(NormalNoise, is_what_libstdcxx_draws_for_any_seed_and_length) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{41}, uint64_t{5489}, UINT64_MAX}) {
    for (const size_t n : {0, 1, 2, 3, 1599, 1600, 20'001}) {
      std::mt19937_64 twister(seed);
      std::normal_distribution<float> normal;
      std::vector<float> drawn(n);
      fill_normal_noise(drawn, seed);
      for (size_t i = 0; i < n; ++i) {
        const float expected = normal(twister);
        ASSERT_EQ(std::memcmp(&drawn[i], &expected, 4), 0) << "seed " << seed << " value " << i;
      }
    }
  }
}
#endif

TEST(NormalNoise, is_the_same_on_every_call_and_a_longer_fill_begins_like_a_shorter_one) {
  std::vector<float> first(101), second(101), longer(202);
  fill_normal_noise(first, 7);
  fill_normal_noise(second, 7);
  fill_normal_noise(longer, 7);
  EXPECT_EQ(first, second);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), longer.begin()));
  fill_normal_noise(second, 8);
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace outrider
