#include "text/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "alloc_counter.h"
#include "fixtures.h"

namespace outrider::text_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Sampler sampler(const SamplerOptions& options, size_t n_vocab) {
  auto made = Sampler::make(options, n_vocab);
  EXPECT_TRUE(made) << made.error().message();
  return std::move(made.value());
}

TEST(SamplerGolden, gives_the_recorded_ids_of_every_chain) {
  if (shared_dir().empty()) GTEST_SKIP() << "no shared test data: set OUTRIDER_SHARED";
  const Json meta = read_json(shared_dir() / "golden/sampler/meta.json");
  const std::string bytes = read_file(shared_dir() / "golden/sampler/logits.bin");
  const auto n_vocab = static_cast<size_t>(meta.find("vocab")->integer());
  std::vector<float> logits(bytes.size() / sizeof(float));
  std::memcpy(logits.data(), bytes.data(), bytes.size());
  ASSERT_EQ(meta.find("cases")->items().size(), 10u);
  for (const Json& sample : meta.find("cases")->items()) {
    Sampler chain = sampler({.temperature = static_cast<float>(sample.find("temp")->number()),
                             .top_k = static_cast<int32_t>(sample.find("top_k")->integer()),
                             .top_p = static_cast<float>(sample.find("top_p")->number()),
                             .seed = static_cast<uint32_t>(sample.find("seed")->integer())},
                            n_vocab);
    std::vector<int32_t> ids;
    for (size_t row = 0; row < logits.size() / n_vocab; ++row)
      ids.push_back(chain.sample(std::span(logits).subspan(row * n_vocab, n_vocab)).id);
    EXPECT_EQ(ids, int_list(*sample.find("ids")))
        << "temp " << sample.find("temp")->number() << " top_k " << sample.find("top_k")->integer()
        << " top_p " << sample.find("top_p")->number();
  }
}

TEST(Sampler, greedy_takes_the_lowest_id_of_equal_logits) {
  Sampler greedy = sampler({}, 4);
  EXPECT_EQ(greedy.sample(std::vector<float>{1, 3, 3, 2}).id, 1);
  EXPECT_EQ(greedy.sample(std::vector<float>{-kInf, -kInf, -1e30f, -kInf}).id, 2);
}

TEST(Sampler, a_mask_is_the_same_as_logits_of_minus_infinity) {
  std::vector<float> logits(200);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i) * 1.7f) * 3;
  std::vector<float> cut = logits;
  std::vector<uint64_t> mask(4, 0);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (i % 3 == 0)
      mask[i / 64] |= uint64_t{1} << (i % 64);
    else
      cut[i] = -kInf;
  }
  for (const SamplerOptions& options :
       {SamplerOptions{.temperature = 0}, SamplerOptions{.temperature = 1, .seed = 5},
        SamplerOptions{.temperature = 0.7f, .top_k = 9, .seed = 5},
        SamplerOptions{.temperature = 1.3f, .top_p = 0.8f, .seed = 5}}) {
    Sampler with_mask = sampler(options, 200), with_logits = sampler(options, 200);
    for (int i = 0; i < 100; ++i) {
      const auto a = with_mask.sample(logits, mask), b = with_logits.sample(cut);
      ASSERT_EQ(a.id, b.id);
      ASSERT_EQ(a.id % 3, 0);
    }
  }
}

TEST(Sampler, draws_as_often_as_the_probabilities_say) {
  Sampler chain = sampler({.temperature = 2, .seed = 9}, 3);
  const std::vector<float> logits{0, 2, 4};  // after the temperature e^0, e^1, e^2
  std::map<int32_t, int> counts;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++counts[chain.sample(logits).id];
  const double sum = 1 + std::exp(1.0) + std::exp(2.0);
  for (int id = 0; id < 3; ++id) {
    const double p = std::exp(double(id)) / sum;
    EXPECT_NEAR(counts[id], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << id;
  }
}

TEST(Sampler, top_p_keeps_the_same_candidates_whether_sorted_before_or_not) {
  std::vector<float> logits(1000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = std::cos(static_cast<float>(i * i)) * 4;
  for (const float p : {1e-6f, 0.1f, 0.5f, 0.9f, 0.999f}) {
    Sampler alone = sampler({.temperature = 1, .top_p = p, .seed = 3}, 1000);
    Sampler behind = sampler({.temperature = 1, .top_k = 1000, .top_p = p, .seed = 3}, 1000);
    for (int i = 0; i < 50; ++i) ASSERT_EQ(alone.sample(logits).id, behind.sample(logits).id) << p;
  }
}

TEST(Sampler, repeats_with_its_seed_and_starts_anew_without) {
  std::vector<float> logits(64, 0.0f);
  const auto run = [&](Sampler& chain) {
    std::vector<int32_t> ids;
    for (int i = 0; i < 20; ++i) ids.push_back(chain.sample(logits).id);
    return ids;
  };
  Sampler seeded = sampler({.temperature = 1, .seed = 77}, 64);
  const auto first = run(seeded);
  seeded.reset();
  EXPECT_EQ(run(seeded), first);
  Sampler unseeded = sampler({.temperature = 1}, 64);
  const uint32_t told = unseeded.seed();
  EXPECT_NE(told, 0u);
  const auto random = run(unseeded);
  Sampler again = sampler({.temperature = 1, .seed = told}, 64);
  EXPECT_EQ(run(again), random);
  unseeded.reset();
  EXPECT_NE(unseeded.seed(), told);
  EXPECT_NE(run(unseeded), random);
}

TEST(Sampler, refuses_what_cannot_be_drawn_from_and_goes_on_afterwards) {
  Sampler chain = sampler({.temperature = 1, .seed = 1}, 4);
  EXPECT_EQ(chain.sample(std::vector<float>{0, std::nanf(""), 0, 0}).code, Code::kFailed);
  EXPECT_EQ(chain.sample(std::vector<float>{0, kInf, 0, 0}).code, Code::kFailed);
  EXPECT_EQ(chain.sample(std::vector<float>(4, -kInf)).code, Code::kFailed);
  EXPECT_EQ(chain.sample(std::vector<float>{1, 2, 3, 4}, std::vector<uint64_t>{0}).code,
            Code::kFailed);
  EXPECT_EQ(chain.sample(std::vector<float>(5, 0.0f)).code, Code::kShape);
  EXPECT_EQ(chain.sample({}).code, Code::kShape);
  // A NaN that may not be chosen does not matter.
  EXPECT_EQ(chain.sample(std::vector<float>{0, std::nanf(""), 0, 0}, std::vector<uint64_t>{4}).id,
            2);
  EXPECT_EQ(Sampler::make({.temperature = kInf}, 4).code(), Code::kInvalid);
  EXPECT_EQ(Sampler::make({.top_p = std::nanf("")}, 4).code(), Code::kInvalid);
  EXPECT_EQ(Sampler::make({}, 0).code(), Code::kInvalid);
}

TEST(Sampler, extreme_options_still_choose_something_likely) {
  const std::vector<float> logits{1, 5, 2, -3};
  for (const SamplerOptions& options :
       {SamplerOptions{.temperature = 1e-38f, .seed = 1},
        SamplerOptions{.temperature = 1e-45f, .seed = 1},
        SamplerOptions{.temperature = 1, .top_k = INT32_MAX, .top_p = 1e-30f, .seed = 1}})
    EXPECT_EQ(sampler(options, 4).sample(logits).id, 1);
  Sampler hot = sampler({.temperature = 3e38f, .seed = 1}, 4);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(hot.sample(logits).code, Code::kOk);
}

TEST(Sampler, takes_no_heap) {
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer has its own allocator";
  std::vector<float> logits(5000);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(i * 7919 % 1000) * 0.01f;
  for (const SamplerOptions& options : {SamplerOptions{}, SamplerOptions{.temperature = 1},
                                        SamplerOptions{.temperature = 1, .top_k = 40},
                                        SamplerOptions{.temperature = 1, .top_p = 0.9f}}) {
    Sampler chain = sampler(options, 5000);
    const size_t before = n_heap_calls();
    for (int i = 0; i < 20; ++i) chain.sample(logits);
    chain.reset();
    EXPECT_EQ(n_heap_calls() - before, 0u);
  }
}

}  // namespace
}  // namespace outrider::text_test
