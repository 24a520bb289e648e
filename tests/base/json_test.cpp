#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <limits>
#include <string>

namespace outrider {
namespace {

std::string error_of(std::string_view text) {
  const Result<Json> json = Json::parse(text);
  return json ? "accepted" : json.error().text;
}

Json good(std::string_view text) {
  Result<Json> json = Json::parse(text);
  EXPECT_TRUE(json) << json.error().text << " in " << text;
  return json ? json.value() : Json();
}

TEST(Json, reads_every_kind_of_value) {
  const Json json =
      good(" {\"a\" : [1, -2.5e1, true, false, null, \"x\"],\n\"b\":{} ,\"c\":[]}\r\n");
  ASSERT_TRUE(json.is_object());
  ASSERT_EQ(json.members().size(), 3u);
  const std::vector<Json>& a = json.find("a")->items();
  ASSERT_EQ(a.size(), 6u);
  EXPECT_EQ(a[0].integer(), 1);
  EXPECT_EQ(a[1].number(), -25.0);
  EXPECT_FALSE(a[1].is_integer());
  EXPECT_TRUE(a[2].is_bool() && a[2].boolean());
  EXPECT_TRUE(a[3].is_bool() && !a[3].boolean());
  EXPECT_TRUE(a[4].is_null());
  EXPECT_EQ(a[5].text(), "x");
  EXPECT_TRUE(json.find("b")->is_object());
  EXPECT_EQ(json.find("b")->line(), 2u);
  EXPECT_TRUE(json.find("c")->is_array());
  EXPECT_EQ(json.find("d"), nullptr);
  EXPECT_EQ(a[0].find("a"), nullptr);
}

TEST(Json, a_scalar_alone_is_a_document) {
  EXPECT_EQ(good("7").integer(), 7);
  EXPECT_EQ(good("\"\"").text(), "");
  EXPECT_TRUE(good("null").is_null());
}

TEST(Json, refuses_what_the_grammar_does_not_have) {
  for (const char* bad : {"",
                          " ",
                          "{",
                          "}",
                          "[",
                          "]",
                          "{]",
                          "[}",
                          "[1",
                          "[1,",
                          "[1,]",
                          "[,1]",
                          "[1 2]",
                          "{\"a\"}",
                          "{\"a\":}",
                          "{\"a\":1,}",
                          "{,}",
                          "{a:1}",
                          "{'a':1}",
                          "{1:2}",
                          "{\"a\" 1}",
                          "{\"a\":1 \"b\":2}",
                          "{\"a\":1,,\"b\":2}",
                          "tru",
                          "truex",
                          "True",
                          "nul",
                          "nan",
                          "NaN",
                          "Infinity",
                          "-Infinity",
                          "1 2",
                          "{} {}",
                          "[]x",
                          "\"a",
                          "\"\\\"",
                          "// c\n1",
                          "/* c */ 1",
                          "1 // c",
                          "\xEF\xBB\xBF{}",
                          "\v1",
                          "\f1",
                          "1\xC2\xA0",
                          "#",
                          "\"a\"\"b\"",
                          "undefined"}) {
    EXPECT_FALSE(Json::parse(bad)) << bad;
  }
  EXPECT_FALSE(Json::parse(std::string_view("1\0", 2)));
  EXPECT_FALSE(Json::parse(std::string_view("\0", 1)));
}

TEST(Json, every_prefix_of_a_good_object_is_refused) {
  const std::string text = "{\"a\":[1,{\"b\\u00e9\":-1.5e+3}],\"c\":\"\xC3\xA9\",\"d\":true}";
  ASSERT_TRUE(Json::parse(text));
  for (size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(Json::parse(text.substr(0, n))) << n;
}

TEST(Json, errors_name_offset_line_column_found_and_expected) {
  EXPECT_EQ(error_of("{\n  \"a\": 1,\n  \"b\": @\n}"),
            "json: byte 19 (line 3, column 8): found '@', expected a value");
  EXPECT_EQ(error_of("[1"),
            "json: byte 2 (line 1, column 3): found the end of the text, expected ',' or ']'");
  EXPECT_EQ(
      error_of("[1,\n]"),
      "json: byte 4 (line 2, column 1): found ']', expected a value: a trailing comma is refused");
  EXPECT_EQ(error_of("\"\t\""),
            "json: byte 1 (line 1, column 2): found the byte 0x09, expected an escape: bytes below "
            "0x20 are refused in strings");
}

TEST(Json, decodes_escapes_and_pairs_of_surrogates) {
  EXPECT_EQ(good(R"("\"\\\/\b\f\n\r\t")").text(), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(good(R"("\u0041\u00e9\u20AC\uD83D\uDE00")").text(),
            "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(good(R"("\uD800\uDC00\uDBFF\uDFFF\uFFFF")").text(),
            "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF\xEF\xBF\xBF");
  EXPECT_EQ(good(R"("a\u0000b")").text(), std::string("a\0b", 3));
}

TEST(Json, refuses_bad_escapes_and_lone_surrogates) {
  for (const char* bad :
       {R"("\a")", R"("\x41")", R"("\'")", R"("\U0041")", R"("\u")", R"("\u12")", R"("\u12G4")",
        R"("\u 123")", R"("\uD800")", R"("\uD800x")", R"("\uD800\n")", R"("\uD800\u0041")",
        R"("\uD800\uD800")", R"("\uDC00")", R"("\uDFFF\uD800")", R"("\uD83D\uDE0")"}) {
    EXPECT_FALSE(Json::parse(bad)) << bad;
  }
}

TEST(Json, refuses_control_bytes_in_strings_and_keeps_delete) {
  for (int c = 0; c < 0x20; ++c) {
    const std::string text = std::string("\"a") + static_cast<char>(c) + "\"";
    EXPECT_FALSE(Json::parse(text)) << c;
  }
  EXPECT_EQ(good("\"\x7F\"").text(), "\x7F");
}

TEST(Json, keeps_numbers_by_their_grammar) {
  for (const char* bad :
       {"-",   "+1",  "01",   "-01",   "00",   "1.",  ".5",  "-.5", "1.e3", "1e",
        "1e+", "1e-", "1ee3", "1e1.5", "0x10", "1_0", "--1", "1-",  "1e5e", "- 1"}) {
    EXPECT_FALSE(Json::parse(bad)) << bad;
  }
  EXPECT_EQ(good("0.1").number(), 0.1);
  EXPECT_EQ(good("1E+2").number(), 100.0);
  EXPECT_EQ(good("0e999").number(), 0.0);
  EXPECT_EQ(good("1.50").text(), "1.50");
  EXPECT_EQ(good("1.7976931348623157e308").number(), std::numeric_limits<double>::max());
  EXPECT_EQ(good("5e-324").number(), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(good("0." + std::string(400, '0') + "1e401").number(), 1.0);
}

TEST(FC46, a_number_beyond_the_largest_double_is_refused_and_a_tiny_one_is_zero) {
  EXPECT_NE(error_of("[1e999]").find("byte 1 (line 1, column 2): found a number out of range"),
            std::string::npos)
      << error_of("[1e999]");
  for (const std::string& bad :
       {std::string("-1e999"), std::string("1e99999999999999999999999"), std::string(400, '9'),
        std::string("0.001e400"), "1" + std::string(310, '0') + ".5e-1"}) {
    EXPECT_NE(error_of(bad).find("out of range"), std::string::npos) << bad;
  }
  EXPECT_EQ(good("1e-999").number(), 0.0);
  EXPECT_TRUE(std::signbit(good("-1e-999").number()));
  EXPECT_EQ(good("1e-99999999999999999999999").number(), 0.0);
  EXPECT_EQ(good("0." + std::string(400, '0') + "1e10").number(), 0.0);
  EXPECT_NE(error_of("0." + std::string(100, '0') + "1e500").find("out of range"),
            std::string::npos);
}

TEST(FC46, minus_zero_is_kept_and_integers_are_exact_up_to_the_borders_of_int64) {
  EXPECT_TRUE(std::signbit(good("-0").number()));
  EXPECT_TRUE(good("-0").is_integer());
  EXPECT_EQ(good("-0").integer(), 0);
  EXPECT_TRUE(std::signbit(good("-0.0").number()));
  EXPECT_EQ(good("9007199254740993").integer(), 9007199254740993);
  EXPECT_EQ(good("9223372036854775807").integer(), INT64_MAX);
  EXPECT_EQ(good("-9223372036854775808").integer(), INT64_MIN);
  for (const char* text : {"9223372036854775808", "-9223372036854775809", "1.0", "1e2"}) {
    EXPECT_FALSE(good(text).is_integer()) << text;
  }
  EXPECT_EQ(good("9223372036854775808").number(), 9223372036854775808.0);
}

TEST(FC46, depth_is_limited_by_name_and_never_by_the_call_stack) {
  for (const std::string_view opener : {"[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += opener;
    EXPECT_NE(error_of(deep).find("max_depth allows, which is 64"), std::string::npos);
    EXPECT_NE(error_of("{\"ignored\":" + deep).find("max_depth"), std::string::npos);
    Json::Limits wide;
    wide.max_depth = UINT32_MAX;
    const Result<Json> json = Json::parse(deep, Json::Dialect::kStandard, wide);
    ASSERT_FALSE(json);
    EXPECT_NE(json.error().message().find("which is 1024"), std::string_view::npos);
  }
}

TEST(FC46, exactly_max_depth_is_accepted) {
  for (const uint32_t depth : {1u, 2u, 64u, 1023u, 1024u}) {
    Json::Limits limits;
    limits.max_depth = depth;
    const std::string fits = std::string(depth, '[') + std::string(depth, ']');
    EXPECT_TRUE(Json::parse(fits, Json::Dialect::kStandard, limits)) << depth;
    EXPECT_FALSE(Json::parse("[" + fits + "]", Json::Dialect::kStandard, limits)) << depth;
  }
  Json::Limits none;
  none.max_depth = 0;
  EXPECT_TRUE(Json::parse("1", Json::Dialect::kStandard, none));
  EXPECT_FALSE(Json::parse("[]", Json::Dialect::kStandard, none));
}

TEST(FC46, size_and_value_limits_hold_and_are_named) {
  Json::Limits limits;
  limits.max_bytes = 7;
  EXPECT_TRUE(Json::parse("[1,2,3]", Json::Dialect::kStandard, limits));
  const auto long_text = Json::parse("[1,2,3] ", Json::Dialect::kStandard, limits);
  ASSERT_FALSE(long_text);
  EXPECT_EQ(long_text.error().message(), "json: 8 bytes, limit max_bytes allows 7");
  limits = {};
  limits.max_values = 4;
  EXPECT_TRUE(Json::parse("[1,2,3]", Json::Dialect::kStandard, limits));
  EXPECT_TRUE(Json::parse("{\"a\":{\"b\":[1]}}", Json::Dialect::kStandard, limits));
  const auto many = Json::parse("[1,2,3,4]", Json::Dialect::kStandard, limits);
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().message().find("max_values allows, which is 4"), std::string_view::npos);
  limits.max_values = 0;
  EXPECT_FALSE(Json::parse("1", Json::Dialect::kStandard, limits));
}

TEST(FC46, invalid_utf8_is_refused_in_values_and_keys) {
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xC3", "\xFF"}) {
    EXPECT_FALSE(Json::parse(std::string("\"") + bad + "\"")) << bad;
    EXPECT_FALSE(Json::parse(std::string("{\"") + bad + "\":1}")) << bad;
  }
  EXPECT_EQ(good("\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"").text(),
            "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
}

TEST(FC46, a_second_key_is_refused_where_it_stands_in_small_and_large_objects) {
  EXPECT_EQ(
      error_of("{\"a\":1,\n \"\\u0061\":2}"),
      "json: byte 9 (line 2, column 2): found the key \"\\u0061\" a second time, expected each "
      "key once");
  for (const size_t n : {1, 2, 7, 8, 9, 16, 1000}) {
    for (const size_t again : {size_t{0}, n / 2, n - 1}) {
      std::string text = "{";
      for (size_t i = 0; i < n; ++i) text += "\"k" + std::to_string(i) + "\":0,";
      EXPECT_TRUE(Json::parse(text + "\"k\":{\"k\":0,\"k0\":0}}"));
      const std::string found = error_of(text + "\"k" + std::to_string(again) + "\":0}");
      EXPECT_NE(found.find("byte " + std::to_string(text.size()) + " "), std::string::npos)
          << found;
      EXPECT_NE(found.find("second time"), std::string::npos) << found;
    }
  }
}

// Seconds of processor time that reading the text costs.
double parse_seconds(const std::string& text, bool accepted) {
  const std::clock_t start = std::clock();
  EXPECT_EQ(bool(Json::parse(text)), accepted);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// Measured against the same strings in an array: a tree costs some twenty times that, a comparison
// of all pairs (5 * 10^9 of them) several thousand times.
TEST(FC46, a_hundred_thousand_keys_are_checked_in_reasonable_time) {
  std::string keys = "{", strings = "[";
  for (int i = 0; i < 100'000; ++i) {
    const std::string name = "\"key" + std::to_string(i * 7919 % 100'000) + "\"";
    keys += name + ":0,";
    strings += name + ",0,";
  }
  const double limit = 300 * (parse_seconds(strings + "0]", true) + 0.001);
  EXPECT_LT(parse_seconds(keys + "\"last\":0}", true), limit);
  EXPECT_LT(parse_seconds(keys + "\"key5\":0}", false), limit);
}

TEST(Json, a_long_key_is_cut_between_characters_in_the_message) {
  std::string key = "\"";
  for (int i = 0; i < 60; ++i) key += "\xE2\x82\xAC";
  const std::string found = error_of("{" + key + "\":1," + key + "\":2}");
  EXPECT_NE(found.find("\xE2\x82\xAC a second time"), std::string::npos) << found;
  EXPECT_LT(found.size(), 200u);
}

}  // namespace
}  // namespace outrider
