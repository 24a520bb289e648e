// Whole vocabularies of published models against ids that another implementation gave for them:
// tests/text/vocabularies.sh fetches both.
#include <gtest/gtest.h>
#include <time.h>

#include <cstdlib>

#include "base/printable.h"
#include "fixtures.h"
#include "language_fixtures.h"

namespace outrider::text_test {
namespace {

class RealVocabulary : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = vocabulary_dir(GetParam());
    if (folder_.empty()) GTEST_SKIP() << "no vocabularies: run tests/text/vocabularies.sh";
  }
  LanguageTokenizer load() const {
    return from_json_text(read_file(folder_ / "tokenizer.json"),
                          read_file(folder_ / "tokenizer_config.json"));
  }
  std::filesystem::path folder_;
};

TEST_P(RealVocabulary, gives_the_ids_of_its_own_tokenizer) {
  const LanguageTokenizer tokenizer = load();
  const Json vectors = read_json(folder_ / "vectors.json");
  ASSERT_GT(vectors.items().size(), 300u);
  size_t n_wrong = 0;
  for (const Json& row : vectors.items()) {
    const std::string& text = row.find("text")->text();
    const auto ids = tokenizer.encode(text, {});
    ASSERT_TRUE(ids) << ids.error().message();
    if (ids.value() == int_list(*row.find("ids"))) continue;
    ++n_wrong;
    EXPECT_EQ(ids.value(), int_list(*row.find("ids"))) << testing::PrintToString(text);
    if (n_wrong > 5) FAIL() << "and more";
  }
}

TEST_P(RealVocabulary, loads_in_bounded_time) {
  const auto seconds = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  };
  const double start = seconds();
  const LanguageTokenizer tokenizer = load();
  const double loaded = seconds();
  std::string text;
  while (text.size() < 65536)
    text += "The robot picks up the red cup, 42 times; then \xE4\xBD\xA0\xE5\xA5\xBD!\n";
  LanguageTokenizer::Scratch scratch(tokenizer, text.size());
  std::vector<int32_t> ids(text.size());
  const double before = seconds();
  const auto encoded = tokenizer.encode(text, {}, scratch, ids);
  std::printf("%d pieces loaded in %.0f ms; 64 KiB: %zu ids in %.2f ms\n", tokenizer.n_pieces(),
              1e3 * (loaded - start), encoded.n_ids, 1e3 * (seconds() - before));
  EXPECT_EQ(encoded.code, Code::kOk);
  EXPECT_LT(loaded - start, 30);
}

INSTANTIATE_TEST_SUITE_P(, RealVocabulary,
                         testing::Values("llama3_1", "qwen3", "llama2", "deepseek_v3", "gpt4o"));

}  // namespace
}  // namespace outrider::text_test
