// Recorded cases of text models: prompt ids in, greedy ids and logits out. The model files are
// written by the reference generator of the shared data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/json.h"
#include "kernels/cpu_ops.h"
#include "models/llm_run.h"
#include "support/reference_files.h"

namespace outrider::test {
namespace {

constexpr int64_t kContext = 256;
// What 8-bit keys and values may move a logit, as a share of the largest one. Stated in
// docs/precision.md; these random models have no redundancy that real ones have.
constexpr double kMovedBy8Bits = 0.02;

int32_t greedy(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double max_abs(std::span<const float> got, const float* wanted) {
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double d = std::fabs(double(got[i]) - wanted[i]);
    if (!(d <= worst)) worst = std::isfinite(d) ? d : INFINITY;
  }
  return worst;
}

struct Session {
  std::shared_ptr<GgufFile> file;
  std::unique_ptr<Ops> ops;
  std::shared_ptr<const LlmModel> model;
  std::unique_ptr<LlmRun> run;

  Session(const std::string& path, Precision precision, int n_threads, int64_t chunk,
          bool reuse = false, bool kv_8bit = false) {
    auto opened = GgufFile::open(path.c_str());
    if (!opened) throw std::runtime_error(opened.error().text);
    file = std::make_shared<GgufFile>(std::move(opened.value()));
    auto weights = read_llm_weights(*file);
    if (!weights) throw std::runtime_error(weights.error().text);
    auto made = make_cpu_ops({.n_threads = n_threads});
    ops = std::move(made.value());
    if (!ops->reserve(llm_limits(weights.value().config, chunk, kContext, kv_8bit)))
      throw std::runtime_error("reserve");
    auto built = LlmModel::build(weights.value(), precision, *ops, {}, file);
    if (!built) throw std::runtime_error(built.error().text);
    model = built.value();
    run = std::move(
        LlmRun::make(model, *ops,
                     {.n_ctx = kContext, .chunk = chunk, .reuse = reuse, .kv_8bit = kv_8bit})
            .value());
  }

  // Logits behind the prompt and behind each of the n greedy ids but the last.
  std::vector<std::vector<float>> generate(std::span<const int32_t> prompt, size_t n) {
    std::vector<std::vector<float>> out;
    const int64_t kept = run->begin(prompt);
    EXPECT_TRUE(run->append(prompt.subspan(static_cast<size_t>(kept)), true));
    while (true) {
      out.emplace_back(run->logits().begin(), run->logits().end());
      if (out.size() == n) return out;
      const int32_t id = greedy(run->logits());
      EXPECT_TRUE(run->append({&id, 1}, true));
    }
  }
};

class LlmGolden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = shared_path(std::string("golden/") + GetParam());
    if (folder_.empty()) GTEST_SKIP() << "shared reference data is absent: golden/" << GetParam();
    const auto bytes = read_reference<char>(folder_ + "/meta.json");
    meta_ = std::move(Json::parse({bytes.data(), bytes.size()}).value());
    const Json& model = *meta_.find("model");
    const std::string dir = reference_files(model.find("make_gguf")->text());
    if (dir.empty())
      GTEST_SKIP() << "the reference generator does not run here (python3-numpy missing?)";
    path_ = dir + "/" + model.find("file")->text();
    prompt_ = read_reference<int32_t>(folder_ + "/tokens.bin");
    greedy_ = read_reference<int32_t>(folder_ + "/greedy.bin");
    logits_ = read_reference<float>(folder_ + "/logits.bin");
    tolerance_ = meta_.find("tolerance_max_abs_logits")->number();
  }

  void expect_case(Session& session) const {
    const auto got = session.generate(prompt_, greedy_.size());
    const auto vocab = static_cast<size_t>(session.model->config.vocab);
    ASSERT_EQ(logits_.size(), 3 * vocab);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(greedy(got[i]), greedy_[i]) << "token " << i;
    const size_t steps[] = {0, 1, got.size() - 1};
    for (size_t i = 0; i < 3; ++i)
      EXPECT_LE(max_abs(got[steps[i]], logits_.data() + i * vocab), tolerance_)
          << "logits of token " << steps[i];
  }

  std::string folder_, path_;
  Json meta_;
  std::vector<int32_t> prompt_, greedy_;
  std::vector<float> logits_;
  double tolerance_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Cases, LlmGolden,
                         testing::Values("llm_llama_f32", "llm_qwen2_f16", "llm_qwen3_f32",
                                         "llm_qwen3_q8", "llm_gemma_f32", "llm_gemma3_f32"),
                         [](const auto& c) { return std::string(c.param); });

TEST_P(LlmGolden, greedy_ids_are_exact_and_logits_within_the_tolerance) {
  for (const Precision precision : {Precision::kF32, Precision::kStored}) {
    Session session(path_, precision, 2, 64);
    expect_case(session);
  }
}

// 8-bit keys and values: logits stay near the recorded ones, and ids are the recorded ones wherever
// the two best logits are further apart than that.
TEST_P(LlmGolden, with_8_bit_keys_and_values_logits_move_a_little) {
  Session session(path_, Precision::kStored, 2, 64, false, true);
  const auto vocab = static_cast<size_t>(session.model->config.vocab);
  const auto got = session.generate(prompt_, 2);
  const double size = max_abs(std::vector<float>(vocab, 0.0f), logits_.data());
  const double moved =
      std::max(max_abs(got[0], logits_.data()),
               greedy(got[0]) == greedy_[0] ? max_abs(got[1], logits_.data() + vocab) : 0.0);
  RecordProperty("moved", std::to_string(moved / size));
  EXPECT_LE(moved, kMovedBy8Bits * size) << "of " << size;
  if (greedy(got[0]) != greedy_[0]) {
    EXPECT_LE(double(logits_[size_t(greedy_[0])]) - logits_[size_t(greedy(got[0]))], 2 * moved);
  }
  Session plain(path_, Precision::kStored, 2, 64);
  EXPECT_LT(session.run->kv_bytes() * 10, plain.run->kv_bytes() * 3) << "f32 there";
}

TEST_P(LlmGolden, any_chunk_and_any_number_of_threads_gives_the_same_bits) {
  for (const bool kv_8bit : {false, true}) {
    Session first(path_, Precision::kStored, 1, kContext, false, kv_8bit);
    const auto wanted = first.generate(prompt_, greedy_.size());
    for (int n_threads : {1, 2, 5}) {
      for (int64_t chunk : {1, 3, 17, 64}) {
        Session session(path_, Precision::kStored, n_threads, chunk, false, kv_8bit);
        ASSERT_EQ(session.generate(prompt_, greedy_.size()), wanted)
            << n_threads << " threads, chunk " << chunk << (kv_8bit ? ", 8 bits" : "");
      }
    }
  }
}

TEST_P(LlmGolden, a_kept_prefix_gives_the_bits_of_a_fresh_run) {
  Session reusing(path_, Precision::kStored, 2, 16, true), fresh(path_, Precision::kStored, 2, 16);
  reusing.generate(prompt_, 3);
  auto other = prompt_;
  other.back() = other.front();
  other.insert(other.end(), prompt_.begin(), prompt_.end());
  for (const auto& prompt :
       {prompt_, other, std::vector(other.begin(), other.end() - 3), prompt_}) {
    fresh.run->reset();
    EXPECT_GT(reusing.run->begin(prompt), static_cast<int64_t>(prompt_.size()) - 4);
    ASSERT_EQ(reusing.generate(prompt, 4), fresh.generate(prompt, 4));
  }
}

TEST_P(LlmGolden, a_cancelled_chunk_leaves_a_session_that_goes_on_rightly) {
  Session session(path_, Precision::kStored, 2, 16);
  const auto wanted = session.generate(prompt_, 2);
  std::atomic<bool> cancel{true};
  session.run->begin(prompt_);
  EXPECT_FALSE(session.run->append(prompt_, true, &cancel));
  EXPECT_EQ(session.run->n_past(), 0);
  EXPECT_EQ(session.generate(prompt_, 2), wanted);
}

}  // namespace
}  // namespace outrider::test
