// Vocabularies as a GGUF file states them, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "fixtures.h"
#include "gguf/gguf.h"

namespace outrider::text_test {
namespace {

// Just enough of a GGUF file to hold metadata, written byte by byte so that it can be wrong.
class Metadata {
 public:
  void raw(const std::string& key, GgufType type, const std::string& payload) {
    put_string(body_, key);
    put(body_, static_cast<uint32_t>(type));
    body_ += payload;
    ++n_keys_;
  }
  void text(const std::string& key, std::string_view value) {
    std::string payload;
    put_string(payload, value);
    raw(key, GgufType::kString, payload);
  }
  void flag(const std::string& key, bool value) {
    raw(key, GgufType::kBool, std::string(1, static_cast<char>(value)));
  }
  template <class T>
  void scalar(const std::string& key, GgufType type, T value) {
    std::string payload;
    put(payload, value);
    raw(key, type, payload);
  }
  template <class T>
  void array(const std::string& key, GgufType element, const std::vector<T>& values) {
    std::string payload;
    put(payload, static_cast<uint32_t>(element));
    put(payload, static_cast<uint64_t>(values.size()));
    for (const T& value : values) {
      if constexpr (std::is_same_v<T, std::string>) {
        put_string(payload, value);
      } else {
        put(payload, value);
      }
    }
    raw(key, GgufType::kArray, payload);
  }
  std::string bytes() const {
    std::string file = "GGUF";
    put(file, uint32_t{3});
    put(file, uint64_t{0});
    put(file, n_keys_);
    file += body_;
    file.resize((file.size() + 31) / 32 * 32);
    return file;
  }

 private:
  template <class T>
  static void put(std::string& out, T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out.append(bytes, sizeof(T));
  }
  static void put_string(std::string& out, std::string_view text) {
    put(out, static_cast<uint64_t>(text.size()));
    out += text;
  }
  std::string body_;
  uint64_t n_keys_ = 0;
};

// The vocabulary keys of a file; a test changes what it wants before `bytes`.
struct VocabFile {
  std::string model = "llama";
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  std::function<void(Metadata&)> more = [](Metadata&) {};
  bool with_scores = true, with_types = true;

  explicit VocabFile(const SpmVocab& vocab) {
    for (const Piece& piece : vocab.pieces) {
      tokens.push_back(piece.text);
      scores.push_back(piece.score);
      types.push_back(static_cast<int32_t>(piece.type));
    }
  }
  Result<SpmTokenizer> load() const {
    Metadata metadata;
    metadata.text("general.architecture", "pi0");
    metadata.text("tokenizer.ggml.model", model);
    metadata.array("tokenizer.ggml.tokens", GgufType::kString, tokens);
    if (with_scores) metadata.array("tokenizer.ggml.scores", GgufType::kF32, scores);
    if (with_types) metadata.array("tokenizer.ggml.token_type", GgufType::kI32, types);
    more(metadata);
    const std::string bytes = metadata.bytes();
    const auto file = GgufFile::parse(std::as_bytes(std::span(bytes)), "vocab.gguf");
    EXPECT_TRUE(file) << file.error().message();
    return SpmTokenizer::from_gguf(file.value());
  }
  std::string refusal(Code wanted) const {
    const auto tokenizer = load();
    EXPECT_FALSE(tokenizer);
    EXPECT_EQ(tokenizer.code(), wanted);
    EXPECT_NE(tokenizer.error().message().find("vocab.gguf"), std::string::npos);
    return std::string(tokenizer.error().message());
  }
};

bool names(const std::string& message, std::string_view what) {
  return message.find(what) != std::string::npos;
}

TEST(GgufVocabulary, takes_the_defaults_of_the_format_for_absent_keys) {
  const auto tokenizer = VocabFile(policy_vocab()).load();
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  const SpmVocab& vocab = tokenizer.value().vocab();
  EXPECT_EQ(vocab.bos, 1);
  EXPECT_EQ(vocab.eos, 2);
  EXPECT_EQ(vocab.unk, 0);
  EXPECT_EQ(vocab.pad, -1);
  EXPECT_TRUE(vocab.add_bos);
  EXPECT_FALSE(vocab.add_eos);
  EXPECT_TRUE(vocab.add_space_prefix);
  const SpmVocab wanted = policy_vocab();
  ASSERT_EQ(vocab.pieces.size(), wanted.pieces.size());
  for (size_t i = 0; i < wanted.pieces.size(); ++i) {
    EXPECT_EQ(vocab.pieces[i].text, wanted.pieces[i].text);
    EXPECT_EQ(vocab.pieces[i].score, wanted.pieces[i].score);
    EXPECT_EQ(vocab.pieces[i].type, wanted.pieces[i].type);
  }
}

TEST(GgufVocabulary, takes_the_values_of_present_keys_in_any_integer_width) {
  VocabFile file(policy_vocab());
  file.more = [](Metadata& m) {
    m.scalar("tokenizer.ggml.bos_token_id", GgufType::kU32, uint32_t{2});
    m.scalar("tokenizer.ggml.eos_token_id", GgufType::kU8, uint8_t{1});
    m.scalar("tokenizer.ggml.unknown_token_id", GgufType::kI64, int64_t{3});
    m.scalar("tokenizer.ggml.padding_token_id", GgufType::kU16, uint16_t{0});
    m.flag("tokenizer.ggml.add_bos_token", false);
    m.flag("tokenizer.ggml.add_eos_token", true);
    m.flag("tokenizer.ggml.add_space_prefix", false);
  };
  const auto tokenizer = file.load();
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  const SpmVocab& vocab = tokenizer.value().vocab();
  EXPECT_EQ(vocab.bos, 2);
  EXPECT_EQ(vocab.eos, 1);
  EXPECT_EQ(vocab.unk, 3);
  EXPECT_EQ(vocab.pad, 0);
  EXPECT_FALSE(vocab.add_bos);
  EXPECT_TRUE(vocab.add_eos);
  EXPECT_FALSE(vocab.add_space_prefix);
  EXPECT_EQ(encode_all(tokenizer.value(), "up"), encode_all(policy_tokenizer(), "up"));
}

TEST(GgufVocabulary, of_another_tokenizer_model_is_unsupported_and_named) {
  VocabFile file(policy_vocab());
  for (const char* model : {"gpt2", "bert", "t5", "", "LLAMA"}) {
    file.model = model;
    const std::string message = file.refusal(Code::kUnsupported);
    EXPECT_TRUE(names(message, "\"" + std::string(model) + "\"")) << message;
    EXPECT_TRUE(names(message, "\"llama\"")) << message;
  }
  file.model = std::string(100, 'x') + "\n\x1B[31m";
  EXPECT_TRUE(names(file.refusal(Code::kUnsupported), "\"" + std::string(32, 'x') + "\""));
}

TEST(GgufVocabulary, with_arrays_missing_or_of_other_lengths_is_refused_naming_the_key) {
  VocabFile file(policy_vocab());
  file.with_scores = false;
  EXPECT_TRUE(names(file.refusal(Code::kNotFound), "tokenizer.ggml.scores"));
  file.with_scores = true;
  file.with_types = false;
  EXPECT_TRUE(names(file.refusal(Code::kNotFound), "tokenizer.ggml.token_type"));
  file.with_types = true;
  file.scores.pop_back();
  EXPECT_TRUE(names(file.refusal(Code::kNotFound), "tokenizer.ggml.scores has"));
  file.scores.push_back(0);
  file.types.push_back(1);
  EXPECT_TRUE(names(file.refusal(Code::kNotFound), "tokenizer.ggml.token_type has"));
}

TEST(GgufVocabulary, with_a_type_or_score_or_text_out_of_range_is_refused_naming_the_piece) {
  for (const int32_t bad : {0, 7, -1, 257, INT32_MAX}) {
    VocabFile file(policy_vocab());
    file.types[37] = bad;
    EXPECT_TRUE(names(file.refusal(Code::kNotFound), "piece 37 has type")) << bad;
  }
  VocabFile scores(policy_vocab());
  scores.scores[38] = std::nanf("");
  EXPECT_TRUE(names(scores.refusal(Code::kNotFound), "scores: piece 38"));
  VocabFile twice(policy_vocab());
  twice.tokens[39] = twice.tokens[400];
  EXPECT_TRUE(names(twice.refusal(Code::kNotFound), "pieces 39 and 400"));
}

TEST(GgufVocabulary, with_an_id_out_of_range_or_of_another_type_is_refused_naming_the_key) {
  const VocabFile good(policy_vocab());
  const auto n = static_cast<uint32_t>(good.tokens.size());
  for (const char* name : {"bos", "eos", "unknown", "padding"}) {
    const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
    for (const uint32_t bad : {n, UINT32_MAX}) {
      VocabFile file = good;
      file.more = [&](Metadata& m) { m.scalar(key, GgufType::kU32, bad); };
      EXPECT_TRUE(names(file.refusal(Code::kNotFound), key)) << bad;
    }
    VocabFile negative = good;
    negative.more = [&](Metadata& m) { m.scalar(key, GgufType::kI32, int32_t{-1}); };
    EXPECT_TRUE(names(negative.refusal(Code::kNotFound), key));
    VocabFile text = good;
    text.more = [&](Metadata& m) { m.text(key, "2"); };
    EXPECT_TRUE(names(text.refusal(Code::kNotFound), key));
  }
}

TEST(GgufVocabulary, without_any_vocabulary_key_is_refused) {
  Metadata metadata;
  metadata.text("general.architecture", "clip");
  const std::string bytes = metadata.bytes();
  const auto file = GgufFile::parse(std::as_bytes(std::span(bytes)), "vision.gguf");
  ASSERT_TRUE(file) << file.error().message();
  const auto tokenizer = SpmTokenizer::from_gguf(file.value());
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.code(), Code::kNotFound);
  EXPECT_TRUE(names(std::string(tokenizer.error().message()), "tokenizer.ggml.model"));

  VocabFile empty(policy_vocab());
  empty.tokens.clear();
  empty.scores.clear();
  empty.types.clear();
  EXPECT_TRUE(names(empty.refusal(Code::kNotFound), "tokenizer.ggml.tokens"));
}

}  // namespace
}  // namespace outrider::text_test
