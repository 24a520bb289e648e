// Ids recorded from another runtime, with vocabularies read from GGUF files.
#include <gtest/gtest.h>

#include "fixtures.h"
#include "gguf/gguf.h"
#include "text/pi_prompt.h"

namespace outrider::text_test {
namespace {

SpmTokenizer tokenizer_of(const std::filesystem::path& path) {
  const auto file = GgufFile::open(path.c_str());
  EXPECT_TRUE(file) << file.error().message();
  auto tokenizer = SpmTokenizer::from_gguf(file.value());
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return std::move(tokenizer.value());
}

// "make_gguf.py gemma --size tiny": what stands behind the name of the tool.
std::string arguments_of(const std::string& command) {
  return command.substr(command.find(' ') + 1);
}

class PeerCases : public testing::TestWithParam<const char*> {};

TEST_P(PeerCases, give_the_recorded_ids) {
  if (shared_dir().empty()) GTEST_SKIP() << "no shared test data: set OUTRIDER_SHARED";
  const Json golden =
      read_json(shared_dir() / "golden/tokenizer" / (std::string(GetParam()) + ".json"));
  std::string why;
  const auto path = made_model(arguments_of(golden.find("model")->text()), &why);
  if (path.empty()) GTEST_SKIP() << why;
  const SpmTokenizer tokenizer = tokenizer_of(path);
  ASSERT_EQ(golden.find("cases")->items().size(), 88u);
  for (const Json& sample : golden.find("cases")->items()) {
    const EncodeOptions options{.add_special = sample.find("add_special")->boolean(),
                                .parse_special = sample.find("parse_special")->boolean()};
    const std::string& text = sample.find("text")->text();
    EXPECT_EQ(encode_all(tokenizer, text, options), int_list(*sample.find("ids")))
        << text << " add_special " << options.add_special << " parse_special "
        << options.parse_special;
  }
}
INSTANTIATE_TEST_SUITE_P(, PeerCases, testing::Values("spm_gemma", "spm_llama"));

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t at = 0;
  for (size_t next; (next = text.find(separator, at)) != text.npos; at = next + separator.size())
    parts.push_back(text.substr(at, next - at));
  return parts;
}

TEST(PeerGolden, a_real_llama_vocabulary_gives_the_published_vectors) {
  const auto folder = shared_dir() / "data/tokenizers";
  if (shared_dir().empty()) GTEST_SKIP() << "no shared test data: set OUTRIDER_SHARED";
  const SpmTokenizer tokenizer = tokenizer_of(folder / "ggml-vocab-llama-spm.gguf");
  EXPECT_EQ(tokenizer.n_pieces(), 32000);
  EXPECT_TRUE(tokenizer.vocab().add_space_prefix);
  const auto texts =
      split(read_file(folder / "ggml-vocab-llama-spm.gguf.inp"), "\n__ggml_vocab_test__\n");
  const auto lines = split(read_file(folder / "ggml-vocab-llama-spm.gguf.out"), "\n");
  ASSERT_EQ(texts.size(), lines.size());
  ASSERT_GT(texts.size(), 40u);
  for (size_t i = 0; i < texts.size(); ++i) {
    std::string line;
    for (const int32_t id : encode_all(tokenizer, texts[i])) line += " " + std::to_string(id);
    EXPECT_EQ(line, lines[i]) << texts[i];
  }
}

class PiCases : public testing::TestWithParam<const char*> {};

TEST_P(PiCases, have_the_recorded_text_and_prefix_ids) {
  const auto folder = shared_dir() / "golden" / GetParam();
  if (shared_dir().empty()) GTEST_SKIP() << "no shared test data: set OUTRIDER_SHARED";
  const Json meta = read_json(folder / "meta.json");
  std::string why;
  const auto path = made_model(arguments_of(meta.find("policy")->find("make_gguf")->text()), &why);
  if (path.empty()) GTEST_SKIP() << why;
  const SpmTokenizer tokenizer = tokenizer_of(path);

  const std::string& prompt = meta.find("prompt")->text();
  SpmTokenizer::Scratch scratch(4096);
  std::vector<int32_t> ids(512);
  SpmTokenizer::Encoded encoded;
  if (meta.find("kind")->text() == "pi0") {
    encoded = encode_pi0(tokenizer, prompt, scratch, ids);
  } else {
    // At most eight numbers; zeros for a missing state.
    std::vector<float> state(meta.find("state")->is_null() ? kPi05TextStates : 0);
    for (const Json& value : meta.find("state")->items())
      if (state.size() < kPi05TextStates) state.push_back(static_cast<float>(value.number()));
    char text[1024];
    const size_t n = write_pi05_text(prompt, state, StateBins::kJetsonPi, text);
    EXPECT_EQ(std::string_view(text, n), meta.find("full_text")->text());
    encoded = encode_pi05(tokenizer, {text, n}, scratch, ids);
  }
  EXPECT_EQ(encoded.code, Code::kOk);
  ids.resize(encoded.n_ids);
  EXPECT_EQ(ids, int_list(*meta.find("prefix_text_tokens")));
}
INSTANTIATE_TEST_SUITE_P(, PiCases,
                         testing::Values("pi0_two_views", "pi0_one_view_no_state_f16",
                                         "pi05_two_views", "pi05_resize_one_view",
                                         "pi05_three_views_f16", "pi05_padded_state_q8"));

}  // namespace
}  // namespace outrider::text_test
