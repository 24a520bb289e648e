// Recorded ids and texts of the reference policy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "fixtures.h"
#include "text/pi_prompt.h"

namespace outrider::text_test {
namespace {

#define SKIP_WITHOUT_SHARED_DATA() \
  if (shared_dir().empty()) GTEST_SKIP() << "no shared test data: set OUTRIDER_SHARED"

SpmTokenizer tiny_tokenizer() {
  const Json meta = read_json(shared_dir() / "golden/openpi-spm/meta.json");
  const std::map<std::string, PieceType> types = {
      {"normal", PieceType::kNormal},   {"unknown", PieceType::kUnknown},
      {"control", PieceType::kControl}, {"user", PieceType::kUserDefined},
      {"unused", PieceType::kUnused},   {"byte", PieceType::kByte}};
  SpmVocab vocab;
  vocab.bos = 2, vocab.eos = 1, vocab.unk = 3, vocab.pad = 0;
  vocab.add_space_prefix = false;
  for (const Json& piece : meta.find("pieces")->items()) {
    EXPECT_EQ(piece.find("id")->integer(), static_cast<int64_t>(vocab.pieces.size()));
    vocab.pieces.push_back({piece.find("piece")->text(),
                            static_cast<float>(piece.find("score")->number()),
                            types.at(piece.find("type")->text())});
  }
  auto tokenizer = SpmTokenizer::from_vocab(std::move(vocab));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return std::move(tokenizer.value());
}

TEST(OpenpiGolden, sentencepiece_cases_give_the_recorded_ids_and_texts) {
  SKIP_WITHOUT_SHARED_DATA();
  const SpmTokenizer tokenizer = tiny_tokenizer();
  const Json meta = read_json(shared_dir() / "golden/openpi-spm/meta.json");
  ASSERT_EQ(meta.find("cases")->items().size(), 9u);
  for (const Json& sample : meta.find("cases")->items()) {
    const std::string& text = sample.find("text")->text();
    const auto ids = encode_all(tokenizer, text);
    EXPECT_EQ(ids, int_list(*sample.find("ids"))) << text;
    EXPECT_EQ(encode_all(tokenizer, text, {.add_special = true}), int_list(*sample.find("ids_bos")))
        << text;
    EXPECT_EQ(tokenizer.decode(ids), sample.find("decoded")->text()) << text;
  }
}

std::vector<float> floats(const Json& array) {
  std::vector<float> values;
  for (const Json& item : array.items()) values.push_back(static_cast<float>(item.number()));
  return values;
}

std::string pi05_text(std::string_view instruction, std::span<const float> state) {
  std::string text(write_pi05_text(instruction, state, StateBins::kReference, {}), '\0');
  write_pi05_text(instruction, state, StateBins::kReference, text);
  return text;
}

TEST(OpenpiGolden, prompts_are_cleaned_written_and_encoded_as_recorded) {
  SKIP_WITHOUT_SHARED_DATA();
  const SpmTokenizer tokenizer = tiny_tokenizer();
  const Json meta = read_json(shared_dir() / "golden/openpi-preproc/meta.json");
  size_t n_with_state = 0;
  for (const Json& sample : meta.find("prompts")->items()) {
    const std::string cleaned = clean_instruction(sample.find("prompt")->text());
    const auto& pieces = sample.find("pieces")->items();
    if (sample.find("state")->is_null()) {
      ASSERT_EQ(pieces.size(), 2u);
      EXPECT_EQ(cleaned, pieces[0].find("text")->text());
    } else {
      ++n_with_state;
      const std::vector<float> state = floats(*sample.find("state"));
      const auto bins = int_list(*sample.find("bins")),
                 f32 = int_list(*sample.find("float32_floor_bins"));
      for (size_t i = 0; i < state.size(); ++i) {
        EXPECT_EQ(state_bin(state[i], StateBins::kReference), bins[i]) << state[i];
        EXPECT_EQ(state_bin(state[i], StateBins::kJetsonPi), std::clamp(f32[i], -1, 255))
            << state[i];
      }
      EXPECT_EQ(pi05_text(cleaned, state), pieces[0].find("text")->text());
    }
    std::vector<int32_t> ids;
    for (const Json& piece : pieces) {
      const auto more = encode_all(tokenizer, piece.find("text")->text(),
                                   {.add_special = piece.find("add_bos")->boolean()});
      ids.insert(ids.end(), more.begin(), more.end());
    }
    // Padding and cutting to the slots of the model is the caller's part: done here.
    const size_t n_used = std::min<size_t>(ids.size(), sample.find("max_len")->integer());
    EXPECT_EQ(n_used, static_cast<size_t>(sample.find("mask_len")->integer()));
    ids.resize(n_used);
    ids.resize(sample.find("max_len")->integer(), 0);
    EXPECT_EQ(ids, int_list(*sample.find("tokens"))) << cleaned;
  }
  EXPECT_GT(n_with_state, 10u);
}

// A vocabulary in the JSON form of ranked merges. Scores fall with the id, as in the original file.
SpmTokenizer gemma_tokenizer(const char* path) {
  const Json json = read_json(path);
  std::map<int64_t, Piece> by_id;
  for (const Json::Member& member : json.find("model")->find("vocab")->members()) {
    const int64_t id = member.value.integer();
    const bool is_byte = member.name.size() == 6 && member.name.rfind("<0x", 0) == 0;
    by_id[id] = {member.name, -static_cast<float>(id),
                 is_byte ? PieceType::kByte : PieceType::kNormal};
  }
  for (const Json& added : json.find("added_tokens")->items()) {
    Piece& piece = by_id[added.find("id")->integer()];
    piece.text = added.find("content")->text();
    piece.type = added.find("special")->boolean() ? PieceType::kControl : PieceType::kUserDefined;
  }
  SpmVocab vocab;
  vocab.bos = 2, vocab.eos = 1, vocab.unk = 3, vocab.pad = 0;
  vocab.add_space_prefix = false;
  vocab.pieces.resize(by_id.empty() ? 0 : by_id.rbegin()->first + 1);
  for (const auto& [id, piece] : by_id) vocab.pieces[id] = piece;
  auto tokenizer = SpmTokenizer::from_vocab(std::move(vocab));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return std::move(tokenizer.value());
}

TEST(OpenpiGolden, the_real_gemma_vocabulary_gives_the_recorded_ids_of_whole_prompts) {
  SKIP_WITHOUT_SHARED_DATA();
  const char* path = std::getenv("OUTRIDER_GEMMA_VOCAB");
  if (path == nullptr)
    GTEST_SKIP() << "set OUTRIDER_GEMMA_VOCAB to the Gemma vocabulary (tokenizer.json)";
  const SpmTokenizer tokenizer = gemma_tokenizer(path);
  const Json golden = read_json(shared_dir() / "golden/openpi-spm/gemma_ids.json");
  for (const Json& sample : golden.find("raw")->items())
    EXPECT_EQ(encode_all(tokenizer, sample.find("text")->text()), int_list(*sample.find("ids")))
        << sample.find("text")->text();

  SpmTokenizer::Scratch scratch(4096);
  const auto stored = [](std::vector<int32_t> ids, SpmTokenizer::Encoded encoded) {
    EXPECT_EQ(encoded.code, Code::kOk);
    ids.resize(encoded.n_ids);
    return ids;
  };
  for (const Json& sample : golden.find("pi0")->items()) {
    std::vector<int32_t> ids(512);
    const std::string cleaned = clean_instruction(sample.find("prompt")->text());
    const auto encoded = encode_pi0(tokenizer, cleaned, scratch, ids);
    EXPECT_EQ(stored(ids, encoded), int_list(*sample.find("ids"))) << cleaned;
  }
  for (const Json& sample : golden.find("pi05")->items()) {
    std::vector<int32_t> ids(512);
    const std::string text =
        pi05_text(clean_instruction(sample.find("prompt")->text()), floats(*sample.find("state")));
    EXPECT_EQ(text, sample.find("text")->text());
    const auto encoded = encode_pi05(tokenizer, text, scratch, ids);
    EXPECT_EQ(stored(ids, encoded), int_list(*sample.find("ids"))) << text;
  }
}

}  // namespace
}  // namespace outrider::text_test
