#include "base/utf8.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(Utf8, every_scalar_value_is_written_well_formed_and_nothing_shorter_is) {
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code == 0xD800) code = 0xE000;
    std::string text;
    utf8_append(text, code);
    const size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    ASSERT_EQ(text.size(), n) << code;
    ASSERT_EQ(utf8_sequence_bytes(text + "\x80"), n) << code;
    ASSERT_EQ(utf8_sequence_bytes(std::string_view(text).substr(0, n - 1)), 0u) << code;
  }
}

TEST(Utf8, refuses_overlong_forms_surrogates_and_values_past_the_last) {
  for (const char* bad : {"\x80",
                          "\xBF",
                          "\xC0\x80",
                          "\xC1\xBF",
                          "\xC2",
                          "\xC2\x7F",
                          "\xC2\xC0",
                          "\xE0\x80\x80",
                          "\xE0\x9F\xBF",
                          "\xED\xA0\x80",
                          "\xED\xBF\xBF",
                          "\xE1\x80",
                          "\xE1\x80\x7F",
                          "\xF0\x80\x80\x80",
                          "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80",
                          "\xF1\x80\x80",
                          "\xFE",
                          "\xFF"}) {
    EXPECT_EQ(utf8_sequence_bytes(bad), 0u) << bad;
    EXPECT_FALSE(utf8_valid(std::string("fine") + bad));
  }
  size_t n_pairs = 0;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const char pair[2] = {static_cast<char>(a), static_cast<char>(b)};
      n_pairs += utf8_sequence_bytes({pair, 2}) == 2;
    }
  }
  EXPECT_EQ(n_pairs, 0x800u - 0x80u);
}

}  // namespace
}  // namespace outrider
