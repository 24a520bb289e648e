#include "cli/args.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "cli/commands.h"
#include "cli/help.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    {"--ticks", "N", "20", "Ticks.", parse_count},
    {"--json", nullptr, nullptr, "JSON.", nullptr},
    {"--image", "P", nullptr, "Picture.", parse_text, true},
};
constexpr Positional kPositionals[] = {{"FILE", "A file."}, {"[MORE]", "Another."}};
const Command kCommand = {"try", "Try.", "", "", kPositionals, kFlags, nullptr};

Result<Args> parse(std::vector<const char*> words) {
  return Args::parse(kCommand, words);
}
std::string error_of(std::vector<const char*> words) {
  auto args = parse(std::move(words));
  return args ? "" : std::string(args.error().message());
}

TEST(Args, takes_a_value_as_the_next_word_or_behind_an_equals_sign) {
  EXPECT_EQ(parse({"f", "--ticks", "7"}).value().integer("--ticks"), 7);
  EXPECT_EQ(parse({"--ticks=8", "f"}).value().integer("--ticks"), 8);
}

TEST(Args, applies_the_default_of_the_row_and_knows_that_nobody_wrote_it) {
  auto args = parse({"f"});
  ASSERT_TRUE(args);
  EXPECT_EQ(args.value().integer("--ticks"), 20);
  EXPECT_FALSE(args.value().given("--ticks"));
  EXPECT_EQ(args.value().text("--image"), "");
}

TEST(Args, keeps_the_order_of_a_repeated_flag_and_refuses_a_repeat_of_others) {
  auto args = parse({"f", "--image", "a", "--image=b"});
  ASSERT_TRUE(args);
  EXPECT_EQ(args.value().all("--image"), (std::vector<std::string>{"a", "b"}));
  EXPECT_NE(error_of({"f", "--ticks", "1", "--ticks", "2"}).find("given twice"), std::string::npos);
}

TEST(Args, names_the_nearest_flag_for_a_misspelt_one) {
  EXPECT_NE(error_of({"f", "--tikcs", "3"}).find("did you mean --ticks?"), std::string::npos);
  EXPECT_NE(error_of({"f", "--jsn"}).find("did you mean --json?"), std::string::npos);
  EXPECT_EQ(error_of({"f", "--completely-else"}).find("did you mean"), std::string::npos);
}

TEST(Args, says_flag_value_and_what_is_allowed) {
  for (const char* bad : {"0", "-1", "1000001", "7x", "", " 7", "1e3", "99999999999999999999"}) {
    const std::string error = error_of({"f", "--ticks", bad});
    EXPECT_NE(error.find("--ticks"), std::string::npos) << bad;
    EXPECT_NE(error.find("1 to 1000000"), std::string::npos) << bad;
  }
}

TEST(Args, refuses_what_is_missing_and_what_is_too_much) {
  EXPECT_NE(error_of({}).find("FILE is missing"), std::string::npos);
  EXPECT_NE(error_of({"a", "b", "c"}).find("one argument too many"), std::string::npos);
  EXPECT_NE(error_of({"a", "--ticks"}).find("needs a value"), std::string::npos);
  EXPECT_NE(error_of({"a", "--json=1"}).find("takes no value"), std::string::npos);
  EXPECT_EQ(parse({"a"}).value().positional(1), "");
}

TEST(Args, words_behind_a_double_dash_are_no_flags) {
  EXPECT_EQ(parse({"--", "--json"}).value().positional(0), "--json");
}

TEST(Args, never_echoes_a_control_byte) {
  EXPECT_EQ(error_of({"f", "--\x1b[31m"}).find('\x1b'), std::string::npos);
}

TEST(NearestName, counts_one_slip_and_exchanged_neighbours_but_not_another_word) {
  static constexpr const char* kNames[] = {"inspect", "bench", "parity"};
  EXPECT_STREQ(nearest_name("inpsect", kNames), "inspect");
  EXPECT_STREQ(nearest_name("benc", kNames), "bench");
  EXPECT_EQ(nearest_name("zzzzzz", kNames), nullptr);
  EXPECT_EQ(nearest_name("", kNames), nullptr);
  EXPECT_EQ(nearest_name(std::string(1000, 'b'), kNames), nullptr);
}

TEST(FlagTable, every_row_of_every_command_is_whole_and_its_default_parses) {
  std::set<std::string> names;
  for (const Command* command : commands()) {
    EXPECT_TRUE(names.insert(command->name).second) << command->name;
    std::set<std::string> flags;
    for (std::span<const Flag> rows : {command->flags, common_flags()})
      for (const Flag& flag : rows) {
        const std::string where = std::string(command->name) + " " + flag.name;
        EXPECT_TRUE(flags.insert(flag.name).second) << where << " appears twice";
        EXPECT_TRUE(std::string(flag.name).starts_with("--")) << where;
        EXPECT_EQ(flag.value == nullptr, flag.parse == nullptr) << where;
        EXPECT_TRUE(std::string(flag.help).ends_with(".")) << where;
        if (flag.by_default != nullptr) {
          EXPECT_TRUE(flag.parse(flag.by_default)) << where;
        }
      }
    EXPECT_TRUE(std::string(command->summary).ends_with(".")) << command->name;
  }
}

TEST(FlagTable, every_refusal_of_a_parser_says_what_is_allowed) {
  for (const Command* command : commands())
    for (const Flag& flag : command->flags) {
      if (flag.parse == nullptr) continue;
      const auto value = flag.parse("");
      if (!value) {
        EXPECT_GT(value.error().message().size(), 8u) << flag.name;
      }
    }
}

TEST(FlagTable, completions_name_every_command_and_flag) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(shell);
    for (const Command* command : commands()) {
      EXPECT_NE(script.find(command->name), std::string::npos) << shell;
      for (const Flag& flag : command->flags)
        EXPECT_NE(script.find(flag.name + 2), std::string::npos) << shell << flag.name;
    }
  }
}

}  // namespace
}  // namespace outrider::cli
