// Ids recorded from another runtime and published vectors, through the language tokenizer.
#include <gtest/gtest.h>

#include "fixtures.h"
#include "gguf/gguf.h"
#include "text/language_tokenizer.h"

namespace outrider::text_test {
namespace {

std::string arguments_of(const std::string& command) {
  return command.substr(command.find(' ') + 1);
}

// The file may go away once the tokenizer is made.
LanguageTokenizer tokenizer_of(const std::filesystem::path& path) {
  const auto file = GgufFile::open(path.c_str());
  EXPECT_TRUE(file) << file.error().message();
  auto tokenizer = LanguageTokenizer::from_gguf(file.value());
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return std::move(tokenizer.value());
}

std::vector<int32_t> ids_of_text(const LanguageTokenizer& tokenizer, std::string_view text,
                                 const TokenizeOptions& options = {}) {
  const auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids) << ids.error().message();
  return ids ? ids.value() : std::vector<int32_t>{};
}

class RecordedIds : public testing::TestWithParam<const char*> {};

TEST_P(RecordedIds, come_out_again) {
  if (shared_dir().empty()) GTEST_SKIP() << "no shared test data: set OUTRIDER_SHARED";
  const Json golden =
      read_json(shared_dir() / "golden/tokenizer" / (std::string(GetParam()) + ".json"));
  std::string why;
  const auto path = made_model(arguments_of(golden.find("model")->text()), &why);
  if (path.empty()) GTEST_SKIP() << why;
  const LanguageTokenizer tokenizer = tokenizer_of(path);
  ASSERT_EQ(golden.find("cases")->items().size(), 88u);
  for (const Json& sample : golden.find("cases")->items()) {
    const TokenizeOptions options{.add_special = sample.find("add_special")->boolean(),
                                  .parse_special = sample.find("parse_special")->boolean()};
    const std::string& text = sample.find("text")->text();
    EXPECT_EQ(ids_of_text(tokenizer, text, options), int_list(*sample.find("ids")))
        << text << " add_special " << options.add_special << " parse_special "
        << options.parse_special;
  }
}
INSTANTIATE_TEST_SUITE_P(, RecordedIds, testing::Values("spm_gemma", "spm_llama", "bpe_qwen2"));

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t at = 0;
  for (size_t next; (next = text.find(separator, at)) != text.npos; at = next + separator.size())
    parts.push_back(text.substr(at, next - at));
  return parts;
}

class PublishedVectors : public testing::TestWithParam<const char*> {};

TEST_P(PublishedVectors, come_out_and_give_their_texts_back) {
  const auto folder = shared_dir() / "data/tokenizers";
  if (shared_dir().empty()) GTEST_SKIP() << "no shared test data: set OUTRIDER_SHARED";
  const std::string file = "ggml-vocab-" + std::string(GetParam()) + ".gguf";
  const LanguageTokenizer tokenizer = tokenizer_of(folder / file);
  const auto texts = split(read_file(folder / (file + ".inp")), "\n__ggml_vocab_test__\n");
  const auto lines = split(read_file(folder / (file + ".out")), "\n");
  ASSERT_EQ(texts.size(), lines.size());
  ASSERT_GT(texts.size(), 40u);
  const bool blank_in_front = std::string_view(GetParam()) == "llama-spm";
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto ids = ids_of_text(tokenizer, texts[i]);
    std::string line;
    for (const int32_t id : ids) line += " " + std::to_string(id);
    EXPECT_EQ(line, lines[i]) << texts[i];
    EXPECT_EQ(tokenizer.decode(ids), (blank_in_front && !texts[i].empty() ? " " : "") + texts[i]);
  }
}
INSTANTIATE_TEST_SUITE_P(, PublishedVectors,
                         testing::Values("llama-spm", "gpt-2", "falcon", "deepseek-coder"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

class RecordedPrompts : public testing::TestWithParam<const char*> {};

TEST_P(RecordedPrompts, have_the_ids_that_the_model_was_given) {
  if (shared_dir().empty()) GTEST_SKIP() << "no shared test data: set OUTRIDER_SHARED";
  const Json meta = read_json(shared_dir() / "golden" / GetParam() / "meta.json");
  std::string why;
  const auto path = made_model(arguments_of(meta.find("model")->find("make_gguf")->text()), &why);
  if (path.empty()) GTEST_SKIP() << why;
  const LanguageTokenizer tokenizer = tokenizer_of(path);
  EXPECT_EQ(ids_of_text(tokenizer, meta.find("prompt")->text(), {.add_special = true}),
            int_list(*meta.find("prompt_tokens")));
}
INSTANTIATE_TEST_SUITE_P(, RecordedPrompts,
                         testing::Values("llm_gemma3_f32", "llm_gemma_f32", "llm_llama_f32",
                                         "llm_qwen2_f16", "llm_qwen3_f32", "llm_qwen3_q8"));

class RecordedChunks : public testing::TestWithParam<const char*> {};

// Text pieces around the pictures of a SmolVLM prompt are tokenised one by one.
TEST_P(RecordedChunks, have_pieces_for_the_marks_around_pictures) {
  if (shared_dir().empty()) GTEST_SKIP() << "no shared test data: set OUTRIDER_SHARED";
  const Json meta = read_json(shared_dir() / "golden" / GetParam() / "meta.json");
  std::string why;
  const auto path = made_model(arguments_of(meta.find("model")->find("make_gguf")->text()), &why);
  if (path.empty()) GTEST_SKIP() << why;
  const LanguageTokenizer tokenizer = tokenizer_of(path);
  const auto& first = meta.find("chunks")->items()[0];
  std::vector<int32_t> wanted = int_list(*first.find("ids"));
  const std::string& text = meta.find("text")->text();
  std::vector<int32_t> ids = ids_of_text(tokenizer, text.substr(0, text.find("<__media__>")));
  ids.push_back(tokenizer.find("<fake_token_around_image>"));
  ids.push_back(tokenizer.find("<row_1_col_1>"));
  EXPECT_EQ(ids, wanted);
  EXPECT_EQ(tokenizer.add_bos(), false);
}
INSTANTIATE_TEST_SUITE_P(, RecordedChunks, testing::Values("mllmx_smolvlm_chat"));

}  // namespace
}  // namespace outrider::text_test
