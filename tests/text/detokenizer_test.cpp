#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "alloc_counter.h"
#include "base/utf8.h"
#include "language_fixtures.h"

namespace outrider::text_test {
namespace {

constexpr const char* kBad = "\xEF\xBF\xBD";

// One byte at a time, as byte pieces give them.
std::string stream(Detokenizer& detokenizer, const LanguageTokenizer& tokenizer,
                   std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const std::string_view part = detokenizer.push(byte_id(tokenizer, static_cast<uint8_t>(c)));
    EXPECT_TRUE(utf8_valid(part));
    text += part;
  }
  return text;
}

TEST(FC08, a_character_of_several_ids_comes_out_whole_with_its_last_one) {
  for (const auto& tokenizer : {byte_bpe_tokenizer(), byte_piece_tokenizer()}) {
    Detokenizer detokenizer(tokenizer);
    const std::string_view robot = "\xF0\x9F\xA4\x96";  // U+1F916
    for (size_t n = 0; n < 3; ++n) {
      EXPECT_EQ(detokenizer.push(byte_id(tokenizer, static_cast<uint8_t>(robot[n]))), "");
      EXPECT_EQ(detokenizer.n_held_bytes(), n + 1);
    }
    EXPECT_EQ(detokenizer.push(byte_id(tokenizer, 0x96)), robot);
    EXPECT_EQ(detokenizer.finish(), "");
    EXPECT_EQ(detokenizer.n_replaced(), 0u);
  }
}

TEST(FC08, a_limit_inside_a_character_gives_one_replacement_at_the_end) {
  const LanguageTokenizer tokenizer = byte_bpe_tokenizer();
  for (size_t n = 1; n <= 3; ++n) {
    Detokenizer detokenizer(tokenizer);
    EXPECT_EQ(
        stream(detokenizer, tokenizer, std::string_view("a\xF0\x9F\xA4\x96").substr(0, n + 1)),
        "a");
    EXPECT_EQ(detokenizer.finish(), kBad) << n;
    EXPECT_EQ(detokenizer.finish(), "");
    EXPECT_EQ(stream(detokenizer, tokenizer, "b"), "b");  // starts anew
  }
}

TEST(FC08, bytes_that_are_no_character_become_replacements_by_maximal_parts) {
  const LanguageTokenizer tokenizer = byte_bpe_tokenizer();
  const std::string b = kBad;
  const std::pair<std::string, std::string> cases[] = {
      {"\xFF", b},
      {"\x80", b},
      {"a\x80z", "a" + b + "z"},
      {"\xC0\xAF", b + b},
      {"\xE0\x80\xAF", b + b + b},
      {"\xED\xA0\x80", b + b + b},          // a surrogate
      {"\xF4\x90\x80\x80", b + b + b + b},  // above U+10FFFF
      {"\xF0\x9F\xA4z", b + "z"},
      {"\xE2\x82\xE2\x82\xAC", b + "\xE2\x82\xAC"},
      {"\xF0\x90\xC3\xA4", b + "\xC3\xA4"},
      {"\xF0\x80\x80\x41", b + b + b + "A"},
  };
  for (const auto& [bytes, wanted] : cases) {
    Detokenizer detokenizer(tokenizer);
    std::string text = stream(detokenizer, tokenizer, bytes);
    text += detokenizer.finish();
    EXPECT_EQ(text, wanted);
  }
}

TEST(FC08, parts_together_are_the_whole_text_however_the_bytes_are_cut) {
  const LanguageTokenizer tokenizer =
      byte_bpe_tokenizer({"\xC3\xA9\xF0", "\xA4\x96z", "ab", "\x9F"});
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    std::vector<int32_t> ids(1 + random() % 20);
    for (int32_t& id : ids)
      id = static_cast<int32_t>(random() % static_cast<uint32_t>(tokenizer.n_pieces()));
    Detokenizer one(tokenizer), other(tokenizer);
    std::string by_id, by_byte;
    for (const int32_t id : ids) by_id += one.push(id);
    by_id += one.finish();
    by_byte = stream(other, tokenizer, tokenizer.decode(ids, false));
    by_byte += other.finish();
    ASSERT_EQ(by_id, by_byte) << "round " << round;
    ASSERT_TRUE(utf8_valid(by_id));
  }
}

TEST(Detokenizer, leaves_control_pieces_out_unless_asked_for) {
  const LanguageTokenizer tokenizer = byte_bpe_tokenizer();
  const int32_t end = tokenizer.find("<|end|>");
  Detokenizer plain(tokenizer), special(tokenizer, true);
  EXPECT_EQ(plain.push(end), "");
  EXPECT_EQ(special.push(end), "<|end|>");
  EXPECT_EQ(plain.push(-1), "");
  EXPECT_EQ(plain.push(tokenizer.n_pieces()), "");
}

TEST(Detokenizer, takes_no_heap) {
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer has its own allocator";
  const LanguageTokenizer tokenizer = byte_bpe_tokenizer();
  Detokenizer detokenizer(tokenizer);
  const size_t before = n_heap_calls();
  for (int32_t id = 0; id < tokenizer.n_pieces(); ++id) detokenizer.push(id);
  detokenizer.finish();
  EXPECT_EQ(n_heap_calls() - before, 0u);
}

}  // namespace
}  // namespace outrider::text_test
