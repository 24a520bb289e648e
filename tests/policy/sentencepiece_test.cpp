// SentencePiece model files read directly: recorded ids, refusals in words, damage.
#include "text/sentencepiece.h"

#include <random>

#include "policy/support.h"

namespace outrider::policy_test {
namespace {

Result<SpmVocab> read(const std::string& bytes) {
  return read_sentencepiece(std::as_bytes(std::span(bytes)), "t.model");
}

TEST(SentencePiece, recorded_model_gives_the_recorded_pieces_and_ids) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-spm");
  const std::string bytes = read_file(folder + "/tiny.model");
  auto vocab = read(bytes);
  ASSERT_TRUE(vocab) << vocab.error().text;
  const Json meta = read_json(folder + "/meta.json");
  const auto& pieces = meta.find("pieces")->items();
  ASSERT_EQ(vocab.value().pieces.size(), pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(vocab.value().pieces[i].text, pieces[i].find("piece")->text());
    EXPECT_EQ(vocab.value().pieces[i].score, static_cast<float>(pieces[i].find("score")->number()));
  }
  EXPECT_EQ(vocab.value().bos, 2);
  EXPECT_EQ(vocab.value().eos, 1);
  EXPECT_EQ(vocab.value().unk, 3);
  EXPECT_EQ(vocab.value().pad, 0);
  EXPECT_FALSE(vocab.value().add_space_prefix);
  auto tokenizer = SpmTokenizer::from_sentencepiece(std::as_bytes(std::span(bytes)), "tiny.model");
  ASSERT_TRUE(tokenizer);
  for (const Json& sample : meta.find("cases")->items()) {
    auto ids = tokenizer.value().encode(sample.find("text")->text(), {.parse_special = false});
    ASSERT_TRUE(ids);
    EXPECT_EQ(ids.value(), ids_of(*sample.find("ids"))) << sample.find("text")->text();
  }
}

TEST(SentencePiece, ids_and_flags_are_taken) {
  ModelFile file = small_model_file();
  file.dummy_prefix = true;
  file.pad = -1;
  auto vocab = read(file.bytes());
  ASSERT_TRUE(vocab) << vocab.error().text;
  EXPECT_TRUE(vocab.value().add_space_prefix);
  EXPECT_EQ(vocab.value().pad, -1);
  EXPECT_EQ(vocab.value().pieces[4].type, PieceType::kUserDefined);
}

TEST(SentencePiece, refuses_what_it_would_tokenise_wrongly) {
  const auto refused = [](auto&& change, const char* says, Code code) {
    ModelFile file = small_model_file();
    change(file);
    const auto vocab = read(file.bytes());
    ASSERT_FALSE(vocab) << says;
    EXPECT_EQ(vocab.code(), code) << vocab.error().text;
    EXPECT_NE(vocab.error().message().find(says), std::string_view::npos) << vocab.error().text;
  };
  for (const uint64_t type : {0, 1, 3, 4, 99})
    refused([&](ModelFile& f) { f.model_type = type; }, "BPE", Code::kUnsupported);
  refused([](ModelFile& f) { f.squeeze = true; }, "remove_extra_whitespaces", Code::kUnsupported);
  refused([](ModelFile& f) { f.blank_behind = true; }, "treat_whitespace_as_suffix",
          Code::kUnsupported);
  refused([](ModelFile& f) { f.charsmap = "abc"; }, "\"identity\" rewrites", Code::kUnsupported);
  refused([](ModelFile& f) { f.bos = 100000; }, "bos_id is 100000", Code::kNotFound);
  refused([](ModelFile& f) { f.unk = -2; }, "unk_id is -2", Code::kNotFound);
  refused([](ModelFile& f) { f.pieces.clear(); }, "no pieces", Code::kNotFound);
}

TEST(SentencePiece, a_contradicting_vocabulary_is_refused_with_the_files_name) {
  ModelFile file = small_model_file();
  file.pieces[300].text = file.pieces[301].text;
  const std::string bytes = file.bytes();
  const auto made = SpmTokenizer::from_sentencepiece(std::as_bytes(std::span(bytes)), "t.model");
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("t.model"), std::string_view::npos);
}

TEST(SentencePiece, FC01_a_cut_file_never_gives_a_vocabulary) {
  ModelFile file = small_model_file();
  const std::string bytes = file.bytes();
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(read(bytes.substr(0, n))) << n << " of " << bytes.size();
}

TEST(SentencePiece, FC02_lengths_and_numbers_that_lie_are_refused) {
  const std::string rows[] = {
      std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11),  // 2^64 - 1 bytes
      std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11),  // more than 64 bits
      std::string("\x0a\x05\x0a\xff\xff\xff\x7f", 7),                   // longer than its message
      std::string("\x02\x00", 2),                                       // field 0
      std::string("\x0b\x00", 2),                                       // a group
      std::string("\x0f\x00", 2),                                       // no kind at all
      std::string("\x08\x05", 2),                                       // pieces as a number
      std::string("\x0a\x02\x18\x63", 4),                               // type 99
      std::string("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", 11),  // a tag without end
  };
  for (const std::string& row : rows) {
    const auto vocab = read(row);
    ASSERT_FALSE(vocab);
    EXPECT_EQ(vocab.code(), Code::kNotFound) << vocab.error().text;
  }
}

TEST(SentencePiece, random_damage_is_refused_or_harmless) {
  const std::string good = small_model_file().bytes();
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good;
    for (int k = 0; k < 1 + i % 4; ++k)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto made = SpmTokenizer::from_sentencepiece(std::as_bytes(std::span(bytes)), "t.model");
    if (made) (void)made.value().encode("pick up the red cup", {});
  }
}

}  // namespace
}  // namespace outrider::policy_test
