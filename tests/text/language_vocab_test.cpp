// Vocabularies that contradict themselves, or ask for what this build does not do, are refused by
// name; what files leave out has the format's defaults.
#include <gtest/gtest.h>

#include <cstring>

#include "fixtures.h"
#include "gguf/gguf.h"
#include "language_fixtures.h"
#include "text/byte_letters.h"

namespace outrider::text_test {
namespace {

// A GGUF file of metadata only.
class Metadata {
 public:
  Metadata& text(std::string_view key, std::string_view value) {
    begin(key, GgufType::kString);
    put_text(value);
    return *this;
  }
  template <class T>
  Metadata& scalar(std::string_view key, GgufType type, T value) {
    begin(key, type);
    put(value);
    return *this;
  }
  Metadata& texts(std::string_view key, const std::vector<std::string>& values) {
    begin(key, GgufType::kArray);
    put(static_cast<uint32_t>(GgufType::kString));
    put(uint64_t{values.size()});
    for (const std::string& value : values) put_text(value);
    return *this;
  }
  Metadata& types(std::string_view key, const std::vector<int32_t>& values) {
    begin(key, GgufType::kArray);
    put(static_cast<uint32_t>(GgufType::kI32));
    put(uint64_t{values.size()});
    for (const int32_t value : values) put(value);
    return *this;
  }
  Result<LanguageTokenizer> load() const {
    std::string file = "GGUF";
    const auto add = [&](auto value) {
      file.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    add(uint32_t{3});
    add(uint64_t{0});
    add(n_keys_);
    file += body_;
    file.resize((file.size() + 31) / 32 * 32);
    const auto parsed = GgufFile::parse(std::as_bytes(std::span(file)), "model.gguf");
    EXPECT_TRUE(parsed) << parsed.error().message();
    return LanguageTokenizer::from_gguf(parsed.value());
  }

 private:
  void begin(std::string_view key, GgufType type) {
    ++n_keys_;
    put_text(key);
    put(static_cast<uint32_t>(type));
  }
  template <class T>
  void put(T value) {
    body_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_text(std::string_view text) {
    put(uint64_t{text.size()});
    body_ += text;
  }
  std::string body_;
  uint64_t n_keys_ = 0;
};

std::vector<std::string> byte_pieces_with(const std::vector<std::string>& more) {
  const ByteLetters letters;
  std::vector<std::string> pieces;
  for (int b = 0; b < 256; ++b) pieces.emplace_back(letters.letter(static_cast<uint8_t>(b)));
  pieces.insert(pieces.end(), more.begin(), more.end());
  return pieces;
}

Metadata bpe(const std::vector<std::string>& more = {}, const std::string& pre = "gpt-2",
             const std::vector<std::string>& merges = {}) {
  Metadata file;
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  file.texts("tokenizer.ggml.tokens", byte_pieces_with(more))
      .texts("tokenizer.ggml.merges", merges);
  return file;
}

std::string refusal(const Result<LanguageTokenizer>& made, Code code) {
  EXPECT_FALSE(made);
  EXPECT_EQ(made.code(), code) << made.error().message();
  return std::string(made.error().message());
}

bool names(const std::string& message, std::string_view what) {
  return message.find(what) != std::string::npos;
}

TEST(LanguageVocabGguf, has_the_defaults_of_the_format) {
  const auto made = bpe().load();
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made.value().bos(), 11);
  EXPECT_EQ(made.value().eos(), 11);
  EXPECT_FALSE(made.value().add_bos());
  EXPECT_TRUE(made.value().ends_generation(11));
  EXPECT_EQ(made.value().chat_template(), "");
  const auto llama3 = bpe({}, "llama-bpe").load();
  ASSERT_TRUE(llama3);
  EXPECT_TRUE(llama3.value().add_bos());
  Metadata no_pre;
  no_pre.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", byte_pieces_with({}));
  no_pre.texts("tokenizer.ggml.merges", {});
  ASSERT_TRUE(no_pre.load());
}

TEST(LanguageVocabGguf, takes_what_the_keys_say) {
  auto file = bpe({"<|im_start|>", "<|im_end|>", "<tool>", "gone"});
  std::vector<int32_t> types(260, 1);
  types[256] = types[257] = 3, types[258] = 4, types[259] = 5;
  file.types("tokenizer.ggml.token_type", types);
  file.scalar("tokenizer.ggml.bos_token_id", GgufType::kU32, uint32_t{256});
  file.scalar("tokenizer.ggml.eos_token_id", GgufType::kU16, uint16_t{7});
  file.scalar("tokenizer.ggml.eot_token_id", GgufType::kI64, int64_t{9});
  file.scalar("tokenizer.ggml.add_bos_token", GgufType::kBool, uint8_t{1});
  file.text("tokenizer.chat_template", "T").texts("tokenizer.chat_templates", {"tool_use", "lost"});
  file.text("tokenizer.chat_template.tool_use", "U");
  const auto made = file.load();
  ASSERT_TRUE(made) << made.error().message();
  const LanguageTokenizer& t = made.value();
  EXPECT_EQ(t.bos(), 256);
  const std::vector<int32_t> ends(t.end_ids().begin(), t.end_ids().end());
  EXPECT_EQ(ends, (std::vector<int32_t>{7, 9, 257}));  // eos, eot, <|im_end|> by its text
  EXPECT_EQ(t.chat_template(), "T");
  EXPECT_EQ(t.chat_template("tool_use"), "U");
  EXPECT_EQ(t.chat_template("lost"), "");
  EXPECT_EQ(t.bytes(256), "<|im_start|>");
  EXPECT_EQ(t.bytes(256, false), "");
  EXPECT_EQ(t.bytes(258, false), "<tool>");
  EXPECT_EQ(t.bytes(259), "");
  EXPECT_EQ(t.bytes(-1), "");
  EXPECT_EQ(t.bytes(260), "");
  EXPECT_EQ(
      t.encode("a<|im_end|><tool>", {.add_special = true, .parse_special = false}).value(),
      (std::vector<int32_t>{256, 'a', '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>', 258}));
}

TEST(LanguageVocabGguf, ends_a_part_with_end_where_a_message_ends_otherwise) {
  const auto with = bpe({"<|end|>", "<|return|>", "<|call|>"}).load();
  ASSERT_TRUE(with);
  EXPECT_FALSE(with.value().ends_generation(256));
  EXPECT_TRUE(with.value().ends_generation(257));
  EXPECT_TRUE(bpe({"<|end|>", "<|return|>"}).load().value().ends_generation(256));
}

TEST(LanguageVocabGguf, refuses_by_name) {
  EXPECT_TRUE(names(refusal(bpe({}, "martian").load(), Code::kUnsupported), "\"martian\""));
  Metadata model;
  model.text("tokenizer.ggml.model", "bert");
  EXPECT_TRUE(names(refusal(model.load(), Code::kUnsupported), "\"bert\""));
  EXPECT_TRUE(names(refusal(Metadata().load(), Code::kNotFound), "tokenizer.ggml.model"));
  for (const char* merge : {"ab", "", "a ", " ", "abc"})
    EXPECT_TRUE(
        names(refusal(bpe({}, "gpt-2", {"a b", merge}).load(), Code::kNotFound), "number 1"))
        << merge;
  EXPECT_TRUE(names(refusal(bpe({"a"}).load(), Code::kNotFound), "the same text"));
  EXPECT_TRUE(names(refusal(bpe({"\xFF"}).load(), Code::kNotFound), "piece 256"));
  EXPECT_TRUE(names(refusal(bpe({std::string(5000, 'x')}).load(), Code::kUnsupported), "5000"));
  auto types = bpe();
  types.types("tokenizer.ggml.token_type", {1, 2});
  EXPECT_TRUE(names(refusal(types.load(), Code::kNotFound), "token_type has 2"));
  auto bad_type = bpe();
  bad_type.types("tokenizer.ggml.token_type", std::vector<int32_t>(256, 9));
  EXPECT_TRUE(names(refusal(bad_type.load(), Code::kNotFound), "type 9"));
  auto id = bpe();
  id.scalar("tokenizer.ggml.eot_token_id", GgufType::kU32, uint32_t{256});
  EXPECT_TRUE(names(refusal(id.load(), Code::kNotFound), "eot_token_id"));
}

TEST(LanguageVocabGguf, a_merge_may_begin_with_a_blank_and_know_texts_that_are_no_pieces) {
  // "x y" joins into a text that is no piece: its characters come out.
  const auto made = bpe({"zz"}, "gpt-2", {"x y", "z z", "xy z"}).load();
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made.value().encode("xyzz", {}).value(), (std::vector<int32_t>{'x', 'y', 256}));
}

std::string with(const std::string& from, const std::string& to) {
  std::string json = byte_bpe_json({"ab"});
  const size_t at = json.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return json.replace(at, from.size(), to);
}
std::string refused(const std::string& json, Code code, const std::string& config = "") {
  return refusal(LanguageTokenizer::from_json(json, config, "t.json"), code);
}

TEST(LanguageVocabJson, refuses_what_it_does_not_do_exactly) {
  const std::string normalizer = "\"normalizer\":null";
  const std::string pre = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}";
  for (const auto& [json, what] : std::vector<std::pair<std::string, std::string>>{
           {with(normalizer, "\"normalizer\":{\"type\":\"Lowercase\"}"), "Lowercase"},
           {with(normalizer,
                 "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"}]}"),
            "NFKC"},
           {with(pre, "{\"type\":\"ByteLevel\"}"), "add_prefix_space"},
           {with(pre, "{\"type\":\"Whitespace\"}"), "Whitespace"},
           {with(pre,
                 "{\"type\":\"Sequence\",\"pretokenizers\":[" + pre + ",{\"type\":\"Digits\"}]}"),
            "behind ByteLevel"},
           {with(pre,
                 "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{"
                 "\"Regex\":\"a\"},"
                 "\"behavior\":\"MergedWithNext\"}," +
                     pre + "]}"),
            "MergedWithNext"},
           {with(pre,
                 "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{"
                 "\"Regex\":\"(?<=a)\"},"
                 "\"behavior\":\"Isolated\"}," +
                     pre + "]}"),
            "split pattern"},
           {with("\"type\":\"BPE\"", "\"type\":\"WordPiece\""), "WordPiece"},
           {with("\"type\":\"BPE\"", "\"type\":\"BPE\",\"dropout\":0.1"), "dropout"},
           {with("\"type\":\"BPE\"", "\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\""),
            "end_of_word_suffix"},
           {with("\"special\":true", "\"special\":true,\"single_word\":true"), "single_word"},
           {with("\"type\":\"TemplateProcessing\"", "\"type\":\"RobertaProcessing\""),
            "RobertaProcessing"}})
    EXPECT_TRUE(names(refused(json, Code::kUnsupported), what)) << what;
}

TEST(LanguageVocabJson, refuses_what_contradicts_itself) {
  EXPECT_TRUE(names(refused("{", Code::kInvalid), "t.json"));
  EXPECT_TRUE(names(refused("{}", Code::kNotFound), "model"));
  EXPECT_TRUE(names(refused("[]", Code::kNotFound), "model"));
  EXPECT_TRUE(names(refused(with("\"merges\":[", "\"merges\":[7,"), Code::kNotFound), "number 0"));
  EXPECT_TRUE(
      names(refused(with("\"merges\":[", "\"merges\":[\"ab\","), Code::kNotFound), "number 0"));
  EXPECT_TRUE(names(refused(with("\"a\":97", "\"a\":98"), Code::kNotFound), "id 98"));
  EXPECT_TRUE(names(refused(with("\"a\":97", "\"a\":-1"), Code::kNotFound), "-1"));
  EXPECT_TRUE(names(refused(with("\"a\":97", "\"a\":99999999"), Code::kNotFound), "99999999"));
  EXPECT_TRUE(names(refused(with("\"a\":97", "\"a\":1.5"), Code::kNotFound), "integer"));
  EXPECT_TRUE(
      names(refused(with("\"id\":\"<|begin|>\"", "\"id\":\"<nope>\""), Code::kNotFound), "lacks"));
  EXPECT_TRUE(
      names(refused(byte_bpe_json(), Code::kNotFound, "{\"eos_token\":\"<nope>\"}"), "<nope>"));
  EXPECT_TRUE(names(refused(byte_bpe_json(), Code::kInvalid, "{"), "tokenizer_config.json"));
  EXPECT_TRUE(names(
      refused("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", Code::kNotFound), "score"));
  EXPECT_TRUE(
      names(refused("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",1]]}}", Code::kNotFound),
            "unknown"));
  EXPECT_TRUE(names(refused("{\"model\":{\"type\":\"Unigram\",\"unk_id\":4,\"vocab\":[[\"a\",1]]}}",
                            Code::kNotFound),
                    "unk_id"));
  EXPECT_TRUE(names(
      refused(
          "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0},\"merges\":[]}}",
          Code::kNotFound),
      "<0x00>"));
}

TEST(LanguageVocabJson, reads_both_ways_of_naming_pieces_and_templates) {
  const auto made = LanguageTokenizer::from_json(
      byte_bpe_json(),
      R"({"eos_token":{"content":"<|end|>"},"pad_token":"<|user|>","bos_token":null,"chat_template":[
          {"name":"default","template":"D"},{"name":"rag","template":"R"}]})",
      "t.json");
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made.value().eos(), made.value().find("<|end|>"));
  EXPECT_EQ(made.value().pad(), made.value().find("<|user|>"));
  EXPECT_EQ(made.value().chat_template(), "D");
  EXPECT_EQ(made.value().chat_template("rag"), "R");
  EXPECT_TRUE(made.value().add_bos());
}

TEST(LanguageVocabJson, cut_off_anywhere_is_refused) {
  const std::string json = byte_bpe_json({"ab"});
  for (size_t n = 0; n < json.size(); n += 1 + n / 40)
    EXPECT_FALSE(LanguageTokenizer::from_json(json.substr(0, n), "", "t.json")) << n;
}

}  // namespace
}  // namespace outrider::text_test
