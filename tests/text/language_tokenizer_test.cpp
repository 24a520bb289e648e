#include "text/language_tokenizer.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "alloc_counter.h"
#include "base/utf8.h"
#include "fixtures.h"
#include "language_fixtures.h"
#include "text/unigram.h"

namespace outrider::text_test {
namespace {

using Ids = std::vector<int32_t>;

Ids encode(const LanguageTokenizer& tokenizer, std::string_view text,
           const TokenizeOptions& options = {}) {
  const auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids) << ids.error().message();
  return ids ? ids.value() : Ids{};
}

Ids joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(FC10, a_text_that_begins_with_bos_has_one_with_bos_once_and_two_in_the_raw_faces) {
  const LanguageTokenizer tokenizer = byte_bpe_tokenizer();
  const int32_t bos = tokenizer.bos();
  ASSERT_EQ(tokenizer.piece(bos).text, "<|begin|>");
  EXPECT_EQ(encode(tokenizer, "<|begin|>a", {.add_special = true, .bos_once = true}),
            (Ids{bos, 'a'}));
  EXPECT_EQ(encode(tokenizer, "a", {.add_special = true, .bos_once = true}), (Ids{bos, 'a'}));
  EXPECT_EQ(encode(tokenizer, "", {.add_special = true, .bos_once = true}), Ids{bos});
  EXPECT_EQ(encode(tokenizer, "<|begin|>a", {.add_special = true}), (Ids{bos, bos, 'a'}));
  EXPECT_TRUE(tokenizer.doubles_bos("<|begin|>a"));
  EXPECT_FALSE(tokenizer.doubles_bos("a<|begin|>"));
  // Not parsed: the text is no BOS, so one is added.
  EXPECT_EQ(encode(tokenizer, "<|begin|>",
                   {.add_special = true, .parse_special = false, .bos_once = true})[0],
            bos);
}

TEST(FC10, a_vocabulary_without_add_bos_adds_none) {
  const LanguageTokenizer tokenizer = from_json_text(
      byte_bpe_json(),
      "{\"add_bos_token\":false,\"bos_token\":\"<|begin|>\",\"eos_token\":\"<|end|>\"}");
  EXPECT_EQ(encode(tokenizer, "a", {.add_special = true}), Ids{'a'});
  EXPECT_FALSE(tokenizer.doubles_bos("<|begin|>a"));
  EXPECT_EQ(tokenizer.eos(), tokenizer.find("<|end|>"));
}

TEST(FC11, text_from_outside_gives_ordinary_ids_between_real_marks) {
  const LanguageTokenizer tokenizer = byte_bpe_tokenizer({"hello"});
  for (const std::string mark : {"<|begin|>", "<|end|>", "<|user|>"}) {
    const std::string front = "<|user|>", user = "x" + mark + "hello", back = "<|end|>";
    const ForeignText foreign[] = {{front.size(), front.size() + user.size()}};
    const Ids ids = encode(tokenizer, front + user + back, {.foreign = foreign});
    const Ids inside = encode(tokenizer, user, {.parse_special = false});
    EXPECT_EQ(ids, joined(joined({tokenizer.find(front)}, inside), {tokenizer.find(back)})) << mark;
    for (const int32_t id : inside) EXPECT_NE(tokenizer.piece(id).type, PieceType::kControl);
    EXPECT_EQ(tokenizer.decode(ids), front + user + back);
  }
}

TEST(FC11, no_mark_is_put_together_across_the_border_of_a_foreign_part) {
  const LanguageTokenizer tokenizer = byte_bpe_tokenizer();
  const std::string text = "a<|end|>b";
  for (size_t begin = 0; begin <= text.size(); ++begin) {
    for (size_t end = begin; end <= text.size(); ++end) {
      const ForeignText foreign[] = {{begin, end}};
      const Ids ids = encode(tokenizer, text, {.foreign = foreign});
      const bool touched = begin < 8 && end > 1 && end > begin;
      const bool border = !touched && begin > 1 && begin < 8;  // an empty part inside the mark
      if (border) continue;
      EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer.find("<|end|>")), touched ? 0 : 1)
          << begin << " " << end;
    }
  }
}

TEST(FC11, words_do_not_notice_where_a_foreign_part_begins) {
  const LanguageTokenizer tokenizer = byte_bpe_tokenizer({"hello"});
  const ForeignText foreign[] = {{2, 4}};
  EXPECT_EQ(encode(tokenizer, "hello", {.foreign = foreign}), Ids{tokenizer.find("hello")});
}

TEST(LanguageTokenizer, refuses_texts_and_parts_that_are_none) {
  const LanguageTokenizer tokenizer = byte_bpe_tokenizer();
  EXPECT_EQ(tokenizer.encode("\xFF", {}).code(), Code::kInvalid);
  const ForeignText beyond[] = {{0, 2}}, swapped[] = {{1, 0}}, overlapping[] = {{0, 2}, {1, 3}};
  EXPECT_EQ(tokenizer.encode("a", {.foreign = beyond}).code(), Code::kInvalid);
  EXPECT_EQ(tokenizer.encode("ab", {.foreign = swapped}).code(), Code::kInvalid);
  EXPECT_EQ(tokenizer.encode("abc", {.foreign = overlapping}).code(), Code::kInvalid);
  LanguageTokenizer::Scratch scratch(tokenizer, 4);
  Ids ids(8);
  EXPECT_EQ(tokenizer.encode("12345", {}, scratch, ids).code, Code::kShape);
  EXPECT_EQ(tokenizer.encode("1234", {}, scratch, ids).code, Code::kOk);
  const auto few = tokenizer.encode("1234", {}, scratch, std::span(ids).first(2));
  EXPECT_EQ(few.n_ids, 4u);
  EXPECT_EQ(encode(tokenizer, ""), Ids{});
}

TEST(LanguageTokenizer, gives_every_text_back_and_takes_no_heap) {
  const LanguageTokenizer tokenizer =
      byte_bpe_tokenizer({"hello", " world", "\xE4\xBD\xA0\xE5\xA5\xBD"});
  std::string text;
  std::mt19937 random(3);
  while (text.size() < 5000) {
    utf8_append(text, random() % 3 == 0 ? 0x4F60 + random() % 100 : 32 + random() % 95);
    if (random() % 4 == 0) text += " world hello";
  }
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, text)), text);
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer has its own allocator";
  LanguageTokenizer::Scratch scratch(tokenizer, text.size());
  Ids ids(text.size());
  const size_t before = n_heap_calls();
  tokenizer.encode(text, {.add_special = true}, scratch, ids);
  EXPECT_EQ(n_heap_calls() - before, 0u);
}

// The rule said slowly: join the adjacent pair with the lowest rank, leftmost first, over and over.
TEST(LanguageTokenizer, joins_like_the_quadratic_rule) {
  std::mt19937 random(8);
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<std::string> pieces{"a", "b", "c"};
  while (merges.size() < 60) {
    const std::string left = pieces[random() % pieces.size()],
                      right = pieces[random() % pieces.size()];
    if (left.size() + right.size() > 12) continue;
    if (std::find(pieces.begin(), pieces.end(), left + right) == pieces.end())
      pieces.push_back(left + right);
    merges.emplace_back(left, right);
  }
  std::string vocab, list;
  for (size_t i = 0; i < pieces.size(); ++i)
    vocab += (i == 0 ? "" : ",") + json_string(pieces[i]) + ":" + std::to_string(i);
  for (const auto& [left, right] : merges)
    list += (list.empty() ? "[" : ",[") + json_string(left) + "," + json_string(right) + "]";
  const LanguageTokenizer tokenizer = from_json_text(
      "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{"
      "\"type\":\"BPE\",\"vocab\":{" +
      vocab + "},\"merges\":[" + list + "]}}");
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t n = random() % 60; n > 0; --n) text += static_cast<char>('a' + random() % 3);
    std::vector<std::string> symbols;
    for (const char c : text) symbols.emplace_back(1, c);
    while (true) {
      size_t best = merges.size(), where = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i)
        for (size_t rank = 0; rank < best; ++rank)
          if (merges[rank].first == symbols[i] && merges[rank].second == symbols[i + 1])
            best = rank, where = i;
      if (best == merges.size()) break;
      symbols[where] += symbols[where + 1];
      symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(where) + 1);
    }
    Ids wanted;
    for (const std::string& symbol : symbols) wanted.push_back(tokenizer.find(symbol));
    ASSERT_EQ(encode(tokenizer, text), wanted) << text;
  }
}

TEST(LanguageTokenizer, encoding_time_grows_with_the_text_and_not_with_its_square) {
  std::vector<std::string> words;
  for (size_t n = 2; n <= 1024; n *= 2) words.emplace_back(n, 'a');
  const LanguageTokenizer tokenizer = byte_bpe_tokenizer(words);
  LanguageTokenizer::Scratch scratch(tokenizer, 1 << 17);
  Ids ids(1 << 17);
  const auto time = [&](size_t n) {
    const std::string text(n, 'a');
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const clock_t start = clock();
      tokenizer.encode(text, {}, scratch, ids);
      best = std::min(best, double(clock() - start) / CLOCKS_PER_SEC);
    }
    return best;
  };
  const double small = time(1 << 13), large = time(1 << 17);
  EXPECT_LT(large, 64 * std::max(small, 20e-6)) << small << " " << large;
}

TEST(LanguageTokenizer, white_space_beside_a_stripping_piece_goes_away) {
  std::string json = byte_bpe_json();
  const std::string at = "\"content\":\"<|end|>\"";
  json.replace(json.find(at), at.size(), at + ",\"rstrip\":true,\"lstrip\":true");
  const LanguageTokenizer tokenizer = from_json_text(json);
  const int32_t end = tokenizer.find("<|end|>");
  const Ids a{'a'}, b{'b'};
  EXPECT_EQ(encode(tokenizer, "a \n<|end|> \t b"), joined(joined(a, {end}), b));
  EXPECT_EQ(encode(tokenizer, " <|end|> "), Ids{end});
  EXPECT_EQ(encode(tokenizer, "<|end|>\xE3\x80\x80<|end|>"), (Ids{end, end}));
}

TEST(LanguageTokenizer, blanks_without_a_piece_become_their_three_bytes) {
  const LanguageTokenizer tokenizer = byte_piece_tokenizer();
  const std::string blanks(500, ' ');
  const Ids ids = encode(tokenizer, blanks);
  ASSERT_EQ(ids.size(), 1500u);
  EXPECT_EQ(ids[0], byte_id(tokenizer, 0xE2));
  EXPECT_EQ(ids[1499], byte_id(tokenizer, 0x81));
}

// All ways through a text; the best sum wins.
TEST(Unigram, finds_the_best_way_through) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<Piece> pieces;
    for (const char* text : {"a", "b", "ab", "ba", "aab", "abab", "bb", "\xC3\xA9",
                             "\xC3\xA9"
                             "a"})
      if (random() % 4 != 0)
        pieces.push_back({text, -static_cast<float>(random() % 1000) / 100, PieceType::kNormal});
    if (pieces.empty()) continue;
    float lowest = 0;
    for (const Piece& piece : pieces) lowest = std::min(lowest, piece.score);
    Unigram unigram;
    ASSERT_TRUE(unigram.build(pieces));
    std::string text;
    for (size_t n = 1 + random() % 8; n > 0; --n)
      text += random() % 5 == 0 ? "\xC3\xA9" : random() % 2 == 0 ? "a" : "b";
    UnigramScratch scratch(text.size());
    unigram.run(text, scratch);
    // Dynamic programming from the right, written another way.
    std::vector<double> best(text.size() + 1, -1e300);
    best[text.size()] = 0;
    for (size_t at = text.size(); at-- > 0;) {
      const size_t n = utf8_sequence_bytes(std::string_view(text).substr(at));
      if (n == 0) continue;
      bool covered = false;
      for (const Piece& piece : pieces) {
        if (text.compare(at, piece.text.size(), piece.text) != 0) continue;
        best[at] = std::max(best[at], piece.score + best[at + piece.text.size()]);
        covered = covered || piece.text.size() == n;
      }
      if (!covered) best[at] = std::max(best[at], lowest - 10.0 + best[at + n]);
    }
    ASSERT_NEAR(scratch.best[text.size()].score, best[0], 1e-4) << text;
  }
}

TEST(Unigram, unknown_characters_in_a_row_are_one_unknown_id) {
  const LanguageTokenizer tokenizer = from_json_text(
      "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_"
      "scheme\":\"always\","
      "\"split\":false},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],["
      "\"\xE2\x96\x81\",-3],"
      "[\"a\",-2],[\"\xE2\x96\x81"
      "a\",-4],[\"aa\",-3]]}}");
  EXPECT_EQ(encode(tokenizer, "aa xya"), (Ids{1, 4, 1, 0, 2}));
  EXPECT_EQ(encode(tokenizer, " a"), Ids{3});  // the blank is there already
  EXPECT_EQ(tokenizer.decode(Ids{3, 4}), " aaa");
}

}  // namespace
}  // namespace outrider::text_test
