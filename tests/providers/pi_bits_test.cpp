// The same bits: any thread count, whole and split, first and thousandth tick, after refusals,
// after reopening, in company.
#include <gtest/gtest.h>

#include <cmath>

#include "providers/pi_fixture.h"

namespace outrider::test {
namespace {

struct Variant {
  PiFamily family;
  DType dtype;
  const char* precision;
};

class SameBits : public testing::TestWithParam<Variant> {
 protected:
  SameBits()
      : pair_(tiny_pair(GetParam().family, GetParam().dtype)), request_(make_request(pair_)) {}
  std::string config(const std::string& extra = "") const {
    return config_json(
        {.pair = pair_,
         .extra = std::string(R"("precision":")") + GetParam().precision + "\"" + extra});
  }
  std::vector<float> fresh(const std::string& extra = "") const {
    const PiProvider provider(config(extra));
    EXPECT_TRUE(provider.ok()) << provider.open_code();
    return provider.ok() ? run_request(provider, request_) : std::vector<float>();
  }
  const PiPair& pair_;
  Request request_;
};

INSTANTIATE_TEST_SUITE_P(Models, SameBits,
                         testing::Values(Variant{PiFamily::kPi0, DType::kF32, "f32"},
                                         Variant{PiFamily::kPi05, DType::kF32, "f32"},
                                         Variant{PiFamily::kPi05, DType::kBf16, "bf16"},
                                         Variant{PiFamily::kPi05, DType::kF16, "int8"},
                                         Variant{PiFamily::kPi0, DType::kBf16, "int8"},
                                         Variant{PiFamily::kPi0, DType::kF16, "stored"},
                                         Variant{PiFamily::kPi05, DType::kQ8_0, "auto"},
                                         Variant{PiFamily::kPi05, DType::kQ8_0, "stored"},
                                         Variant{PiFamily::kPi05, DType::kQ4_0, "f32"}),
                         [](const auto& p) {
                           return std::string(p.param.family == PiFamily::kPi0 ? "pi0_" : "pi05_") +
                                  std::string(dtype_info(p.param.dtype).name) + "_" +
                                  p.param.precision;
                         });

TEST_P(SameBits, FC26_for_any_number_of_threads) {
  const auto one = fresh(R"(,"n_threads":1)");
  ASSERT_FALSE(one.empty());
  for (const float v : one) ASSERT_TRUE(std::isfinite(v));
  for (const char* threads : {"2", "3", "4", "0", "-1"}) {
    EXPECT_EQ(fresh(std::string(R"(,"n_threads":)") + threads), one) << threads;
  }
}

TEST_P(SameBits, FC26_for_whole_and_split_execution) {
  const PiProvider provider(config());
  const auto whole = run_request(provider, request_);
  stage_all(provider, request_);
  ASSERT_EQ(provider.context(), 0);
  ASSERT_EQ(provider.action(), 0);
  std::vector<float> split;
  ASSERT_EQ(provider.read(split), 0);
  EXPECT_EQ(split, whole);
}

TEST_P(SameBits, FC26_on_the_first_and_on_the_thousandth_tick) {
  const PiProvider provider(
      config(R"(,"reuse":"off","n_threads":1)"));  // or a thousand ticks would be one
  const auto first = run_request(provider, request_);
  const int n_ticks = GetParam().dtype == DType::kF32 ? 1000 : 50;
  std::vector<float> actions;
  for (int tick = 1; tick < n_ticks; ++tick) {
    ASSERT_EQ(provider.step(), 0);
    ASSERT_EQ(provider.read(actions), 0);
    ASSERT_EQ(actions, first) << tick;
  }
}

TEST_P(SameBits, FC26_between_other_requests_and_after_refused_ones) {
  const PiProvider provider(config());
  const auto wanted = run_request(provider, request_);
  Request other = make_request(pair_, 2, 9);
  other.prompt = "open the drawer and put the spoon on the plate please";
  other.state = {-0.9f, 0.9f, 0.1f, 0.2f, 0.3f};
  for (int i = 0; i < 5; ++i) {
    EXPECT_NE(run_request(provider, other), wanted);
    EXPECT_LT(provider.set_state({NAN}), 0);
    EXPECT_LT(provider.set_prompt("\xff"), 0);
    EXPECT_LT(provider.step(), 0);
    EXPECT_EQ(run_request(provider, request_), wanted);
  }
}

TEST_P(SameBits, FC26_after_reopening) {
  EXPECT_EQ(fresh(), fresh());
}

TEST_P(SameBits, a_shorter_prompt_reuses_nothing_of_a_longer_one) {
  const PiProvider used(config());
  Request longer = request_, shorter = request_;
  longer.prompt = "pick up the red block and place it into the tray next to the blue cup";
  shorter.prompt = "go";
  run_request(used, longer);
  const PiProvider unused(config());
  EXPECT_EQ(run_request(used, shorter), run_request(unused, shorter));
}

TEST(SameBitsBySeed, FC26_the_noise_seed_decides_the_chunk) {
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const Request request = make_request(pair);
  const auto with = [&](const std::string& extra) {
    const PiProvider provider(config_json({.pair = pair, .extra = extra}));
    return run_request(provider, request);
  };
  const auto standard = with("");
  EXPECT_EQ(with(R"("noise_seed":41)"), standard);
  EXPECT_NE(with(R"("noise_seed":42)"), standard);
}

TEST(NumberOfSteps, one_step_runs_and_more_steps_differ) {
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const Request request = make_request(pair);
  std::vector<std::vector<float>> chunks;
  for (const char* steps :
       {R"("num_steps":1)", R"("num_steps":3)", R"("num_steps":10)", R"("num_steps":0)"}) {
    const PiProvider provider(config_json({.pair = pair, .extra = steps}));
    ASSERT_TRUE(provider.ok());
    chunks.push_back(run_request(provider, request));
    for (const float v : chunks.back()) EXPECT_TRUE(std::isfinite(v));
  }
  EXPECT_NE(chunks[0], chunks[1]);
  EXPECT_EQ(chunks[2], chunks[3]) << "0 means the file's ten steps";
}

}  // namespace
}  // namespace outrider::test
