// PI0-FAST: its vocabulary of actions, and answers to chunks. FC-25.
#include "policy/fast_answer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "support/fast_folder.h"
#include "support/hot_counter.h"

namespace outrider {
namespace {

using test::FastSpec;
using Fault = FastAnswer::Fault;

ActionTokens tokens() {
  auto read = ActionTokens::read(test::fast_tokenizer_json(), test::fast_processor_json(), "fast");
  EXPECT_TRUE(read) << read.error().text;
  return std::move(read.value());
}

// Pieces one letter each, then 128 locations, then 128 segments: ids as in the folder's vocabulary.
SpmTokenizer text_vocabulary() {
  SpmVocab vocab;
  const char* first[] = {"<pad>", "<eos>", "<bos>", "<unk>"};
  for (const char* name : first)
    vocab.pieces.push_back({name, 0, name[1] == 'u' ? PieceType::kUnknown : PieceType::kControl});
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
    vocab.pieces.push_back({text, 0, PieceType::kByte});
  }
  vocab.pieces.push_back({"Action:\xE2\x96\x81", 0, PieceType::kUserDefined});
  vocab.pieces.push_back({"|", 0, PieceType::kNormal});
  vocab.pieces.push_back({"\xE2\x96\x81", 0, PieceType::kNormal});
  for (int i = 0; vocab.pieces.size() < 768; ++i)
    vocab.pieces.push_back({"<spare" + std::to_string(i) + ">", 0, PieceType::kUnused});
  for (int i = 0; i < 128; ++i)
    vocab.pieces.push_back({"<loc" + std::to_string(i) + ">", 0, PieceType::kUserDefined});
  for (int i = 0; i < 128; ++i)
    vocab.pieces.push_back({"<seg" + std::to_string(i) + ">", 0, PieceType::kUserDefined});
  vocab.bos = 2, vocab.eos = 1, vocab.unk = 3, vocab.pad = 0;
  vocab.add_space_prefix = false;
  auto made = SpmTokenizer::from_vocab(std::move(vocab));
  EXPECT_TRUE(made) << made.error().text;
  return std::move(made.value());
}
constexpr int32_t kCue = 260, kBar = 261, kBlank = 262, kEos = 1;

struct Reader {
  explicit Reader(int64_t rows, int64_t columns, FastAnswer::Rule rule = {})
      : answer(std::move(FastAnswer::make(text, vocabulary, rows, columns, 64, rule).value())),
        chunk(static_cast<size_t>(rows * columns), 7.0f) {}
  FastAnswer::Verdict read(const std::vector<int32_t>& ids) { return answer.read(ids, chunk); }
  // "Action: " by its ids, which are not the piece that holds all of it, then these.
  FastAnswer::Verdict read_behind_cue(const std::vector<int32_t>& rest) {
    std::vector<int32_t> ids = cue();
    ids.insert(ids.end(), rest.begin(), rest.end());
    return read(ids);
  }
  std::vector<int32_t> cue() const {
    return text.encode("Action: ", {.parse_special = false}).value();
  }
  // "Action: ", these action tokens, "|", end.
  FastAnswer::Verdict read_tokens(const std::vector<int>& wanted) {
    std::vector<int32_t> ids = cue();
    for (const int token : wanted) ids.push_back(test::kFastMostId - token);
    ids.push_back(kBar);
    ids.push_back(kEos);
    return read(ids);
  }
  SpmTokenizer text = text_vocabulary();
  ActionTokens vocabulary = tokens();
  FastAnswer answer;
  std::vector<float> chunk;
};

TEST(FastAnswer, has_the_worked_chunk) {
  // Columns (0.5, 0.4, 0.1, -0.2) and (-0.2, 0, 0.3, 0.5), rounded coefficients row by row.
  Reader reader(4, 2);
  std::vector<int> answer;
  for (const int c : {4, 3, 5, -5, -1, 0, 0, 0}) answer.push_back(c + 16);
  ASSERT_EQ(reader.read_tokens(answer).fault, Fault::kNone);
  const double wanted[] = {0.476641, -0.176641, 0.385299,  0.014701,
                           0.114701, 0.285299,  -0.176641, 0.476641};
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(reader.chunk[i], wanted[i], 6e-7) << i;
}

TEST(FastAnswer, undoes_the_orthonormal_transform_for_any_length) {
  for (const int64_t rows : {1, 2, 3, 10, 50}) {
    Reader reader(rows, 1);
    std::vector<int> answer;
    for (int64_t k = 0; k < rows; ++k) answer.push_back(static_cast<int>((k * 11 + 3) % 31));
    ASSERT_EQ(reader.read_tokens(answer).fault, Fault::kNone) << rows;
    // Forward again, DCT-II: the coefficients come back.
    for (int64_t k = 0; k < rows; ++k) {
      double sum = 0;
      for (int64_t t = 0; t < rows; ++t)
        sum += static_cast<double>(reader.chunk[static_cast<size_t>(t)]) *
               std::cos(std::numbers::pi * static_cast<double>(k * (2 * t + 1)) /
                        static_cast<double>(2 * rows));
      sum *= std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(rows));
      EXPECT_NEAR(sum * 10, answer[static_cast<size_t>(k)] - 16, 2e-5) << rows << " " << k;
    }
  }
}

TEST(FastAnswer, action_ids_descend_from_the_end_of_the_vocabulary) {
  Reader reader(1, 1);
  EXPECT_EQ(reader.answer.most_id(), 1024 - 1 - 128);
  EXPECT_EQ(reader.answer.least_id(), 1024 - 128 - 95);
  ASSERT_EQ(reader.read_tokens({20}).fault, Fault::kNone);
  EXPECT_FLOAT_EQ(reader.chunk[0], 0.4f);
}

TEST(FastAnswer, a_coefficient_may_be_spread_over_two_tokens) {
  Reader reader(1, 2);
  ASSERT_EQ(reader.read_tokens({92, 93, 16}).fault, Fault::kNone);
  EXPECT_FLOAT_EQ(reader.chunk[0], 18.4f);
  EXPECT_FLOAT_EQ(reader.chunk[1], 0);
  EXPECT_EQ(reader.read_tokens({92, 16, 16}).fault, Fault::kCharacter) << "half a character";
  EXPECT_EQ(reader.read_tokens({16, 92}).fault, Fault::kCharacter);
  EXPECT_EQ(reader.read_tokens({16, 94}).fault, Fault::kCharacter) << "no byte of any text";
  for (const float v : reader.chunk) EXPECT_EQ(v, 0) << "zeros after a fault";
}

TEST(FastAnswer, only_what_stands_between_the_cue_and_the_bar_counts) {
  Reader reader(1, 1);
  const int32_t one = test::kFastMostId - 17, two = test::kFastMostId - 18;
  EXPECT_EQ(reader.read({two, kCue, one, kBar, two, kEos}).fault, Fault::kNone);
  EXPECT_FLOAT_EQ(reader.chunk[0], 0.1f);
  EXPECT_EQ(reader.read({kCue, one, kCue, two, kBar}).fault, Fault::kNone) << "up to the next cue";
  EXPECT_FLOAT_EQ(reader.chunk[0], 0.1f);
  EXPECT_EQ(reader.read({kCue, kBlank, one, kBlank, kBar}).fault, Fault::kNone) << "trimmed";
  EXPECT_EQ(reader.read({kCue, one}).fault, Fault::kNone) << "no bar: to the end";
  EXPECT_EQ(reader.read({kCue, one, 0, kEos}).fault, Fault::kNone) << "control pieces are silent";
}

TEST(FastAnswer, what_is_no_chunk_is_named) {
  Reader reader(2, 2);
  EXPECT_EQ(reader.read({}).fault, Fault::kNoCue);
  EXPECT_EQ(reader.read({kBar, kEos}).fault, Fault::kNoCue);
  auto verdict = reader.read_tokens({16, 17, 18});
  EXPECT_EQ(verdict.fault, Fault::kCount);
  EXPECT_EQ(verdict.found, 3);
  verdict = reader.read_tokens({32});
  EXPECT_EQ(verdict.fault, Fault::kCount);
  EXPECT_EQ(verdict.found, 5) << "more than fit are counted, not stored";
  EXPECT_EQ(reader.read({kCue, kBar}).found, 0);
  for (const int32_t id : {test::kFastMostId + 1, test::kFastMostId - 95, kBlank}) {
    verdict = reader.read({kCue, test::kFastMostId - 16, id, test::kFastMostId - 16, kBar});
    EXPECT_EQ(verdict.fault, Fault::kNoAction) << id;
    EXPECT_EQ(verdict.at, 1) << id;
    EXPECT_EQ(verdict.found, id);
  }
  const int32_t lone = 4 + 0xC3;
  EXPECT_EQ(reader.read({kCue, lone, kBar}).fault, Fault::kText) << "a lone byte is no text";
}

// LeRobot reads ids: the cue comes first and is left out wherever it stands, the first bar ends it.
TEST(FastAnswer, lerobots_rule_reads_ids) {
  Reader reader(1, 2, {.lerobot = true});
  const int32_t one = test::kFastMostId - 17, two = test::kFastMostId - 18;
  EXPECT_EQ(reader.read_behind_cue({one, two, kBar, one, one}).fault, Fault::kNone);
  EXPECT_FLOAT_EQ(reader.chunk[0], 0.1f);
  EXPECT_FLOAT_EQ(reader.chunk[1], 0.2f);
  std::vector<int32_t> twice = {two};
  for (const int32_t id : reader.cue()) twice.push_back(id);
  twice.push_back(one);
  twice.push_back(kEos);
  EXPECT_EQ(reader.read_behind_cue(twice).fault, Fault::kNone) << "every cue goes";
  EXPECT_FLOAT_EQ(reader.chunk[0], 0.2f);
  twice.insert(twice.begin(), one);
  EXPECT_EQ(reader.read(twice).fault, Fault::kNoCue) << "not at the beginning";
  EXPECT_EQ(reader.read({}).fault, Fault::kNoCue);
  EXPECT_EQ(reader.read({kBar}).fault, Fault::kNoCue);
  const auto blank = reader.read_behind_cue({one, kBlank, two, kBar});
  EXPECT_EQ(blank.fault, Fault::kNoAction) << "nothing is trimmed";
  EXPECT_EQ(blank.at, 1);
  EXPECT_TRUE(reader.answer.ends(kBar));
  EXPECT_TRUE(reader.answer.ends(kEos));
  EXPECT_FALSE(Reader(1, 2).answer.ends(kBar)) << "openpi goes on to the end id";
}

TEST(FastAnswer, a_wrong_count_is_cut_or_filled_when_asked) {
  for (const bool lerobot : {false, true}) {
    Reader reader(1, 2, {.lerobot = lerobot, .fit = true});
    auto verdict = reader.read_tokens({20});
    EXPECT_EQ(verdict.fault, Fault::kCount) << "still said";
    EXPECT_FLOAT_EQ(reader.chunk[0], 0.4f);
    EXPECT_FLOAT_EQ(reader.chunk[1], 0);
    verdict = reader.read_tokens({20, 21, 22});
    EXPECT_EQ(verdict.found, 3);
    EXPECT_FLOAT_EQ(reader.chunk[0], 0.4f);
    EXPECT_FLOAT_EQ(reader.chunk[1], 0.5f);
    EXPECT_EQ(reader.read_tokens({20, 94}).fault, Fault::kCharacter);
    EXPECT_EQ(reader.chunk[0], 0) << "other faults leave zeros";
  }
}

TEST(FastAnswer, reading_takes_no_heap) {
  if (!test::hot_counter::available()) GTEST_SKIP() << "a sanitizer has its own allocator";
  Reader reader(10, 6);
  std::vector<int32_t> ids = {kCue};
  for (int token = 32; token < 44; ++token) ids.push_back(test::kFastMostId - token);
  ids.push_back(kBar);
  test::hot_counter::arm();
  bool good = true;
  for (int i = 0; i < 5; ++i) {
    good = good && reader.answer.read(ids, reader.chunk).fault == Fault::kNone;
    good = good && reader.answer.read(std::span(ids).first(4), reader.chunk).fault == Fault::kCount;
  }
  const auto counts = test::hot_counter::disarm();
  EXPECT_TRUE(good);
  EXPECT_EQ(counts.total(), 0u) << test::hot_counter::describe(counts);
}

TEST(FastAnswer, a_vocabulary_smaller_than_the_action_tokens_is_refused) {
  SpmVocab vocab;
  for (int i = 0; i < 140; ++i)
    vocab.pieces.push_back(
        {"p" + std::to_string(i), 0, i == 3 ? PieceType::kUnknown : PieceType::kUserDefined});
  vocab.unk = 3, vocab.bos = -1, vocab.eos = -1, vocab.add_bos = false;
  const auto text = SpmTokenizer::from_vocab(std::move(vocab));
  ASSERT_TRUE(text) << text.error().text;
  const ActionTokens vocabulary = tokens();
  const auto made = FastAnswer::make(text.value(), vocabulary, 1, 1, 8, {});
  EXPECT_EQ(made.code(), Code::kNotFound);
  // LeRobot's answers end with a bar.
  SpmVocab barless = text_vocabulary().vocab();
  barless.pieces[kBar].text = "!";
  const auto other = SpmTokenizer::from_vocab(std::move(barless));
  ASSERT_TRUE(other);
  EXPECT_TRUE(FastAnswer::make(other.value(), vocabulary, 1, 1, 8, {}));
  EXPECT_EQ(FastAnswer::make(other.value(), vocabulary, 1, 1, 8, {.lerobot = true}).code(),
            Code::kNotFound);
}

TEST(ActionTokens, reads_bytes_ids_and_rules) {
  const ActionTokens t = tokens();
  EXPECT_EQ(t.n_tokens(), 95);
  EXPECT_EQ(t.bytes(0), std::string_view("\0", 1));
  EXPECT_EQ(t.bytes(10), "\n") << "bytes that are no letters have letters of their own";
  EXPECT_EQ(t.bytes(92), "\xC3");
  EXPECT_EQ(t.min_token(), -16);
  EXPECT_EQ(t.scale(), 10);
  const auto named = ActionTokens::read(
      R"({"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"\u4e00":0,"a":2}}})",
      test::fast_processor_json(), "fast");
  ASSERT_TRUE(named) << named.error().text;
  EXPECT_EQ(named.value().bytes(0), "\xE4\xB8\x80") << "a letter that stands for no byte";
  EXPECT_EQ(named.value().bytes(1), "") << "ids may be left out";
}

TEST(ActionTokens, refuses_what_is_damaged_or_of_another_kind) {
  const std::string good = test::fast_tokenizer_json(), rules = test::fast_processor_json();
  const auto code = [](const std::string& a, const std::string& b) {
    const auto read = ActionTokens::read(a, b, "fast");
    if (read) return Code::kOk;
    EXPECT_NE(read.error().text[0], 0);
    return read.code();
  };
  const auto model = [](const std::string& vocab) {
    return R"({"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":)" + vocab + "}}";
  };
  for (size_t n = 0; n < good.size(); n += 97)
    EXPECT_EQ(code(good.substr(0, n), rules), Code::kNotFound) << n;
  EXPECT_EQ(code("[]", rules), Code::kUnsupported);
  EXPECT_EQ(code(R"({"model":{"type":"Unigram"}})", rules), Code::kUnsupported);
  EXPECT_EQ(code(model("{}"), rules), Code::kNotFound);
  EXPECT_EQ(code(model("7"), rules), Code::kNotFound);
  EXPECT_EQ(code(model(R"({"a":-1})"), rules), Code::kNotFound);
  EXPECT_EQ(code(model(R"({"a":131072})"), rules), Code::kNotFound);
  EXPECT_EQ(code(model(R"({"a":131071})"), rules), Code::kOk);
  EXPECT_EQ(code(model(R"({"a":1.5})"), rules), Code::kNotFound);
  EXPECT_EQ(code(model(R"({"a":1,"b":1})"), rules), Code::kNotFound);
  EXPECT_EQ(code(model(R"({"":1})"), rules), Code::kNotFound);
  for (const char* bad :
       {"{}", R"({"scale":10})", R"({"min_token":-3})", R"({"scale":0,"min_token":0})",
        R"({"scale":-1,"min_token":0})", R"({"scale":"10","min_token":0})",
        R"({"scale":10,"min_token":0.5})", R"({"scale":10,"min_token":999999999})", ""})
    EXPECT_EQ(code(good, bad), Code::kNotFound) << bad;
}

}  // namespace
}  // namespace outrider
