#include "text/pi_prompt.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "fixtures.h"
#include "text/lower_case.h"

namespace outrider::text_test {
namespace {

// The definition itself: edges not above x, minus one.
int count_edges(float x) {
  if (std::isnan(x)) return 255;
  int n = 0;
  for (int k = 0; k < 256; ++k) n += -1.0 + k / 128.0 <= static_cast<double>(x);
  return n - 1;
}

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(StateBin, of_the_reference_has_the_tabulated_values) {
  const std::pair<float, int> table[] = {
      {-1.5f, -1},        {-1, 0},           {-0.9921875f, 1}, {-0.5f, 64}, {0, 128},
      {0.00781249f, 128}, {0.0078125f, 129}, {0.999f, 255},    {1, 255},    {2, 255},
      {-1e-9f, 127},      {1e-9f, 128},      {-kInf, -1},      {kInf, 255}, {-0.0f, 128}};
  for (const auto& [x, bin] : table) EXPECT_EQ(state_bin(x, StateBins::kReference), bin) << x;
  EXPECT_EQ(state_bin(std::nanf(""), StateBins::kReference), 255);
  EXPECT_EQ(state_bin(-std::nanf(""), StateBins::kReference), 255);
}

TEST(StateBin, of_the_reference_counts_edges_at_and_next_to_every_edge) {
  for (int k = -2; k <= 258; ++k) {
    const float edge = static_cast<float>(-1.0 + k / 128.0);
    for (const float x : {std::nextafter(edge, -kInf), edge, std::nextafter(edge, kInf)})
      EXPECT_EQ(state_bin(x, StateBins::kReference), count_edges(x)) << k << " " << x;
  }
  for (const float x : {1e-20f, -1e-20f, std::numeric_limits<float>::denorm_min(),
                        -std::numeric_limits<float>::denorm_min(), 1e30f, -1e30f})
    EXPECT_EQ(state_bin(x, StateBins::kReference), count_edges(x)) << x;
}

TEST(StateBin, of_the_reference_counts_edges_for_any_bit_pattern) {
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    ASSERT_EQ(state_bin(x, StateBins::kReference), count_edges(x)) << x;
  }
}

TEST(StateBin, of_the_edge_runtime_is_a_float32_floor_with_its_edge_error) {
  const float values[] = {-2, -1, -0.5f, 0, 0.5f, 1, 1.5f};
  const int bins[] = {-1, 0, 64, 128, 192, 255, 255};
  for (size_t i = 0; i < std::size(values); ++i)
    EXPECT_EQ(state_bin(values[i], StateBins::kJetsonPi), bins[i]) << values[i];
  EXPECT_EQ(state_bin(-1e-9f, StateBins::kJetsonPi), 128) << "the sum rounds up to the edge";
  EXPECT_EQ(state_bin(std::nextafter(-1.0f, -2.0f), StateBins::kJetsonPi), -1);
  EXPECT_EQ(state_bin(std::nextafter(1.0f, 0.0f), StateBins::kJetsonPi), 255);
  EXPECT_EQ(state_bin(-kInf, StateBins::kJetsonPi), -1);
  EXPECT_EQ(state_bin(kInf, StateBins::kJetsonPi), 255);
  EXPECT_EQ(state_bin(std::nanf(""), StateBins::kJetsonPi), 0);
}

TEST(CleanInstruction, trims_and_turns_underscores_and_newlines_into_blanks) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", ""},
      {"   ", ""},
      {"\n", ""},
      {"pick up", "pick up"},
      {"  Pick_up the\nblack bowl  ", "Pick up the black bowl"},
      {"turn on the stove_", "turn on the stove "},
      {"_a_ ", " a "},
      {"\r\n\t\v\f\x1c\x1d\x1e\x1f a\tb\rc \r\n", "a\tb\rc"},
      {"\u00A0\u0085\u1680\u2000\u200A\u2028\u2029\u202F\u205F\u3000 a \u3000\u00A0\u0085", "a"},
      {"\u200B a\uFEFF", "\u200B a\uFEFF"},
      {"é", "é"},
      {"a\n\nb", "a  b"}};
  for (const auto& [text, cleaned] : cases) EXPECT_EQ(clean_instruction(text), cleaned) << text;
  EXPECT_EQ(clean_instruction("\xFF a \x80"), "\xFF a \x80") << "bytes that are no text stay";
}

std::string pi05_text(std::string_view instruction, std::span<const float> state, StateBins rule) {
  char out[512];
  const size_t n = write_pi05_text(instruction, state, rule, out);
  EXPECT_LE(n, sizeof(out));
  return {out, n};
}

TEST(Pi05Text, has_the_exact_frame_and_tail) {
  const float state[] = {-2, -1, -0.5f, 0, 0.5f, 1, 1.5f};
  EXPECT_EQ(pi05_text("pick up", state, StateBins::kJetsonPi),
            "Task: pick up, State: -1 0 64 128 192 255 255;\nAction: ");
  EXPECT_EQ(pi05_text("", std::span<const float>(), StateBins::kReference),
            "Task: , State: ;\nAction: ");
  const float one[] = {0.25f};
  EXPECT_EQ(pi05_text(" Raw_\n", one, StateBins::kReference),
            "Task:  Raw_\n, State: 160;\nAction: ");
  EXPECT_EQ(pi05_text("x", std::vector<float>(kPi05TextStates), StateBins::kJetsonPi),
            "Task: x, State: 128 128 128 128 128 128 128 128;\nAction: ");
  const float near_edge[] = {-1e-9f};
  EXPECT_EQ(pi05_text("x", near_edge, StateBins::kReference), "Task: x, State: 127;\nAction: ");
  EXPECT_EQ(pi05_text("x", near_edge, StateBins::kJetsonPi), "Task: x, State: 128;\nAction: ");
}

TEST(Pi05Text, says_how_long_it_is_when_it_does_not_fit_and_never_writes_beyond) {
  const float state[] = {-2, 0, 2};
  const std::string whole = pi05_text("pick up", state, StateBins::kReference);
  for (size_t room = 0; room <= whole.size() + 2; ++room) {
    std::string out(whole.size() + 4, '#');
    EXPECT_EQ(write_pi05_text("pick up", state, StateBins::kReference, {out.data(), room}),
              whole.size());
    const size_t n = std::min(room, whole.size());
    EXPECT_EQ(out.substr(0, n), whole.substr(0, n));
    EXPECT_EQ(out.substr(n), std::string(out.size() - n, '#')) << room;
  }
}

std::vector<int32_t> with(std::vector<int32_t> ids, int32_t front, int32_t back = -1) {
  ids.insert(ids.begin(), front);
  if (back >= 0) ids.push_back(back);
  return ids;
}

TEST(EncodePi0, frames_the_raw_prompt_with_bos_and_newline_at_every_storage_size) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  SpmTokenizer::Scratch scratch(64);
  for (const std::string_view prompt : {"", "pick up the cup", "<bos>", "\n"}) {
    const auto whole = with(encode_all(tokenizer, prompt), kPiBos, kPiNewline);
    for (size_t room = 0; room <= whole.size() + 1; ++room) {
      std::vector<int32_t> ids(room, -7);
      const auto encoded = encode_pi0(tokenizer, prompt, scratch, ids);
      EXPECT_EQ(encoded.code, Code::kOk);
      EXPECT_EQ(encoded.n_ids, whole.size());
      for (size_t i = 0; i < room; ++i)
        EXPECT_EQ(ids[i], i < whole.size() ? whole[i] : -7) << prompt << room << " " << i;
    }
  }
}

TEST(EncodePi05, puts_bos_in_front_once_at_every_storage_size) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  SpmTokenizer::Scratch scratch(64);
  for (const std::string_view text :
       {"", "Task: up, State: 1;\nAction: ", "<bos>", "<bos>up", "<bos><bos>", "up<bos>"}) {
    auto whole = encode_all(tokenizer, text);
    if (whole.empty() || whole[0] != kPiBos) whole = with(whole, kPiBos);
    for (size_t room = 0; room <= whole.size() + 1; ++room) {
      std::vector<int32_t> ids(room, -7);
      const auto encoded = encode_pi05(tokenizer, text, scratch, ids);
      EXPECT_EQ(encoded.code, Code::kOk);
      EXPECT_EQ(encoded.n_ids, whole.size());
      for (size_t i = 0; i < std::min(room, whole.size()); ++i)
        EXPECT_EQ(ids[i], whole[i]) << text << room << " " << i;
    }
  }
}

TEST(EncodePi, hands_refusals_on) {
  const SpmTokenizer tokenizer = policy_tokenizer();
  SpmTokenizer::Scratch scratch(4);
  std::vector<int32_t> ids(16);
  for (const auto encode : {encode_pi0, encode_pi05}) {
    EXPECT_EQ(encode(tokenizer, "\xFF", scratch, ids).code, Code::kInvalid);
    EXPECT_EQ(encode(tokenizer, "abcde", scratch, ids).code, Code::kShape);
    EXPECT_EQ(encode(tokenizer, "abcde", scratch, ids).n_ids, 0u);
    EXPECT_EQ(encode(tokenizer, "abcd", scratch, ids).code, Code::kOk);
  }
}

TEST(LowerCase, maps_letters_of_many_scripts_and_nothing_else) {
  const auto lower = [](std::string_view text) {
    std::string out(max_lower_case_bytes(text.size()), '?');
    out.resize(lower_case(text, out));
    return out;
  };
  EXPECT_EQ(lower("Pick UP the_RED cup 19!"), "pick up the_red cup 19!");
  EXPECT_EQ(lower("\u00C4\u00D6\u00DC\u00DF \u0116 \u0410\u042F \u03A3\u0394 \u10A0 \u1E9E"),
            "\u00E4\u00F6\u00FC\u00DF \u0117 \u0430\u044F \u03C3\u03B4 \u2D00 \u00DF");
  EXPECT_EQ(lower("\u0130"), "i\u0307") << "the one letter that becomes two";
  EXPECT_EQ(lower("\u023A\U00010400\uFF21"), "\u2C65\U00010428\uFF41");
  EXPECT_EQ(lower("\u0131\u4E00\U0001F600\u00D7"), "\u0131\u4E00\U0001F600\u00D7");
  EXPECT_EQ(lower(""), "");
  EXPECT_EQ(lower_case(0x10FFFF), 0x10FFFFu);
  // A letter in lower case stays as it is.
  for (uint32_t code = 0; code < 0x20000; ++code)
    EXPECT_EQ(lower_case(lower_case(code)), lower_case(code)) << code;
}

TEST(PiPrompt, the_cleaning_of_pi0_fast_keeps_newlines) {
  const auto clean = [](std::string_view text) {
    std::string out(max_lower_case_bytes(text.size()), '?');
    out.resize(clean_fast_instruction(text, out));
    return out;
  };
  EXPECT_EQ(clean(" \u3000Turn_ON\nthe Stove_ \t\r\n"), "turn on\nthe stove ");
  EXPECT_EQ(clean(" \n "), "");
}

}  // namespace
}  // namespace outrider::text_test
