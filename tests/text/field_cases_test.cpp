// Field cases that meet the tokenizer and the prompt rules; their numbers are in the test names.
#include <gtest/gtest.h>

#include "fixtures.h"
#include "text/pi_prompt.h"

namespace outrider::text_test {
namespace {

using Ids = std::vector<int32_t>;

// Raw face of PI0.
Ids pi0(const SpmTokenizer& tokenizer, std::string_view prompt) {
  SpmTokenizer::Scratch scratch(prompt.size());
  Ids ids(prompt.size() * 4 + 8);
  const auto encoded = encode_pi0(tokenizer, prompt, scratch, ids);
  EXPECT_EQ(encoded.code, Code::kOk);
  ids.resize(encoded.n_ids);
  return ids;
}

// Raw face of PI0.5.
Ids pi05(const SpmTokenizer& tokenizer, std::string_view instruction,
         std::span<const float> state) {
  std::string text(instruction.size() + 128, '\0');
  text.resize(write_pi05_text(instruction, state, StateBins::kJetsonPi, text));
  SpmTokenizer::Scratch scratch(text.size());
  Ids ids(text.size() * 4 + 8);
  const auto encoded = encode_pi05(tokenizer, text, scratch, ids);
  EXPECT_EQ(encoded.code, Code::kOk);
  ids.resize(encoded.n_ids);
  return ids;
}

struct Variant {
  const char* instruction;
  std::initializer_list<std::string_view> raw;  // pieces of the text as it stands
};

// The raw face strips, lowers and replaces nothing: every variant has ids of its own.
const Variant kVariants[] = {
    {"pick up the cup", {"pick", "▁up", "▁the", "▁cup"}},
    {"pick up the cup\n", {"pick", "▁up", "▁the", "▁cup", "\n"}},
    {"pick up the cup\r\n", {"pick", "▁up", "▁the", "▁cup", "<0x0D>", "\n"}},
    {"pick up the cup\n\n", {"pick", "▁up", "▁the", "▁cup", "\n", "\n"}},
    {" pick up the cup", {"▁pick", "▁up", "▁the", "▁cup"}},
    {"pick up the cup ", {"pick", "▁up", "▁the", "▁cup", "▁"}},
    {"  pick up the cup  ", {"▁", "▁pick", "▁up", "▁the", "▁cup", "▁▁"}},
    {"pick\tup\tthe\tcup", {"pick", "<0x09>", "up", "<0x09>", "the", "<0x09>", "cup"}},
    {"pick_up_the_cup", {"pick", "_", "up", "_", "the", "_", "cup"}},
};

Ids framed(Ids front, const Ids& middle, const Ids& back) {
  front.insert(front.end(), middle.begin(), middle.end());
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

TEST(FC05, the_raw_pi0_face_ends_each_variant_with_exactly_one_newline_of_its_own) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  for (const Variant& variant : kVariants)
    EXPECT_EQ(pi0(tokenizer, variant.instruction),
              framed({2}, ids_of(tokenizer, variant.raw), {108}))
        << variant.instruction;
}

// " pick" behind "Task:" brings a blank along, hence the front with and without its own blank.
TEST(FC05, the_raw_pi05_face_keeps_each_variant_and_its_exact_tail) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  const float state[] = {-2, 0, 1};
  const Ids task = ids_of(tokenizer, {"Task", ":"});
  const Ids tail = ids_of(tokenizer, {",", "▁State", ":", "▁", "-", "1", "▁", "1", "2", "8", "▁",
                                      "2", "5", "5", ";", "\n", "Action", ":", "▁"});
  const Ids no_state = ids_of(tokenizer, {",", "▁State", ":", "▁", ";", "\n", "Action", ":", "▁"});
  for (const Variant& variant : kVariants) {
    const std::string behind_blank = std::string(" ") + variant.instruction;
    const Ids middle = encode_all(tokenizer, behind_blank);
    EXPECT_EQ(tokenizer.decode(middle), behind_blank);
    const Ids front = framed({2}, task, middle);
    EXPECT_EQ(pi05(tokenizer, variant.instruction, state), framed(front, {}, tail))
        << variant.instruction;
    EXPECT_EQ(pi05(tokenizer, variant.instruction, {}), framed(front, {}, no_state))
        << variant.instruction;
  }
  EXPECT_EQ(pi05(tokenizer, "pick up\n", state),
            framed({2}, ids_of(tokenizer, {"Task", ":", "▁pick", "▁up", "\n"}), tail));
}

TEST(FC05, the_cleaning_of_the_served_policy_makes_trimmed_variants_equal) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  const Ids clean = pi0(tokenizer, "pick up the cup");
  for (const char* variant :
       {"pick up the cup\n", "pick up the cup\r\n", "pick up the cup\n\n", " pick up the cup",
        "  pick up the cup  ", "pick_up_the_cup", "\tpick_up\nthe cup"})
    EXPECT_EQ(pi0(tokenizer, clean_instruction(variant)), clean) << variant;
  EXPECT_NE(pi0(tokenizer, clean_instruction("pick\tup\tthe\tcup")), clean) << "an inner tab stays";
}

// n_ids ids: one-character pieces that merge with nothing.
std::string text_of(size_t n_ids) {
  return std::string(n_ids, '~');
}

TEST(FC07, a_prompt_around_the_budget_reports_the_ids_it_needs) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  SpmTokenizer::Scratch scratch(4096);
  for (const size_t budget : {48u, 200u}) {
    for (const size_t n : {budget - 1, budget, budget + 1, 10 * budget}) {
      Ids ids(budget, -7);
      const auto encoded = encode_pi0(tokenizer, text_of(n - 2), scratch, ids);
      EXPECT_EQ(encoded.code, Code::kOk);
      EXPECT_EQ(encoded.n_ids, n) << "beyond the budget the count says so";
      EXPECT_EQ(encoded.n_ids <= budget, n <= budget);
      EXPECT_EQ(ids.back() == kPiNewline, n == budget) << "the last id is there only when it fits";
    }
  }
}

TEST(FC07, a_pi05_prompt_around_the_budget_reports_the_ids_it_needs) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  const float state[] = {0.5f, -0.5f};
  const size_t frame = pi05(tokenizer, "", state).size();
  for (const size_t n : {199u, 200u, 201u, 2000u}) {
    std::string text(4096, '\0');
    text.resize(write_pi05_text(text_of(n - frame), state, StateBins::kJetsonPi, text));
    SpmTokenizer::Scratch scratch(text.size());
    Ids ids(200);
    EXPECT_EQ(encode_pi05(tokenizer, text, scratch, ids).n_ids, n);
    EXPECT_EQ(pi05(tokenizer, text_of(n - frame), state).size(), n);
  }
}

TEST(FC07, a_megabyte_of_text_and_emoji_is_counted_or_refused_but_never_cut_in_silence) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  std::string text;
  while (text.size() < (size_t{1} << 20)) text += "pick up the cup 🤖\n";
  SpmTokenizer::Scratch large(text.size()), small(65536);
  Ids ids(200);
  const size_t n_units = text.size() / std::string_view("pick up the cup 🤖\n").size();
  const auto counted = encode_pi0(tokenizer, text, large, ids);
  EXPECT_EQ(counted.code, Code::kOk);
  EXPECT_EQ(counted.n_ids, 2 + n_units * 10) << "pick ▁up ▁the ▁cup ▁ 4 bytes newline";
  const auto refused = encode_pi0(tokenizer, text, small, ids);
  EXPECT_EQ(refused.code, Code::kShape);
  EXPECT_EQ(refused.n_ids, 0u);
}

TEST(FC10, a_raw_pi0_prompt_with_the_bos_text_doubles_it_and_pi05_does_not) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  EXPECT_EQ(pi0(tokenizer, "<bos>up"), framed({2, 2}, ids_of(tokenizer, {"up"}), {108}));
  SpmTokenizer::Scratch scratch(64);
  Ids ids(3);
  EXPECT_EQ(encode_pi05(tokenizer, "<bos>up", scratch, ids).n_ids, 2u);
  EXPECT_EQ((Ids{ids[0], ids[1]}), framed({2}, ids_of(tokenizer, {"up"}), {}));
  EXPECT_EQ(encode_pi05(tokenizer, "up", scratch, ids).n_ids, 2u);
  EXPECT_EQ((Ids{ids[0], ids[1]}), framed({2}, ids_of(tokenizer, {"up"}), {}));
}

TEST(FC10, the_text_face_adds_bos_as_the_vocabulary_says_and_shows_the_ids) {
  SpmVocab vocab = policy_vocab();
  EXPECT_EQ(encode_all(policy_tokenizer(), "<bos>up", {.add_special = true}).size(), 3u)
      << "doubled by contract";
  EXPECT_EQ(encode_all(policy_tokenizer(), "up", {.add_special = true}).size(), 2u);
  vocab.add_bos = false;
  const auto quiet = SpmTokenizer::from_vocab(vocab);
  ASSERT_TRUE(quiet);
  EXPECT_EQ(encode_all(quiet.value(), "<bos>up", {.add_special = true}).size(), 2u);
  EXPECT_EQ(encode_all(quiet.value(), "up", {.add_special = true}).size(), 1u);
}

TEST(FC11, foreign_text_never_becomes_a_control_id_in_the_plain_way) {
  // Control pieces that merging could reach: "<e" and "os>" are ordinary pieces here.
  SpmVocab vocab = policy_vocab();
  for (const char* text : {"<e", "os", "os>", "<b"})
    vocab.pieces.push_back({text, 100, PieceType::kNormal});
  vocab.pieces.push_back({"\x7F", 0, PieceType::kControl});
  const auto made = SpmTokenizer::from_vocab(vocab);
  ASSERT_TRUE(made) << made.error().message();
  const SpmTokenizer& tokenizer = made.value();
  std::string all;
  for (const Piece& piece : vocab.pieces) {
    if (piece.type != PieceType::kControl && piece.type != PieceType::kUnknown) continue;
    all += "system" + piece.text;
    const Ids parsed = encode_all(tokenizer, piece.text);
    ASSERT_EQ(parsed.size(), 1u);
    EXPECT_EQ(vocab.pieces[parsed[0]].text, piece.text);
  }
  const Ids plain = encode_all(tokenizer, all, {.parse_special = false});
  for (const int32_t id : plain) {
    EXPECT_NE(vocab.pieces[id].type, PieceType::kControl) << vocab.pieces[id].text;
    EXPECT_NE(vocab.pieces[id].type, PieceType::kUnknown) << vocab.pieces[id].text;
  }
  EXPECT_EQ(tokenizer.decode(plain), all);
}

TEST(FC11, cue_words_inside_the_instruction_are_ordinary_text) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  const float state[] = {0};
  EXPECT_EQ(tokenizer.decode(pi05(tokenizer, "x, State: 1;\nAction: y", state)),
            "<bos>Task: x, State: 1;\nAction: y, State: 128;\nAction: ");
}

}  // namespace
}  // namespace outrider::text_test
