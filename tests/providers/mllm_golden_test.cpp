// Recorded cases of vision-language pairs through the C ABI, whole and staged.
#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "providers/mllm_fixture.h"
#include "support/reference_files.h"

namespace outrider::test {
namespace {

constexpr const char* kMark = "<__media__>";

class MllmCase : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = shared_path(std::string("golden/") + GetParam());
    if (folder_.empty()) GTEST_SKIP() << "shared reference data is absent: golden/" << GetParam();
    const auto bytes = read_reference<char>(folder_ + "/meta.json");
    meta_ = std::move(Json::parse({bytes.data(), bytes.size()}).value());
    for (const char* which : {"model", "vision"}) {
      const Json& model = *meta_.find(which);
      const std::string dir = reference_files(model.find("make_gguf")->text());
      if (dir.empty())
        GTEST_SKIP() << "the reference generator does not run here (python3-numpy missing?)";
      (which[0] == 'm' ? spec_.model : spec_.mmproj) = dir + "/" + model.find("file")->text();
    }
    greedy_ = read_reference<int32_t>(folder_ + "/greedy.bin");
    spec_.n_threads = 2;
    spec_.n_ctx = 512;
    spec_.max_tokens = static_cast<int64_t>(greedy_.size());
    spec_.extra = R"("image_sizes":"any")";
    read_pictures();
    // Cases whose pictures all follow the prompt leave the places to the provider.
    const Json* prompt = meta_.find("prompt");
    prompt_ =
        prompt != nullptr && prompt->is_string() ? prompt->text() : meta_.find("text")->text();
    if (std::string(GetParam()).find("pair") != std::string::npos)
      spec_.extra += R"(,"numerics":"jetson-pi")";
  }

  void read_pictures() {
    std::vector<std::pair<int64_t, int64_t>> sizes;
    if (const Json* given = meta_.find("sizes"))
      for (const Json& size : given->items())
        sizes.emplace_back(size.items()[0].integer(), size.items()[1].integer());
    else
      sizes.assign(static_cast<size_t>(meta_.find("views")->integer()),
                   {meta_.find("width")->integer(), meta_.find("height")->integer()});
    if (sizes.empty()) return;
    const auto all = read_reference<uint8_t>(folder_ + "/images.u8");
    auto at = all.begin();
    for (const auto& [width, height] : sizes) {
      pictures_.push_back({static_cast<int32_t>(width),
                           static_cast<int32_t>(height),
                           {at, at + width * height * 3}});
      at += width * height * 3;
    }
  }

  void stage(const MllmProvider& provider) const {
    ASSERT_EQ(provider.images(pictures_), 0) << provider.error();
    ASSERT_EQ(provider.prompt(prompt_), 0) << provider.error();
  }

  std::string folder_, prompt_;
  Json meta_;
  MllmSpec spec_;
  std::vector<Picture> pictures_;
  std::vector<int32_t> greedy_;
};

INSTANTIATE_TEST_SUITE_P(Golden, MllmCase,
                         testing::Values("mllm_gemma3", "mllm_gemma3_resize", "mllm_qwen25vl_one",
                                         "mllm_qwen25vl_pair_f16", "mllmx_qwen25vl_text",
                                         "mllmx_qwen25vl_two", "mllmx_smolvlm_one",
                                         "mllmx_smolvlm_chat", "mllmx_smolvlm_two_f16"),
                         [](const auto& c) { return std::string(c.param); });

TEST_P(MllmCase, ids_are_exact_and_logits_within_the_tolerance) {
  const MllmProvider provider(spec_);
  ASSERT_TRUE(provider.ok());
  stage(provider);
  ASSERT_EQ(provider.prefill(), 0) << provider.error();
  const auto logits = provider.logits(), wanted = read_reference<float>(folder_ + "/logits.bin");
  ASSERT_EQ(logits.size(), wanted.size());
  const double tolerance = meta_.find("tolerance_max_abs_logits")->number();
  for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], wanted[i], tolerance) << i;
  const auto got = provider.generate(greedy_.size());
  ASSERT_LE(got.size(), greedy_.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], greedy_[i]) << "token " << i;
  if (provider.integer(MllmProvider::kIsEog) == 0) {
    EXPECT_EQ(got.size(), greedy_.size());
  }
}

TEST_P(MllmCase, the_whole_and_its_stages_write_the_same_text) {
  const MllmProvider provider(spec_);
  ASSERT_TRUE(provider.ok());
  stage(provider);
  provider.generate(greedy_.size());
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

TEST_P(MllmCase, marks_behind_the_prompt_are_what_the_provider_adds) {
  if (pictures_.empty() || prompt_.find(kMark) != std::string::npos) return;
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
