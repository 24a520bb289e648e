// Recorded cases of vision-language pairs through the C ABI, whole and staged.
#include <gtest/gtest.h>

#include <cmath>

#include "providers/mllm_fixture.h"
#include "support/recorded_pair.h"

namespace outrider::test {
namespace {

constexpr const char* kMark = "<__media__>";

class MllmCase : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    case_ = RecordedPair(GetParam());
    if (!case_.absent.empty()) GTEST_SKIP() << case_.absent;
    spec_.model = case_.text_path;
    spec_.mmproj = case_.vision_path;
    spec_.n_threads = 2;
    spec_.n_ctx = 512;
    spec_.max_tokens = static_cast<int64_t>(case_.greedy.size());
    spec_.extra = R"("image_sizes":"any")";
    if (case_.clips) spec_.extra += R"(,"numerics":"jetson-pi")";
    for (const RecordedPair::Shown& p : case_.pictures)
      pictures_.push_back({p.width, p.height, p.rgb});
    // Cases whose pictures all follow the prompt leave the places to the provider.
    const Json* prompt = case_.meta.find("prompt");
    prompt_ =
        prompt != nullptr && prompt->is_string() ? prompt->text() : case_.meta.find("text")->text();
  }

  void stage(const MllmProvider& provider) const {
    ASSERT_EQ(provider.images(pictures_), 0) << provider.error();
    ASSERT_EQ(provider.prompt(prompt_), 0) << provider.error();
  }

  RecordedPair case_;
  std::string prompt_;
  MllmSpec spec_;
  std::vector<Picture> pictures_;
};
// Cases with pictures of which the prompt does not say where they stand.
class MllmUnmarked : public MllmCase {};

const auto kName = [](const auto& c) { return std::string(c.param); };
INSTANTIATE_TEST_SUITE_P(Golden, MllmCase, testing::ValuesIn(kRecordedPairs), kName);
INSTANTIATE_TEST_SUITE_P(Golden, MllmUnmarked,
                         testing::Values("mllm_gemma3", "mllm_gemma3_resize", "mllm_qwen25vl_one",
                                         "mllm_qwen25vl_pair_f16", "mllmx_smolvlm_one",
                                         "mllmx_smolvlm_two_f16"),
                         kName);

TEST_P(MllmCase, ids_are_exact_and_logits_within_the_tolerance) {
  const MllmProvider provider(spec_);
  ASSERT_TRUE(provider.ok());
  stage(provider);
  ASSERT_EQ(provider.prefill(), 0) << provider.error();
  const auto logits = provider.logits(),
             wanted = read_reference<float>(case_.folder + "/logits.bin");
  ASSERT_EQ(logits.size(), wanted.size());
  const double tolerance = case_.meta.find("tolerance_max_abs_logits")->number();
  for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], wanted[i], tolerance) << i;
  const auto got = provider.generate(case_.greedy.size());
  ASSERT_LE(got.size(), case_.greedy.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], case_.greedy[i]) << "token " << i;
  if (provider.integer(MllmProvider::kIsEog) == 0) {
    EXPECT_EQ(got.size(), case_.greedy.size());
  }
}

TEST_P(MllmCase, the_whole_and_its_stages_write_the_same_text) {
  const MllmProvider provider(spec_);
  ASSERT_TRUE(provider.ok());
  stage(provider);
  provider.generate(case_.greedy.size());
  const std::string staged = provider.text();
  ASSERT_EQ(provider.step(), 0) << provider.error();
  EXPECT_EQ(provider.text(), staged);
  EXPECT_FALSE(staged.empty());
  EXPECT_EQ(provider.read(MllmProvider::kNextToken), FRT_ERR_NOT_READY);
  EXPECT_EQ(provider.read(MllmProvider::kLogits), FRT_ERR_NOT_READY);
}

TEST_P(MllmCase, any_number_of_threads_gives_the_same_bits) {
  std::vector<float> wanted;
  for (const int64_t n_threads : {1, 2, 3}) {
    MllmSpec spec = spec_;
    spec.n_threads = n_threads;
    const MllmProvider provider(spec);
    ASSERT_TRUE(provider.ok());
    stage(provider);
    ASSERT_EQ(provider.prefill(), 0);
    ASSERT_EQ(provider.decode(), 0);
    const auto logits = provider.logits();
    ASSERT_FALSE(logits.empty());
    if (wanted.empty()) wanted = logits;
    EXPECT_EQ(logits, wanted) << n_threads << " threads";
  }
}

TEST_P(MllmUnmarked, marks_behind_the_prompt_are_what_the_provider_adds) {
  ASSERT_FALSE(pictures_.empty());
  ASSERT_EQ(prompt_.find(kMark), std::string::npos);
  const MllmProvider provider(spec_);
  stage(provider);
  ASSERT_EQ(provider.prefill(), 0);
  const auto wanted = provider.logits();
  std::string marked = prompt_;
  for (size_t i = 0; i < pictures_.size(); ++i) marked += kMark;
  ASSERT_EQ(provider.prompt(marked), 0);
  ASSERT_EQ(provider.prefill(), 0) << provider.error();
  EXPECT_EQ(provider.logits(), wanted);
}

}  // namespace
}  // namespace outrider::test
