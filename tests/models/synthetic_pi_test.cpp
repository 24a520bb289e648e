#include "models/synthetic_pi.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "gguf/gguf.h"
#include "models/pi_gguf.h"
#include "models/synthetic_vocab.h"
#include "support/temp_dir.h"
#include "text/pi_prompt.h"
#include "text/tokenizer.h"

namespace outrider {
namespace {

namespace fs = std::filesystem;

constexpr PiFamily kFamilies[] = {PiFamily::kPi0, PiFamily::kPi05};
constexpr DType kTypes[] = {DType::kF32,  DType::kF16,  DType::kBf16, DType::kQ8_0,
                            DType::kQ4_0, DType::kQ4_K, DType::kQ6_K};

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class SyntheticPiTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return (folder_ / name).string(); }
  Result<void> write(const SyntheticPi& what) const {
    return write_synthetic_pi(what, path("policy").c_str(), path("vision").c_str());
  }
  size_t n_files() const {
    return size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  test::TempDir temp_;
  fs::path folder_ = temp_.path();
};

TEST_F(SyntheticPiTest, a_tiny_pair_of_every_type_opens_with_the_promised_sizes) {
  for (const PiFamily family : kFamilies)
    for (const DType dtype : kTypes) {
      SCOPED_TRACE(std::string(pi_family_name(family)) + " " + dtype_info(dtype).name.data());
      const SyntheticPi what{family, false, dtype, 5};
      ASSERT_TRUE(write(what));
      EXPECT_LT(fs::file_size(path("policy")), 1000000u);
      EXPECT_LT(fs::file_size(path("vision")), 1000000u);
      auto policy = GgufFile::open(path("policy").c_str());
      auto vision = GgufFile::open(path("vision").c_str());
      ASSERT_TRUE(policy && vision);
      auto weights = read_pi_gguf(policy.value(), vision.value());
      ASSERT_TRUE(weights) << weights.error().text;
      const PiConfig& got = weights.value().config;
      const PiConfig want = synthetic_pi_config(what);
      EXPECT_EQ(got.family, family);
      EXPECT_EQ(got.vocab, want.vocab);
      EXPECT_EQ(got.action_dim, family == PiFamily::kPi0 ? 7 : 8);
      EXPECT_EQ(got.action_steps, 10);
      EXPECT_EQ(got.vision.width, want.vision.width);
      EXPECT_EQ(got.vision.n_tokens(), 16);
      EXPECT_EQ(got.vision.use_gelu, family == PiFamily::kPi0);
      EXPECT_NE(got.vision.head_dim() % 16, 0);
      EXPECT_EQ(got.backbone.n_kv_heads, 1);
      EXPECT_EQ(got.expert.mlp, want.expert.mlp);
      // The type asked for is really in use somewhere.
      const GgufTensor* down = policy.value().tensor("blk.2.ffn_down.weight");
      ASSERT_NE(down, nullptr);
      EXPECT_EQ(down->dtype, dtype);
    }
}

TEST_F(SyntheticPiTest, both_halves_say_which_family_they_are) {
  for (const PiFamily family : kFamilies) {
    ASSERT_TRUE(write({family, false, DType::kF16, 1}));
    auto policy = GgufFile::open(path("policy").c_str());
    auto vision = GgufFile::open(path("vision").c_str());
    ASSERT_TRUE(policy && vision);
    EXPECT_EQ(guess_policy_family(policy.value()).family, family);
    EXPECT_EQ(guess_vision_family(vision.value()).family, family);
  }
}

TEST_F(SyntheticPiTest, the_same_seed_gives_the_same_bytes) {
  for (const PiFamily family : kFamilies) {
    ASSERT_TRUE(write({family, false, DType::kQ8_0, 7}));
    const std::string policy = content(path("policy")), vision = content(path("vision"));
    ASSERT_TRUE(write({family, false, DType::kQ8_0, 7}));
    EXPECT_TRUE(policy == content(path("policy")));
    EXPECT_TRUE(vision == content(path("vision")));
    ASSERT_TRUE(write({family, false, DType::kQ8_0, 8}));
    EXPECT_FALSE(policy == content(path("policy")));
    EXPECT_FALSE(vision == content(path("vision")));
  }
}

// Deviation of a matrix is gain / sqrt(n_in) with gain 0.3..1.5; the mean of n draws stays within
// five of its own deviations.
TEST_F(SyntheticPiTest, values_are_spread_as_promised) {
  ASSERT_TRUE(write({PiFamily::kPi05, false, DType::kF32, 3}));
  for (const char* name : {"policy", "vision"}) {
    auto file = GgufFile::open(path(name).c_str());
    ASSERT_TRUE(file);
    for (const GgufTensor& t : file.value().tensors()) {
      std::vector<float> x(size_t(t.n_values()));
      dequantize_row(t.dtype, t.data, x.data(), t.n_values());
      double sum = 0, squares = 0;
      for (const float v : x) {
        ASSERT_TRUE(std::isfinite(v)) << t.name;
        sum += v, squares += double(v) * v;
      }
      if (t.n_dims != 2 || t.name == "v.position_embd.weight" || t.name == "v.head.probe") continue;
      const double n = double(x.size()), deviation = std::sqrt(squares / n);
      const double gain = deviation * std::sqrt(double(t.ne[0]));
      EXPECT_GT(gain, 0.25) << t.name;
      EXPECT_LT(gain, 1.6) << t.name;
      EXPECT_LT(std::fabs(sum / n), 5 * deviation / std::sqrt(n)) << t.name;
    }
  }
}

TEST_F(SyntheticPiTest, no_two_tensors_and_no_two_rows_are_alike) {
  ASSERT_TRUE(write({PiFamily::kPi0, false, DType::kF32, 3}));
  auto file = GgufFile::open(path("policy").c_str());
  ASSERT_TRUE(file);
  std::set<std::string_view> rows;
  for (const GgufTensor& t : file.value().tensors()) {
    const size_t each = row_bytes(t.dtype, t.ne[0]);
    for (size_t at = 0; at < t.n_bytes; at += each) {
      const std::string_view row(reinterpret_cast<const char*>(t.data) + at, each);
      EXPECT_TRUE(rows.insert(row).second) << t.name << " row " << at / each;
    }
  }
}

TEST_F(SyntheticPiTest, a_row_that_no_block_divides_falls_back_to_f16) {
  ASSERT_TRUE(write({PiFamily::kPi05, false, DType::kQ4_K, 3}));
  auto file = GgufFile::open(path("policy").c_str());
  ASSERT_TRUE(file);
  EXPECT_EQ(file.value().tensor("blk.2.ffn_down.weight")->dtype, DType::kQ4_K);  // rows of 256
  EXPECT_EQ(file.value().tensor("blk.0.ffn_down.weight")->dtype, DType::kF16);   // rows of 128
  EXPECT_EQ(file.value().tensor("time_mlp_in.weight")->dtype, DType::kF32);
}

TEST_F(SyntheticPiTest, full_sizes_are_those_of_the_base_checkpoints) {
  const PiConfig c = synthetic_pi_config({PiFamily::kPi05, true, DType::kBf16, 1});
  EXPECT_EQ(c.vocab, 257152);
  EXPECT_EQ(c.backbone.width, 2048);
  EXPECT_EQ(c.backbone.mlp, 16384);
  EXPECT_EQ(c.backbone.n_layers, 18);
  EXPECT_EQ(c.backbone.q_width(), 2048);
  EXPECT_EQ(c.backbone.kv_width(), 256);
  EXPECT_EQ(c.expert.width, 1024);
  EXPECT_EQ(c.expert.mlp, 4096);
  EXPECT_EQ(c.vision.n_tokens(), 256);
  EXPECT_EQ(c.vision.head_dim(), 72);
  EXPECT_EQ(c.vision.n_layers, 27);
  EXPECT_EQ(c.action_dim, 32);
  EXPECT_EQ(c.action_steps, 50);
}

TEST_F(SyntheticPiTest, what_cannot_be_written_is_refused) {
  EXPECT_EQ(write({PiFamily::kPi0, false, DType::kI32, 1}).code(), Code::kUnsupported);
  EXPECT_EQ(write_synthetic_pi({}, path("a").c_str(), path("a").c_str()).code(), Code::kInvalid);
  EXPECT_EQ(write_synthetic_pi({}, path("a").c_str(), path("no/b").c_str()).code(),
            Code::kNotFound);
  // The vision file was written already when the policy fails: it goes again.
  EXPECT_EQ(write_synthetic_pi({}, path("no/a").c_str(), path("b").c_str()).code(),
            Code::kNotFound);
  EXPECT_EQ(n_files(), 0u);
}

TEST(SyntheticVocab, has_the_ids_policies_depend_on) {
  const SpmVocab vocab = synthetic_vocab(1024);
  ASSERT_EQ(vocab.pieces.size(), 1024u);
  EXPECT_EQ(vocab.pieces[0].text, "<pad>");
  EXPECT_EQ(vocab.pieces[1].text, "<eos>");
  EXPECT_EQ(vocab.pieces[size_t(kPiBos)].text, "<bos>");
  EXPECT_EQ(vocab.pieces[3].type, PieceType::kUnknown);
  EXPECT_EQ(vocab.pieces[106].text, "<start_of_turn>");
  EXPECT_EQ(vocab.pieces[size_t(kPiNewline)].text, "\n");
  EXPECT_EQ(vocab.pieces[size_t(kPiNewline)].type, PieceType::kUserDefined);
  EXPECT_EQ(vocab.pieces[109].text, "<0x00>");
  EXPECT_EQ(vocab.pieces[109 + 255].text, "<0xFF>");
}

TEST(SyntheticVocab, every_size_has_unique_pieces_and_makes_a_tokenizer) {
  for (int64_t n : {kSyntheticVocabMin, kSyntheticVocabMin + 1, int64_t{1024}, int64_t{4096}}) {
    SpmVocab vocab = synthetic_vocab(n);
    EXPECT_EQ(int64_t(vocab.pieces.size()), n);
    std::set<std::string> texts;
    for (const Piece& piece : vocab.pieces)
      EXPECT_TRUE(texts.insert(piece.text).second) << piece.text;
    auto tokenizer = SpmTokenizer::from_vocab(std::move(vocab));
    EXPECT_TRUE(tokenizer) << tokenizer.error().text;
  }
}

TEST(SyntheticVocab, every_word_becomes_one_piece_where_there_is_room) {
  auto tokenizer = SpmTokenizer::from_vocab(synthetic_vocab(4096));
  ASSERT_TRUE(tokenizer);
  for (const std::string_view word : synthetic_words()) {
    const bool bare = word.front() == '=';
    const std::string text = bare ? std::string(word.substr(1)) : " " + std::string(word);
    auto ids = tokenizer.value().encode(text, {});
    ASSERT_TRUE(ids);
    EXPECT_EQ(ids.value().size(), 1u) << text;
    EXPECT_EQ(tokenizer.value().decode(ids.value()), text);
  }
}

TEST_F(SyntheticPiTest, the_written_vocabulary_splits_a_prompt_into_words_and_digits) {
  ASSERT_TRUE(write({PiFamily::kPi05, false, DType::kF16, 1}));
  auto file = GgufFile::open(path("policy").c_str());
  ASSERT_TRUE(file);
  auto tokenizer = SpmTokenizer::from_gguf(file.value());
  ASSERT_TRUE(tokenizer) << tokenizer.error().text;
  const std::string text = "Task: pick up the red block, State: 128 7;\nAction: ";
  auto ids = tokenizer.value().encode(text, {});
  ASSERT_TRUE(ids);
  // Task : _pick _up _the _red _block , _State : _ 1 2 8 _ 7 ; \n Action : _
  EXPECT_EQ(ids.value().size(), 21u);
  EXPECT_EQ(ids.value()[17], kPiNewline);
  EXPECT_EQ(tokenizer.value().decode(ids.value()), text);
  EXPECT_EQ(tokenizer.value().encode("\xC3\xA9", {}).value().size(), 2u);  // by bytes
}

}  // namespace
}  // namespace outrider
