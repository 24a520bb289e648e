#include <gtest/gtest.h>

#include "gguf_bytes.h"

namespace outrider {
namespace {

using test::GgufBytes;
using test::parse;

bool says(const Error& error, std::string_view words) {
  return error.message().find(words) != std::string_view::npos;
}

TEST(GgufLookup, integers_are_accepted_in_any_width_and_sign) {
  GgufBytes b;
  b.scalar<uint8_t>("u8", 0, 200).scalar<int8_t>("i8", 1, 100).scalar<uint16_t>("u16", 2, 60000);
  b.scalar<int16_t>("i16", 3, 30000).scalar<uint32_t>("u32", 4, 4000000000u);
  b.scalar<int32_t>("i32", 5, 2000000000).scalar<uint64_t>("u64", 10, UINT64_MAX);
  b.scalar<int64_t>("i64", 11, INT64_MAX);
  const std::string bytes = b.build();
  auto parsed = parse(bytes);
  ASSERT_TRUE(parsed);
  const GgufFile& file = parsed.value();
  EXPECT_EQ(file.unsigned_integer("u8").value(), 200u);
  EXPECT_EQ(file.unsigned_integer("i8").value(), 100u);
  EXPECT_EQ(file.unsigned_integer("u16").value(), 60000u);
  EXPECT_EQ(file.unsigned_integer("i16").value(), 30000u);
  EXPECT_EQ(file.unsigned_integer("u32").value(), 4000000000u);
  EXPECT_EQ(file.unsigned_integer("i32").value(), 2000000000u);
  EXPECT_EQ(file.unsigned_integer("u64").value(), UINT64_MAX);
  EXPECT_EQ(file.unsigned_integer("i64").value(), uint64_t{INT64_MAX});
  EXPECT_EQ(file.real("i16").value(), 30000.0);
  EXPECT_EQ(file.real("u64").value(), 18446744073709551616.0);
}

TEST(GgufLookup, a_negative_integer_is_refused_with_its_value) {
  GgufBytes b;
  b.scalar<int8_t>("blocks", 1, -3).scalar<int64_t>("wide", 11, -5);
  const std::string bytes = b.build();
  auto file = parse(bytes);
  ASSERT_TRUE(file);
  auto value = file.value().unsigned_integer("blocks");
  EXPECT_EQ(value.code(), Code::kNotFound);
  EXPECT_TRUE(says(value.error(), "blocks") && says(value.error(), "-3")) << value.error().text;
  EXPECT_EQ(file.value().real("wide").value(), -5.0);
}

TEST(GgufLookup, reals_strings_bools_and_arrays) {
  GgufBytes b;
  b.scalar<float>("f32", 6, 1e-5f).scalar<double>("f64", 12, 0.1).scalar<uint8_t>("yes", 7, 1);
  b.scalar<uint8_t>("no", 7, 0).text("empty", "");
  b.strings("words", {"a", "", "b\n"}).strings("none", {});
  b.array<int32_t>("i32s", 5, {-1, 0, 7}).array<float>("f32s", 6, {0.5f});
  b.array<uint8_t>("bools", 7, {1, 0});
  const std::string bytes = b.build();
  auto parsed = parse(bytes);
  ASSERT_TRUE(parsed) << parsed.error().text;
  const GgufFile& file = parsed.value();
  EXPECT_EQ(file.real("f32").value(), double(1e-5f));
  EXPECT_EQ(file.real("f64").value(), 0.1);
  EXPECT_TRUE(file.boolean("yes").value());
  EXPECT_FALSE(file.boolean("no").value());
  EXPECT_EQ(file.string("empty").value(), "");
  EXPECT_EQ(file.strings("words").value(), (std::vector<std::string_view>{"a", "", "b\n"}));
  EXPECT_TRUE(file.strings("none").value().empty());
  EXPECT_EQ(file.numbers("i32s").value(), (std::vector<double>{-1, 0, 7}));
  EXPECT_EQ(file.numbers("f32s").value(), (std::vector<double>{0.5}));
  EXPECT_FALSE(file.numbers("bools"));
  EXPECT_FALSE(file.numbers("words"));
  EXPECT_FALSE(file.strings("i32s"));
}

TEST(GgufLookup, a_missing_key_is_named_with_its_file) {
  const std::string bytes = test::good_file().build();
  auto parsed = parse(bytes);
  ASSERT_TRUE(parsed);
  const GgufFile& file = parsed.value();
  EXPECT_FALSE(file.has("pi0.embedding_length"));
  EXPECT_TRUE(file.has("pi0.block_count"));
  for (const Error& e : {file.string("pi0.x").error(), file.unsigned_integer("pi0.x").error(),
                         file.real("pi0.x").error(), file.boolean("pi0.x").error(),
                         file.strings("pi0.x").error(), file.numbers("pi0.x").error()}) {
    EXPECT_EQ(e.code, Code::kNotFound);
    EXPECT_TRUE(says(e, "test.gguf") && says(e, "pi0.x") && says(e, "missing")) << e.text;
  }
}

TEST(GgufLookup, a_wrong_type_names_both_types) {
  const std::string bytes = test::good_file().build();
  auto parsed = parse(bytes);
  ASSERT_TRUE(parsed);
  const GgufFile& file = parsed.value();
  const Error text = file.string("pi0.block_count").error();
  EXPECT_TRUE(says(text, "u32") && says(text, "string")) << text.text;
  const Error number = file.unsigned_integer("general.architecture").error();
  EXPECT_TRUE(says(number, "string") && says(number, "integer")) << number.text;
  const Error whole = file.unsigned_integer("scores").error();
  EXPECT_TRUE(says(whole, "array of f32")) << whole.text;
  EXPECT_FALSE(file.boolean("pi0.block_count"));
  EXPECT_FALSE(file.real("tokens"));
}

}  // namespace
}  // namespace outrider
