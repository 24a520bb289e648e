// Dialect::kFlatOpen: the open configuration of model-runtime ABI section 14.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/json.h"

namespace outrider {
namespace {

Result<Json> parse(std::string_view text) {
  return Json::parse(text, Json::Dialect::kFlatOpen);
}

Result<Json> parse_number(const std::string& literal) {
  return parse("{\"a\":" + literal + "}");
}

TEST(FlatOpen, reads_strings_and_numbers_in_any_white_space) {
  const auto json =
      parse(" \t\r\n{ \"model_path\" : \"/m/\xC3\xA9.gguf\" ,\"n_views\":3\n,\"s\":\"\"} \n");
  ASSERT_TRUE(json) << json.error().text;
  EXPECT_EQ(json.value().find("model_path")->text(), "/m/\xC3\xA9.gguf");
  EXPECT_EQ(json.value().find("n_views")->integer(), 3);
  EXPECT_EQ(json.value().find("n_views")->line(), 2u);
  EXPECT_EQ(json.value().find("s")->text(), "") << "the schema refuses it, not the reader";
}

TEST(FlatOpen, refuses_everything_the_contract_names) {
  for (const char* bad : {"",
                          "{}",
                          "{ }",
                          "[]",
                          "1",
                          "\"a\"",
                          "null",
                          "{\"a\":1,}",
                          "{\"a\":1}x",
                          "{\"a\":1} {}",
                          "{\"a\":1,\"a\":1}",
                          "{\"a\":{}}",
                          "{\"a\":[]}",
                          "{\"a\":[1]}",
                          "{\"a\":true}",
                          "{\"a\":false}",
                          "{\"a\":null}",
                          "{\"a\":}",
                          "{a:1}",
                          "{\"a\" 1}",
                          "{\"a\":1 \"b\":2}",
                          "{\"a\":\"\\u0041\"}",
                          "{\"\\u0061\":1}",
                          "{\"a\":\"\\x\"}",
                          "{\"a\":\"\\'\"}",
                          "{\"a\":\"\n\"}",
                          "{\"a\":\"\x1F\"}",
                          "{\"a\":\"\xFF\"}",
                          "\f{\"a\":1}",
                          "{\"a\":\v1}",
                          "{\"a\":1}\x0B",
                          "{\"a\":\"x}",
                          "{\"a\":1",
                          "{,\"a\":1}",
                          "{\"a\":nan}",
                          "{\"a\":inf}"}) {
    const auto json = parse(bad);
    ASSERT_FALSE(json) << bad;
    EXPECT_EQ(json.code(), Code::kInvalid) << bad;
  }
  EXPECT_FALSE(parse(std::string_view("{\"a\":1}\0", 8)));
}

TEST(FlatOpen, decodes_exactly_its_eight_escapes) {
  for (int c = 0x20; c < 0x7F; ++c) {
    const std::string text = std::string("{\"a\":\"\\") + static_cast<char>(c) + "\"}";
    const bool known =
        std::string_view("\"\\/bfnrt").find(static_cast<char>(c)) != std::string::npos;
    EXPECT_EQ(bool(parse(text)), known) << text;
  }
  EXPECT_EQ(parse(R"({"a":"\"\\\/\b\f\n\r\t"})").value().find("a")->text(), "\"\\/\b\f\n\r\t");
}

TEST(FlatOpen, integers_have_no_leading_zeros_plus_or_fraction) {
  for (const char* literal : {"0", "1", "42", "-1", "-0", "4294967295", "9223372036854775807"}) {
    const auto json = parse_number(literal);
    ASSERT_TRUE(json) << json.error().text;
    EXPECT_TRUE(json.value().find("a")->is_integer()) << literal;
    EXPECT_EQ(json.value().find("a")->text(), literal);
  }
  for (const char* literal : {"00", "01", "-01", "007", "+01"}) {
    const auto json = parse_number(literal);
    ASSERT_FALSE(json) << literal;
    EXPECT_NE(json.error().message().find("leading zeros"), std::string_view::npos);
  }
  for (const char* literal : {"+1", "1.0", "1.", "1e0", "9223372036854775808"}) {
    const auto json = parse_number(literal);
    ASSERT_TRUE(json) << literal;
    EXPECT_FALSE(json.value().find("a")->is_integer()) << literal;
  }
}

TEST(FlatOpen, floats_have_an_optional_sign_digits_or_fraction_and_exponent) {
  const struct {
    const char* literal;
    double value;
  } cases[] = {{"0.7", 0.7},    {".5", 0.5},    {"5.", 5.0},    {"+.5", 0.5},  {"-.5e1", -5.0},
               {"+5.e-1", 0.5}, {"1e+02", 100}, {"1E002", 100}, {"01.5", 1.5}, {"-2.", -2.0}};
  for (const auto& c : cases) {
    const auto json = parse_number(c.literal);
    ASSERT_TRUE(json) << json.error().text;
    EXPECT_EQ(json.value().find("a")->number(), c.value) << c.literal;
  }
  for (const char* bad : {".", "-", "+", "-.", "e5", ".e5", "1e", "1e+", "1.5.", "1e5.0", "++1",
                          "+-1", "0x1p3", "1f", "1,5", "1 5"}) {
    EXPECT_FALSE(parse_number(bad)) << bad;
  }
}

TEST(FlatOpen, exponents_have_at_most_three_digits) {
  EXPECT_TRUE(parse_number("1e000"));
  EXPECT_TRUE(parse_number("0e999"));
  for (const char* bad : {"1e0000", "0e0001", "1e-0001", "1e99999999999"}) {
    const auto json = parse_number(bad);
    ASSERT_FALSE(json) << bad;
    EXPECT_NE(json.error().message().find("3 digits"), std::string_view::npos) << json.error().text;
  }
}

TEST(FlatOpen, values_stay_in_the_range_of_float) {
  for (const char* good : {"3.4028234e38", "-3.4028234e38", "1.4e-45", "0.0", "-0.0", "0e-999"}) {
    EXPECT_TRUE(parse_number(good)) << good;
  }
  for (const char* bad : {"3.5e38", "-3.5e38", "1e39", "1e999", "1e-46", "-1e-46", "1e-999"}) {
    const auto json = parse_number(bad);
    ASSERT_FALSE(json) << bad;
    EXPECT_NE(json.error().message().find("out of range"), std::string_view::npos);
  }
}

TEST(FC48, mistakes_in_an_open_configuration_are_named_with_their_line) {
  EXPECT_EQ(parse("{\"a\":1,\n\"b\":true}").error().message(),
            "json: byte 12 (line 2, column 5): found 't', expected a string or a number");
  EXPECT_EQ(parse("{\"a\":1,\n}").error().message(),
            "json: byte 8 (line 2, column 1): found '}', expected a key");
  EXPECT_EQ(parse("").error().message(),
            "json: byte 0 (line 1, column 1): found the end of the text, expected '{'");
  EXPECT_EQ(
      parse("{}").error().message(),
      "json: byte 1 (line 1, column 2): found '}', expected a key: an empty object is refused");
}

TEST(FC46, a_flat_configuration_refuses_nesting_at_once) {
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100'000; ++i) deep += "[";
  EXPECT_NE(parse(deep).error().message().find("byte 5 "), std::string_view::npos);
}

}  // namespace
}  // namespace outrider
