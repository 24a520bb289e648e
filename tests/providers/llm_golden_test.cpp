// Recorded cases of text models through the C ABI: the prompt as text, as ids, whole and staged.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/json.h"
#include "providers/llm_fixture.h"
#include "support/reference_files.h"

namespace outrider::test {
namespace {

class LlmCase : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = shared_path(std::string("golden/") + GetParam());
    if (folder.empty()) GTEST_SKIP() << "shared reference data is absent: golden/" << GetParam();
    const auto bytes = read_reference<char>(folder + "/meta.json");
    meta_ = std::move(Json::parse({bytes.data(), bytes.size()}).value());
    const Json& model = *meta_.find("model");
    const std::string dir = reference_files(model.find("make_gguf")->text());
    if (dir.empty())
      GTEST_SKIP() << "the reference generator does not run here (python3-numpy missing?)";
    spec_.model = dir + "/" + model.find("file")->text();
    spec_.n_threads = 2;
    prompt_ = meta_.find("prompt")->text();
    ids_ = read_reference<int32_t>(folder + "/tokens.bin");
    greedy_ = read_reference<int32_t>(folder + "/greedy.bin");
    logits_ = read_reference<float>(folder + "/logits.bin");
    spec_.max_tokens = static_cast<int64_t>(greedy_.size());
  }

  // The recorded ids up to where generation ends.
  void expect_recorded(const std::vector<int32_t>& got, bool ended) const {
    ASSERT_LE(got.size(), greedy_.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], greedy_[i]) << "token " << i;
    if (!ended) {
      EXPECT_EQ(got.size(), greedy_.size());
    }
  }

  Json meta_;
  LlmSpec spec_;
  std::string prompt_;
  std::vector<int32_t> ids_, greedy_;
  std::vector<float> logits_;
};

INSTANTIATE_TEST_SUITE_P(Golden, LlmCase,
                         testing::Values("llm_llama_f32", "llm_qwen2_f16", "llm_qwen3_f32",
                                         "llm_qwen3_q8", "llm_gemma_f32", "llm_gemma3_f32"),
                         [](const auto& c) { return std::string(c.param); });

TEST_P(LlmCase, the_prompt_as_text_gives_the_recorded_ids_and_logits) {
  const LlmProvider provider(spec_);
  ASSERT_TRUE(provider.ok());
  ASSERT_EQ(provider.prompt(prompt_), 0) << provider.error();
  ASSERT_EQ(provider.prefill(), 0) << provider.error();
  EXPECT_EQ(provider.counter("prompt_tokens"), static_cast<int64_t>(ids_.size()));
  const double tolerance = meta_.find("tolerance_max_abs_logits")->number();
  const auto logits = provider.logits();
  ASSERT_EQ(logits.size() * 3, logits_.size());
  for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], logits_[i], tolerance) << i;
  const auto got = provider.generate(greedy_.size());
  expect_recorded(got, provider.integer(LlmProvider::kIsEog) == 1);
}

TEST_P(LlmCase, ids_and_text_give_the_same_bits) {
  const LlmProvider provider(spec_);
  ASSERT_TRUE(provider.ok());
  ASSERT_EQ(provider.prompt(prompt_), 0);
  ASSERT_EQ(provider.prefill(), 0);
  const auto by_text = provider.logits();
  ASSERT_EQ(provider.tokens(ids_), 0) << provider.error();
  ASSERT_EQ(provider.prefill(), 0);
  EXPECT_EQ(provider.logits(), by_text);
  ASSERT_FALSE(by_text.empty());
}

TEST_P(LlmCase, the_whole_and_its_stages_write_the_same_text) {
  const LlmProvider provider(spec_);
  ASSERT_TRUE(provider.ok());
  for (const bool as_ids : {false, true}) {
    const auto stage = [&] { return as_ids ? provider.tokens(ids_) : provider.prompt(prompt_); };
    ASSERT_EQ(stage(), 0);
    provider.generate(greedy_.size());
    const std::string staged = provider.text();
    ASSERT_EQ(stage(), 0);
    ASSERT_EQ(provider.step(), 0) << provider.error();
    EXPECT_EQ(provider.text(), staged);
    EXPECT_FALSE(staged.empty());
    EXPECT_EQ(provider.read(LlmProvider::kNextToken), FRT_ERR_NOT_READY);
    EXPECT_EQ(provider.read(LlmProvider::kLogits), FRT_ERR_NOT_READY);
  }
}

TEST_P(LlmCase, the_recorded_draws_come_out_of_their_seeds) {
  for (const Json& draw : meta_.find("sampled")->items()) {
    LlmSpec spec = spec_;
    spec.temp = draw.find("temp")->number();
    spec.top_k = draw.find("top_k")->integer();
    spec.top_p = draw.find("top_p")->number();
    spec.seed = draw.find("seed")->integer();
    const auto safe = static_cast<size_t>(draw.find("safe_length")->integer());
    const LlmProvider provider(spec);
    ASSERT_TRUE(provider.ok());
    ASSERT_EQ(provider.prompt(prompt_), 0);
    const auto first = provider.generate(safe), second = provider.generate(safe);
    EXPECT_EQ(first, second) << "seed " << spec.seed;
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_EQ(first[i], draw.find("ids")->items()[i].integer()) << "seed " << spec.seed;
  }
}

}  // namespace
}  // namespace outrider::test
