#include "base/json_text.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace outrider {
namespace {

TEST(JsonText, escapes_what_would_end_a_string_or_break_its_line) {
  EXPECT_EQ(json_quoted(""), R"("")");
  EXPECT_EQ(json_quoted("plain"), R"("plain")");
  EXPECT_EQ(json_quoted("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(json_quoted("\n\r\t\b\f"), R"("\n\r\t\b\f")");
  EXPECT_EQ(json_quoted(std::string_view("\0\x1F\x7F", 3)), "\"\\u0000\\u001f\x7F\"");
  EXPECT_EQ(json_quoted("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC"), "\"gr\xC3\xBC\xC3\x9F \xE2\x82\xAC\"");
}

TEST(JsonText, a_byte_of_no_sequence_becomes_a_question_mark_and_its_neighbours_stay) {
  EXPECT_EQ(json_quoted("\xFF"), R"("?")");
  EXPECT_EQ(json_quoted("a\xC3"), R"("a?")");
  EXPECT_EQ(json_quoted("\xED\xA0\x80\xC3\xBC\x80x"), "\"???\xC3\xBC?x\"");
}

TEST(JsonText, every_text_is_read_back_by_the_strict_reader) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const char text[] = {static_cast<char>(first), static_cast<char>(second)};
      const std::string quoted = json_quoted({text, 2});
      const auto read = Json::parse(quoted);
      ASSERT_TRUE(read) << quoted << ": " << read.error().text;
      ASSERT_EQ(json_quoted(read.value().text()), quoted);
    }
  }
}

}  // namespace
}  // namespace outrider
