#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "fixtures.h"
#include "spm_oracle.h"

namespace outrider::text_test {
namespace {

SpmVocab letters(std::initializer_list<Piece> more) {
  SpmVocab vocab;
  vocab.pieces = {{"<unk>", 0, PieceType::kUnknown},
                  {"<s>", 0, PieceType::kControl},
                  {"</s>", 0, PieceType::kControl}};
  vocab.add_space_prefix = false;
  vocab.pieces.insert(vocab.pieces.end(), more);
  return vocab;
}

SpmTokenizer make(SpmVocab vocab) {
  auto tokenizer = SpmTokenizer::from_vocab(std::move(vocab));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return std::move(tokenizer.value());
}

std::string refusal(SpmVocab vocab, Code wanted) {
  const auto tokenizer = SpmTokenizer::from_vocab(std::move(vocab));
  EXPECT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.code(), wanted);
  return std::string(tokenizer.error().message());
}

using Ids = std::vector<int32_t>;

TEST(SpmTokenizer, equals_the_naive_definition_on_random_vocabularies) {
  size_t n_cases = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const SpmVocab vocab = random_vocab(seed);
    const SpmTokenizer tokenizer = make(vocab);
    for (uint64_t k = 0; k < 24; ++k, ++n_cases) {
      const std::string text = random_text(seed * 1000 + k, k * k / 8);
      for (const bool add : {false, true}) {
        for (const bool parse : {false, true}) {
          const EncodeOptions options{.add_special = add, .parse_special = parse};
          ASSERT_EQ(encode_all(tokenizer, text, options), oracle_encode(vocab, text, options))
              << "seed " << seed << " text " << k << " add " << add << " parse " << parse << "\n"
              << text;
        }
      }
    }
  }
  RecordProperty("cases", static_cast<int>(n_cases));
}

TEST(SpmTokenizer, merges_the_best_score_first_and_the_leftmost_on_ties) {
  const auto n = PieceType::kNormal;
  const SpmTokenizer ties =
      make(letters({{"a", -9, n}, {"b", -9, n}, {"ab", -1, n}, {"ba", -1, n}, {"aa", -0.0f, n}}));
  EXPECT_EQ(encode_all(ties, "aba"), ids_of(ties, {"ab", "a"}));
  EXPECT_EQ(encode_all(ties, "baa"), ids_of(ties, {"b", "aa"}));
  EXPECT_EQ(encode_all(ties, "aaa"), ids_of(ties, {"aa", "a"}));
  const SpmTokenizer scores =
      make(letters({{"a", -9, n}, {"b", -9, n}, {"ab", -2, n}, {"ba", -1, n}}));
  EXPECT_EQ(encode_all(scores, "aba"), ids_of(scores, {"a", "ba"}));
}

TEST(SpmTokenizer, takes_plus_and_minus_zero_for_the_same_score) {
  const auto n = PieceType::kNormal;
  const SpmTokenizer tokenizer =
      make(letters({{"a", -9, n}, {"b", -9, n}, {"ab", -0.0f, n}, {"ba", 0.0f, n}}));
  EXPECT_EQ(encode_all(tokenizer, "aba"), ids_of(tokenizer, {"ab", "a"}));
}

TEST(SpmTokenizer, reaches_a_piece_only_over_pieces) {
  const auto n = PieceType::kNormal;
  const SpmTokenizer tokenizer =
      make(letters({{"a", -9, n}, {"b", -9, n}, {"c", -9, n}, {"abc", 0, n}}));
  EXPECT_EQ(encode_all(tokenizer, "abc"), ids_of(tokenizer, {"a", "b", "c"}));
}

TEST(SpmTokenizer, joins_characters_that_are_no_pieces_themselves) {
  const SpmTokenizer tokenizer = make(letters({{"éß", -1, PieceType::kNormal}}));
  EXPECT_EQ(encode_all(tokenizer, "éß"), ids_of(tokenizer, {"éß"}));
  EXPECT_EQ(encode_all(tokenizer, "ßé"), (Ids{0, 0}));
}

TEST(SpmTokenizer, spells_unknown_characters_in_bytes) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  EXPECT_EQ(encode_all(tokenizer, "🤖"),
            ids_of(tokenizer, {"<0xF0>", "<0x9F>", "<0xA4>", "<0x96>"}));
  EXPECT_EQ(encode_all(tokenizer, std::string_view("\0", 1)), ids_of(tokenizer, {"<0x00>"}));
  EXPECT_EQ(encode_all(tokenizer, std::string_view("a\0b", 3)),
            ids_of(tokenizer, {"a", "<0x00>", "b"}));
}

TEST(SpmTokenizer, gives_one_unknown_id_per_character_when_there_are_no_byte_pieces) {
  const SpmTokenizer tokenizer = make(letters({{"a", 0, PieceType::kNormal}}));
  EXPECT_EQ(encode_all(tokenizer, "a🤖é a"), (Ids{3, 0, 0, 0, 3}));
}

TEST(SpmTokenizer, puts_a_blank_before_the_first_fragment_and_after_each_special_piece) {
  SpmVocab vocab = policy_vocab();
  vocab.add_space_prefix = true;
  const SpmTokenizer tokenizer = make(vocab);
  EXPECT_EQ(encode_all(tokenizer, "up\nup<eos>the"),
            ids_of(tokenizer, {"▁up", "\n", "▁up", "<eos>", "▁the"}));
  EXPECT_EQ(encode_all(tokenizer, " up"), ids_of(tokenizer, {"▁", "▁up"}));
  EXPECT_EQ(encode_all(tokenizer, ""), Ids{});
  EXPECT_EQ(encode_all(tokenizer, "\n"), ids_of(tokenizer, {"\n"}));
}

TEST(SpmTokenizer, adds_bos_and_eos_as_the_vocabulary_says_and_never_looks_for_them) {
  SpmVocab vocab = policy_vocab();
  vocab.add_eos = true;
  const SpmTokenizer both = make(vocab);
  EXPECT_EQ(encode_all(both, "", {.add_special = true}), (Ids{2, 1}));
  EXPECT_EQ(encode_all(both, "<bos>", {.add_special = true}), (Ids{2, 2, 1}));
  EXPECT_EQ(encode_all(both, "<bos>", {.add_special = false}), (Ids{2}));
  vocab.add_bos = vocab.add_eos = false;
  EXPECT_EQ(encode_all(make(vocab), "", {.add_special = true}), Ids{});
}

TEST(SpmTokenizer, counts_ids_beyond_the_storage_and_stores_the_first) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  const Ids whole = encode_all(tokenizer, "pick up the cup\n", {.add_special = true});
  SpmTokenizer::Scratch scratch(64);
  for (size_t room = 0; room <= whole.size() + 1; ++room) {
    Ids ids(room, -7);
    const auto encoded = tokenizer.encode("pick up the cup\n", {.add_special = true}, scratch, ids);
    EXPECT_EQ(encoded.code, Code::kOk);
    EXPECT_EQ(encoded.n_ids, whole.size());
    for (size_t i = 0; i < room; ++i)
      EXPECT_EQ(ids[i], i < whole.size() ? whole[i] : -7) << room << " " << i;
  }
}

TEST(SpmTokenizer, refuses_a_text_longer_than_the_scratch_and_takes_one_of_its_length) {
  SpmVocab vocab = policy_vocab();
  vocab.add_space_prefix = true;
  const SpmTokenizer tokenizer = make(vocab);
  for (size_t max_bytes : {0, 1, 7, 64}) {
    SpmTokenizer::Scratch scratch(max_bytes);
    EXPECT_EQ(scratch.max_text_bytes(), max_bytes);
    for (const char c : {' ', 'a'}) {
      Ids ids(4 * max_bytes + 4);
      const std::string fits(max_bytes, c), longer(max_bytes + 1, c);
      EXPECT_EQ(tokenizer.encode(fits, {}, scratch, ids).code, Code::kOk) << max_bytes;
      const auto refused = tokenizer.encode(longer, {}, scratch, ids);
      EXPECT_EQ(refused.code, Code::kShape);
      EXPECT_EQ(refused.n_ids, 0u);
    }
  }
}

TEST(SpmTokenizer, refuses_every_text_that_is_not_utf8_and_says_where) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  for (const std::string_view bad :
       {"\xFF", "\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
        "\xF0\x9F\xA4", "\xF5\x80\x80\x80"}) {
    const auto ids = tokenizer.encode("ab" + std::string(bad), {});
    ASSERT_FALSE(ids) << bad;
    EXPECT_EQ(ids.code(), Code::kInvalid);
    EXPECT_NE(ids.error().message().find("byte 2 "), std::string::npos) << ids.error().message();
  }
}

TEST(SpmTokenizer, gives_the_same_ids_with_a_used_scratch) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  SpmTokenizer::Scratch scratch(64);
  Ids first(64), again(64);
  const auto a = tokenizer.encode("pick up", {}, scratch, first);
  Ids other(64);
  tokenizer.encode("<bos>Action: the cup\n\n of tea, and more of it <end_of_turn>", {}, scratch,
                   other);
  const auto b = tokenizer.encode("pick up", {}, scratch, again);
  EXPECT_EQ(a.n_ids, b.n_ids);
  EXPECT_EQ(first, again);
}

TEST(SpmTokenizer, survives_being_moved) {
  SpmTokenizer tokenizer = policy_tokenizer();
  const Ids before = encode_all(tokenizer, "<bos>pick 🤖\n");
  SpmTokenizer moved = std::move(tokenizer);
  EXPECT_EQ(encode_all(moved, "<bos>pick 🤖\n"), before);
  tokenizer = std::move(moved);
  EXPECT_EQ(encode_all(tokenizer, "<bos>pick 🤖\n"), before);
}

TEST(SpmDecode, gives_each_type_its_own_text) {
  SpmVocab vocab = policy_vocab();
  vocab.pieces.push_back({"▁user ", 0, PieceType::kUserDefined});
  const SpmTokenizer tokenizer = make(vocab);
  EXPECT_EQ(tokenizer.piece_text(2), "<bos>");
  EXPECT_EQ(tokenizer.piece_text(2, false), "");
  EXPECT_EQ(tokenizer.piece_text(3, false), "<unk>");
  EXPECT_EQ(tokenizer.piece_text(50), "") << "unused";
  EXPECT_EQ(tokenizer.piece_text(108, false), "\n");
  EXPECT_EQ(tokenizer.piece_text(kFirstByte + 0xF0), "\xF0");
  EXPECT_EQ(tokenizer.piece_text(kFirstByte), std::string(1, '\0'));
  EXPECT_EQ(tokenizer.piece_text(ids_of(tokenizer, {"▁▁▁▁"})[0]), "    ");
  EXPECT_EQ(tokenizer.piece_text(ids_of(tokenizer, {"▁up"})[0]), " up");
  EXPECT_EQ(tokenizer.piece_text(tokenizer.n_pieces() - 1), "▁user ") << "verbatim";
  for (const int32_t id : {-1, INT32_MIN, tokenizer.n_pieces(), INT32_MAX})
    EXPECT_EQ(tokenizer.piece_text(id), "") << id;
}

TEST(SpmDecode, gives_back_the_text_with_byte_pieces) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  for (const std::string_view text : {"", " ", "  two  blanks ", "Task: pick, State: -1;\nAction: ",
                                      "é 🤖 語\t\r\n", "<bos>x<eos>"}) {
    EXPECT_EQ(tokenizer.decode(encode_all(tokenizer, text)), text);
    EXPECT_EQ(tokenizer.decode(encode_all(tokenizer, text, {.parse_special = false})), text);
  }
  EXPECT_EQ(tokenizer.decode(encode_all(tokenizer, "<bos>x<eos>"), false), "x");
}

TEST(SpmVocabulary, with_a_repeated_text_is_refused_naming_both_ids) {
  SpmVocab vocab = policy_vocab();
  vocab.pieces[50].text = vocab.pieces[17].text;
  const std::string message = refusal(vocab, Code::kNotFound);
  EXPECT_NE(message.find("pieces 17 and 50"), std::string::npos) << message;
}

TEST(SpmVocabulary, may_hold_empty_texts_that_match_nothing) {
  SpmVocab vocab = policy_vocab();
  vocab.pieces[17].text = vocab.pieces[50].text = "";
  vocab.pieces[107].text = "";
  EXPECT_EQ(encode_all(make(vocab), "up"), encode_all(policy_tokenizer(), "up"));
}

TEST(SpmVocabulary, with_a_score_that_is_not_finite_is_refused_naming_the_piece) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    SpmVocab vocab = policy_vocab();
    vocab.pieces[400].score = bad;
    EXPECT_NE(refusal(vocab, Code::kNotFound).find("scores: piece 400"), std::string::npos);
  }
}

TEST(SpmVocabulary, with_an_unknown_type_is_refused) {
  for (const int bad : {0, 7, 255}) {
    SpmVocab vocab = policy_vocab();
    vocab.pieces[9].type = static_cast<PieceType>(bad);
    EXPECT_NE(refusal(vocab, Code::kNotFound).find("token_type: piece 9"), std::string::npos);
  }
}

TEST(SpmVocabulary, with_ids_out_of_range_is_refused_naming_the_key) {
  const auto n = static_cast<int32_t>(policy_vocab().pieces.size());
  const std::pair<int32_t SpmVocab::*, const char*> keys[] = {{&SpmVocab::bos, "bos_token_id"},
                                                              {&SpmVocab::eos, "eos_token_id"},
                                                              {&SpmVocab::unk, "unknown_token_id"},
                                                              {&SpmVocab::pad, "padding_token_id"}};
  for (const auto& [member, key] : keys) {
    for (const int32_t bad : {n, INT32_MAX, -2, INT32_MIN}) {
      SpmVocab vocab = policy_vocab();
      vocab.*member = bad;
      EXPECT_NE(refusal(vocab, Code::kNotFound).find(key), std::string::npos) << bad;
    }
    SpmVocab vocab = policy_vocab();
    vocab.*member = n - 1;
    make(vocab);
  }
  SpmVocab none = policy_vocab();
  none.bos = none.eos = none.unk = none.pad = -1;
  none.add_bos = true;
  EXPECT_NE(refusal(none, Code::kNotFound).find("bos_token_id"), std::string::npos);
  none.add_bos = false;
  make(none);
}

TEST(SpmVocabulary, needs_every_byte_piece_that_a_text_can_need_or_none_of_them) {
  for (int value = 0; value < 256; ++value) {
    SpmVocab vocab = policy_vocab();
    vocab.pieces[kFirstByte + value] = {"other", 0, PieceType::kNormal};
    const bool never_needed = value == ' ' || value == '\n' || (value >= '!' && value <= '~') ||
                              value == 0xC0 || value == 0xC1 || value >= 0xF5;
    if (never_needed) {
      make(vocab);
      continue;
    }
    char wanted[32];
    std::snprintf(wanted, sizeof(wanted), "<0x%02X> is missing (255", static_cast<unsigned>(value));
    EXPECT_NE(refusal(vocab, Code::kNotFound).find(wanted), std::string::npos) << value;
  }
}

TEST(SpmVocabulary, may_have_the_tab_as_a_piece_instead_of_its_byte) {
  SpmVocab vocab = policy_vocab();
  vocab.pieces[kFirstByte + '\t'] = {"\t", 0, PieceType::kNormal};
  EXPECT_EQ(encode_all(make(vocab), "a\tb"), encode_all(policy_tokenizer(), "a\tb"));
  vocab.pieces[kFirstByte + '\t'].type = PieceType::kControl;
  refusal(vocab, Code::kNotFound);  // the plain way could not spell a tab
}

TEST(SpmVocabulary, without_byte_pieces_needs_an_unknown_id) {
  SpmVocab none = letters({{"a", 0, PieceType::kNormal}});
  make(none);
  none.unk = -1;
  EXPECT_NE(refusal(none, Code::kNotFound).find("unknown_token_id"), std::string::npos);
}

TEST(SpmVocabulary, has_byte_pieces_of_the_exact_form) {
  for (const char* bad : {"<0x4>", "<0x4g>", "<0x4a>", "0x41", "<0x041>", "A"}) {
    SpmVocab vocab = policy_vocab();
    vocab.pieces[kFirstByte + 'J'].text = bad;
    vocab.pieces[365 + 28 + ('A' - '!')].text = "no letter A";
    EXPECT_NE(refusal(vocab, Code::kNotFound).find("<0xNN>"), std::string::npos) << bad;
  }
}

TEST(SpmVocabulary, with_no_pieces_or_pieces_of_absurd_size_is_refused) {
  EXPECT_NE(refusal(SpmVocab{}, Code::kNotFound).find("0 pieces"), std::string::npos);
  SpmVocab vocab = policy_vocab();
  vocab.pieces[365].text = std::string(4096, 'x');
  make(vocab);
  vocab.pieces[365].text += 'x';
  EXPECT_NE(refusal(vocab, Code::kUnsupported).find("piece 365"), std::string::npos);
}

TEST(SpmVocabulary, with_a_piece_that_is_not_utf8_is_refused) {
  SpmVocab vocab = policy_vocab();
  vocab.pieces[20].text = "\xE2\x96";
  EXPECT_NE(refusal(vocab, Code::kNotFound).find("piece 20"), std::string::npos);
}

}  // namespace
}  // namespace outrider::text_test
