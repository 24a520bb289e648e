// Text models written by write_synthetic_llm against the oracle in double, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "gguf/writer.h"
#include "kernels/cpu_ops.h"
#include "models/llm_reference.h"
#include "models/llm_run.h"
#include "models/synthetic_llm.h"
#include "support/shared_data.h"

namespace outrider::test {
namespace {

constexpr LlmArch kArchs[] = {LlmArch::kLlama, LlmArch::kQwen2,  LlmArch::kQwen3,
                              LlmArch::kGemma, LlmArch::kGemma2, LlmArch::kGemma3};

std::vector<int32_t> some_ids(size_t n) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(int32_t((i * i * 31 + 7 * i + 300) % 640));
  return ids;
}

struct Opened {
  GgufFile file;
  LlmWeights weights;
  explicit Opened(const std::string& path) : file(std::move(GgufFile::open(path.c_str()).value())) {
    auto read = read_llm_weights(file);
    EXPECT_TRUE(read) << read.error().text;
    if (read) weights = std::move(read.value());
  }
};

// Logits behind every id, computed one by one after a first chunk of three.
std::vector<std::vector<float>> logits_of(const LlmWeights& weights, Precision precision,
                                          const std::vector<int32_t>& ids) {
  auto ops = std::move(make_cpu_ops({.n_threads = 2}).value());
  EXPECT_TRUE(ops->reserve(llm_limits(weights.config, 8, 128)));
  auto model = LlmModel::build(weights, precision, *ops, {}, nullptr);
  EXPECT_TRUE(model) << model.error().text;
  auto run = std::move(LlmRun::make(model.value(), *ops, {.n_ctx = 128, .chunk = 8}).value());
  std::vector<std::vector<float>> out;
  EXPECT_TRUE(run->append(std::span(ids).first(3), true));
  for (size_t i = 2;;) {
    out.emplace_back(run->logits().begin(), run->logits().end());
    if (++i == ids.size()) return out;
    EXPECT_TRUE(run->append(std::span(ids).subspan(i, 1), true));
  }
}

double worst(const std::vector<float>& got, const Row& wanted) {
  double most = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double d = std::fabs(got[i] - wanted[i]);
    if (!(d <= most)) most = std::isfinite(d) ? d : INFINITY;
  }
  return most;
}

class Llm : public testing::TestWithParam<LlmArch> {
 protected:
  std::string write(DType dtype) const {
    const std::string path = dir_.file("model.gguf");
    const auto done = write_synthetic_llm({.arch = GetParam(), .dtype = dtype}, path.c_str());
    EXPECT_TRUE(done) << done.error().text;
    return path;
  }
  TempDir dir_;
};
INSTANTIATE_TEST_SUITE_P(Archs, Llm, testing::ValuesIn(kArchs),
                         [](const auto& a) { return std::string(llm_arch_name(a.param)); });

// f32 against double: some hundred sums of 256 products, logits of size 3.
TEST_P(Llm, is_its_description_in_f32) {
  const Opened opened(write(DType::kF32));
  const auto ids = some_ids(40);  // longer than both windows
  const auto wanted = LlmReference(opened.weights).logits(ids);
  const auto got = logits_of(opened.weights, Precision::kF32, ids);
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(worst(got[i], wanted[i + 2]), 1e-4) << "behind id " << i + 2;
}

TEST_P(Llm, stored_and_bf16_stay_near_the_values_of_the_file) {
  for (const auto& [dtype, precision, bound] :
       {std::tuple{DType::kF16, Precision::kStored, 2e-4},
        std::tuple{DType::kBf16, Precision::kStored, 2e-4},
        std::tuple{DType::kF16, Precision::kBf16, 0.4},
        std::tuple{DType::kQ8_0, Precision::kStored, 0.5},
        std::tuple{DType::kQ4_K, Precision::kStored, 0.5},
        std::tuple{DType::kQ5_K, Precision::kStored, 0.5},
        std::tuple{DType::kQ3_K, Precision::kStored, 0.5}}) {
    const Opened opened(write(dtype));
    const auto ids = some_ids(8);
    const auto wanted = LlmReference(opened.weights).logits(ids);
    const auto got = logits_of(opened.weights, precision, ids);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(worst(got[i], wanted[i + 2]), bound) << dtype_info(dtype).name << " id " << i + 2;
  }
}

TEST_P(Llm, the_file_tells_its_config) {
  const Opened opened(write(DType::kF16));
  const LlmConfig &got = opened.weights.config,
                  wanted = synthetic_llm_config({.arch = GetParam(), .dtype = DType::kF16});
  EXPECT_EQ(got.arch, wanted.arch);
  EXPECT_EQ(got.vocab, wanted.vocab);
  EXPECT_EQ(got.n_layers, wanted.n_layers);
  EXPECT_EQ(got.head_dim, wanted.head_dim);
  EXPECT_EQ(got.window, wanted.window);
  EXPECT_EQ(got.tied, wanted.tied);
  EXPECT_EQ(got.qk_norm, wanted.qk_norm);
  EXPECT_EQ(got.trained_context, wanted.trained_context);
}

// A small llama file with one thing changed.
class Damaged {
 public:
  GgufWriter writer;
  Damaged(const char* without = "", const char* arch = "llama") {
    const auto u32 = [&](const char* key, uint32_t value) {
      if (std::string(key) != without) writer.add_u32(key, value);
    };
    writer.add_string("general.architecture", arch);
    u32("llama.block_count", 1);
    u32("llama.embedding_length", 32);
    u32("llama.feed_forward_length", 64);
    u32("llama.attention.head_count", 4);
    u32("llama.attention.head_count_kv", 2);
    if (std::string(without) != "eps")
      writer.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    for (const auto& [name, n_in, n_out] :
         {std::tuple{"token_embd.weight", 32, 64}, std::tuple{"output_norm.weight", 32, 0},
          std::tuple{"blk.0.attn_norm.weight", 32, 0}, std::tuple{"blk.0.ffn_norm.weight", 32, 0},
          std::tuple{"blk.0.attn_q.weight", 32, 32}, std::tuple{"blk.0.attn_k.weight", 32, 16},
          std::tuple{"blk.0.attn_v.weight", 32, 16}, std::tuple{"blk.0.attn_output.weight", 32, 32},
          std::tuple{"blk.0.ffn_gate.weight", 32, 64}, std::tuple{"blk.0.ffn_up.weight", 32, 64},
          std::tuple{"blk.0.ffn_down.weight", 64, 32}})
      if (std::string(name) != without) tensor(name, n_in, n_out);
  }
  void tensor(const char* name, int64_t n_in, int64_t n_out) {
    const int64_t ne[] = {n_in, n_out};
    writer.add_tensor(name, DType::kF32, std::span(ne, n_out == 0 ? 1 : 2),
                      [](int64_t, std::span<float> v) { std::fill(v.begin(), v.end(), 0.5f); });
  }
  Error error() const {
    const TempDir dir;
    const std::string path = dir.file("m.gguf");
    EXPECT_TRUE(writer.write(path.c_str()));
    const auto file = GgufFile::open(path.c_str());
    EXPECT_TRUE(file) << file.error().text;
    const auto read = read_llm_weights(file.value());
    return read ? Error{} : read.error();
  }
};

void expect_refused(const Damaged& file, Code code, const char* words) {
  const Error error = file.error();
  EXPECT_EQ(error.code, code) << words << ": " << error.text;
  EXPECT_NE(error.message().find(words), std::string_view::npos) << error.text;
}

TEST(LlmFile, the_undamaged_file_is_read) {
  EXPECT_EQ(Damaged().error().code, Code::kOk);
}

TEST(LlmFile, every_missing_key_and_tensor_is_named) {
  for (const char* key :
       {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length",
        "llama.attention.head_count", "token_embd.weight", "output_norm.weight",
        "blk.0.attn_norm.weight", "blk.0.attn_q.weight", "blk.0.attn_v.weight",
        "blk.0.attn_output.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_down.weight"})
    expect_refused(Damaged(key), Code::kNotFound, key);
  expect_refused(Damaged("eps"), Code::kNotFound, "layer_norm_rms_epsilon");
}

TEST(LlmFile, what_is_not_computed_is_refused_by_name) {
  expect_refused(Damaged("", "mamba"), Code::kUnsupported, "mamba");
  Damaged bias;
  bias.tensor("blk.0.ffn_up.bias", 64, 0);
  expect_refused(bias, Code::kUnsupported, "blk.0.ffn_up.bias");
  Damaged experts;
  experts.writer.add_u32("llama.expert_count", 8);
  expect_refused(experts, Code::kUnsupported, "expert");
  Damaged yarn;
  yarn.writer.add_string("llama.rope.scaling.type", "yarn");
  expect_refused(yarn, Code::kUnsupported, "yarn");
  Damaged window;
  window.writer.add_u32("llama.attention.sliding_window", 128);
  expect_refused(window, Code::kUnsupported, "sliding_window");
  Damaged partly;
  partly.writer.add_u32("llama.rope.dimension_count", 4);
  expect_refused(partly, Code::kUnsupported, "dimension_count");
}

TEST(LlmFile, impossible_sizes_are_refused_with_what_is_allowed) {
  const auto with = [](const char* key, uint32_t value) {
    Damaged file(key);
    file.writer.add_u32(key, value);
    return file;
  };
  for (const char* key :
       {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length",
        "llama.attention.head_count", "llama.attention.head_count_kv"}) {
    expect_refused(with(key, 0), Code::kNotFound, key);
    expect_refused(with(key, UINT32_MAX), Code::kNotFound, key);
  }
  expect_refused(with("llama.attention.head_count_kv", 3), Code::kNotFound, "no multiple");
  expect_refused(with("llama.block_count", 2), Code::kNotFound, "blk.1.");
  Damaged odd;
  odd.writer.add_u32("llama.attention.key_length", 7);
  odd.writer.add_u32("llama.attention.value_length", 7);
  expect_refused(odd, Code::kNotFound, "even");
  for (const float eps : {0.0f, -1.0f, 1.0f, NAN, INFINITY}) {
    Damaged file("eps");
    file.writer.add_f32("llama.attention.layer_norm_rms_epsilon", eps);
    expect_refused(file, Code::kNotFound, "layer_norm_rms_epsilon");
  }
  for (const float base : {0.0f, 1.0f, -10000.0f, NAN, INFINITY}) {
    Damaged file;
    file.writer.add_f32("llama.rope.freq_base", base);
    expect_refused(file, Code::kNotFound, "freq_base");
  }
  Damaged divisors;
  divisors.tensor("rope_freqs.weight", 3, 0);
  expect_refused(divisors, Code::kNotFound, "rope_freqs");
}

TEST(LlmFile, fewer_layers_than_the_file_holds_are_refused) {
  Damaged file;
  file.tensor("blk.1.attn_norm.weight", 32, 0);
  expect_refused(file, Code::kNotFound, "blk.1.attn_norm.weight");
}

}  // namespace
}  // namespace outrider::test
