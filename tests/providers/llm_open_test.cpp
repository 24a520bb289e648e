// Opening family llm: strict configuration, true codes, files that are not what they seem.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "providers/llm_fixture.h"
#include "support/shared_data.h"

namespace outrider::test {
namespace {

int open_code(const std::string& json) {
  const LlmProvider provider(json);
  EXPECT_EQ(provider.ok(), provider.open_code() == 0);
  return provider.open_code();
}

LlmSpec tiny(std::string extra = {}) {
  LlmSpec spec;
  spec.model = tiny_llm();
  spec.extra = std::move(extra);
  return spec;
}

std::string replaced(std::string json, const std::string& from, const std::string& to) {
  const size_t at = json.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return json.replace(at, from.size(), to);
}

TEST(LlmOpen, every_key_is_wanted_once_and_of_its_type) {
  const std::string good = config_json(tiny());
  ASSERT_EQ(open_code(good), 0);
  for (const char* key : {"\"model_path\"", "\"backend\"", "\"n_ctx\"", "\"n_threads\"", "\"temp\"",
                          "\"top_k\"", "\"top_p\"", "\"seed\"", "\"max_tokens\""})
    EXPECT_EQ(open_code(replaced(good, key, "\"zz\"")), FRT_ERR_INVALID) << key;
  EXPECT_EQ(open_code(config_json(tiny(R"("seed":1)"))), FRT_ERR_INVALID) << "twice";
  EXPECT_EQ(open_code(config_json(tiny(R"("n_views":2)"))), FRT_ERR_INVALID);
  EXPECT_EQ(open_code(config_json(tiny(R"("mmproj_path":"x")"))), FRT_ERR_INVALID);
}

TEST(LlmOpen, values_outside_their_range_are_refused) {
  const std::string good = config_json(tiny());
  for (const auto& [from, to] : {std::pair{"\"n_ctx\":128", "\"n_ctx\":-1"},
                                 {"\"n_ctx\":128", "\"n_ctx\":1048577"},
                                 {"\"n_ctx\":128", "\"n_ctx\":1.5"},
                                 {"\"n_threads\":1", "\"n_threads\":2147483648"},
                                 {"\"n_threads\":1", "\"n_threads\":1025"},
                                 {"\"seed\":1", "\"seed\":-1"},
                                 {"\"seed\":1", "\"seed\":4294967296"},
                                 {"\"max_tokens\":16", "\"max_tokens\":-1"},
                                 {"\"temp\":0.000000", "\"temp\":\"0\""},
                                 {"\"temp\":0.000000", "\"temp\":1e99"},
                                 {"\"top_k\":0", "\"top_k\":0.5"},
                                 {"\"top_k\":0", "\"top_k\":2147483648"}})
    EXPECT_EQ(open_code(replaced(good, from, to)), FRT_ERR_INVALID) << to;
  for (const auto& [from, to] : {std::pair{"\"temp\":0.000000", "\"temp\":-1"},
                                 {"\"top_k\":0", "\"top_k\":-5"},
                                 {"\"top_p\":0.000000", "\"top_p\":-0.5"},
                                 {"\"seed\":1", "\"seed\":0"},
                                 {"\"n_ctx\":128", "\"n_ctx\":0"},
                                 {"\"max_tokens\":16", "\"max_tokens\":0"},
                                 {"\"n_threads\":1", "\"n_threads\":-3"}})
    EXPECT_EQ(open_code(replaced(good, from, to)), 0) << to;
}

TEST(LlmOpen, optional_keys_know_their_choices) {
  for (const char* good :
       {R"("precision":"f32")", R"("precision":"bf16")", R"("precision":"int8")",
        R"("precision":"stored")", R"("precision":"auto")", R"("reuse":"on")", R"("plan":"infer")",
        R"("numerics":"jetson-pi")", R"("kv_precision":"auto")", R"("kv_precision":"int8")"})
    EXPECT_EQ(open_code(config_json(tiny(good))), 0) << good;
  for (const char* bad :
       {R"("precision":"f64")", R"("reuse":"yes")", R"("plan":"split")", R"("numerics":"peer")",
        R"("rt_priority":100)", R"("kv_precision":"int4")"})
    EXPECT_EQ(open_code(config_json(tiny(bad))), FRT_ERR_INVALID) << bad;
  EXPECT_EQ(open_code(replaced(config_json(tiny()), "\"cpu\"", "\"cuda\"")), FRT_ERR_UNSUPPORTED);
  EXPECT_EQ(open_code(replaced(config_json(tiny()), "\"llm\"", "\"mllm\"")), FRT_ERR_INVALID)
      << "mmproj_path is missing";
  EXPECT_EQ(open_code(replaced(config_json(tiny()), "\"llm\"", "\"vlm\"")), FRT_ERR_UNSUPPORTED);
}

TEST(LlmOpen, files_that_are_no_text_model_get_their_code) {
  const TempDir dir;
  LlmSpec spec = tiny();
  spec.model = dir.file("absent.gguf");
  EXPECT_EQ(open_code(config_json(spec)), FRT_ERR_NOT_FOUND);
  spec.model = dir.path();
  EXPECT_EQ(open_code(config_json(spec)), FRT_ERR_NOT_FOUND);
  spec.model = dir.file("text.gguf");
  std::ofstream(spec.model) << "this is no model file, but long enough to be read";
  EXPECT_EQ(open_code(config_json(spec)), FRT_ERR_NOT_FOUND);
  std::ofstream(spec.model, std::ios::trunc);
  EXPECT_EQ(open_code(config_json(spec)), FRT_ERR_NOT_FOUND);
}

// Cut anywhere, flipped anywhere: an answer, never a crash.
TEST(LlmOpen, damaged_files_are_refused_or_run) {
  const TempDir dir;
  LlmSpec spec = tiny();
  const std::string good = spec.model;
  std::ifstream in(good, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  spec.model = dir.file("damaged.gguf");
  const auto write = [&](const std::string& content) {
    std::ofstream(spec.model, std::ios::binary | std::ios::trunc) << content;
  };
  for (const size_t n :
       {size_t{3}, size_t{24}, size_t{100}, size_t{3000}, bytes.size() / 2, bytes.size() - 40000}) {
    write(bytes.substr(0, n));
    EXPECT_LT(open_code(config_json(spec)), 0) << n << " bytes";
  }
  const size_t head = 40000;  // keys, vocabulary and the tensor table lie in front
  for (size_t i = 0; i < 40; ++i) {
    std::string copy = bytes;
    copy[(i * 2654435761u) % head] ^= static_cast<char>(1 << (i % 8));
    write(copy);
    const LlmProvider provider(config_json(spec));
    if (!provider.ok()) continue;
    if (provider.tokens(some_ids(4)) == 0) provider.step();
  }
}

TEST(LlmOpen, the_identity_changes_with_what_can_change_a_result) {
  const auto fingerprint = [](const LlmSpec& spec) {
    const LlmProvider provider(spec);
    EXPECT_TRUE(provider.ok());
    return provider.ok() ? provider->exp->fingerprint : 0;
  };
  const auto base = fingerprint(tiny());
  LlmSpec other = tiny();
  other.model = tiny_llm({.seed = 2});
  EXPECT_NE(fingerprint(other), base);
  EXPECT_NE(fingerprint(tiny(R"("precision":"bf16")")), base);
  EXPECT_NE(fingerprint(tiny(R"("plan":"infer")")), base);
  EXPECT_NE(fingerprint(tiny(R"("kv_precision":"int8")")), base);
  other = tiny();
  other.temp = 0.5;
  EXPECT_NE(fingerprint(other), base);
  EXPECT_EQ(fingerprint(tiny(R"("reuse":"on","cache_dir":"")")), base);
}

TEST(LlmOpen, precision_auto_keeps_what_the_file_has) {
  const auto describe = [](DType dtype) {
    LlmSpec spec = tiny();
    spec.model = tiny_llm({.dtype = dtype});
    const LlmProvider provider(spec);
    return std::string(provider->exp->manifest_json);
  };
  EXPECT_NE(describe(DType::kF32).find(R"("precision":"f32")"), std::string::npos);
  EXPECT_NE(describe(DType::kF16).find(R"("precision":"stored")"), std::string::npos);
  EXPECT_NE(describe(DType::kQ4_K).find(R"("precision":"stored")"), std::string::npos);
}

// Half of a bf16 cache, a quarter of an f32 one, and what is written is still an answer.
TEST(LlmOpen, keys_and_values_in_8_bits_take_53_percent_of_those_in_bf16) {
  const auto kv_bytes = [](const std::string& extra, const char* type) {
    LlmSpec spec = tiny(extra);
    spec.n_ctx = 256;
    const LlmProvider provider(spec);
    const auto facts = Json::parse(provider->exp->manifest_json);
    EXPECT_TRUE(facts) << provider->exp->manifest_json;
    EXPECT_EQ(facts.value().find("kv_type")->text(), type);
    EXPECT_EQ(provider.tokens(some_ids(9)), 0);
    EXPECT_EQ(provider.generate(5).size(), 5u);
    return static_cast<double>(facts.value().find("kv_bytes")->integer());
  };
  const double bf16 = kv_bytes(R"("precision":"bf16")", "bf16"),
               f32 = kv_bytes(R"("precision":"f32")", "f32"),
               of_bf16 = kv_bytes(R"("precision":"bf16","kv_precision":"int8")", "int8"),
               of_f32 = kv_bytes(R"("precision":"f32","kv_precision":"int8")", "int8");
  EXPECT_EQ(of_bf16, of_f32);
  EXPECT_NEAR(of_bf16 / bf16, 34.0 / 64, 0.01);
  EXPECT_NEAR(of_f32 / f32, 34.0 / 128, 0.01);
}

}  // namespace
}  // namespace outrider::test
