#include "text/split_regex.h"

#include <gtest/gtest.h>

#include "alloc_counter.h"
#include "text/split_patterns.h"

namespace outrider::text_test {
namespace {

// Matches and the gaps between them, gaps in angle brackets.
std::string cut(std::string_view pattern, std::string_view text) {
  const auto regex = SplitRegex::compile(pattern);
  EXPECT_TRUE(regex) << pattern << ": " << regex.error().message();
  if (!regex) return "?";
  SplitRegex::Budget budget{1'000'000, false};
  std::string out;
  size_t at = 0;
  SplitRegex::Match match;
  while (regex.value().find(text, at, match, budget)) {
    if (match.begin > at) out += "<" + std::string(text.substr(at, match.begin - at)) + ">";
    out += "[" + std::string(text.substr(match.begin, match.end - match.begin)) + "]";
    at = match.end;
  }
  EXPECT_FALSE(budget.spent);
  if (at < text.size()) out += "<" + std::string(text.substr(at)) + ">";
  return out;
}

TEST(SplitRegex, takes_the_first_alternative_that_fits_and_as_much_as_it_can) {
  EXPECT_EQ(cut("a|ab", "abab"), "[a]<b>[a]<b>");
  EXPECT_EQ(cut("ab|a", "abaab"), "[ab][a][ab]");
  EXPECT_EQ(cut("a+", "aaabaa"), "[aaa]<b>[aa]");
  EXPECT_EQ(cut("a*b", "aaabb"), "[aaab][b]");
  EXPECT_EQ(cut("a?a?a", "aaaa"), "[aaa][a]");
  EXPECT_EQ(cut("[ab]+b", "abab"), "[abab]");
  EXPECT_EQ(cut("[ab]++b", "abab"), "<abab>");
  EXPECT_EQ(cut("a{2}", "aaaaa"), "[aa][aa]<a>");
  EXPECT_EQ(cut("\\p{N}{1,3}", "1234567"), "[123][456][7]");
  EXPECT_EQ(cut("x{2,}y", "xyxxxy"), "<xy>[xxxy]");
  EXPECT_EQ(cut("", "abc"), "<abc>");
  EXPECT_EQ(cut("a*", "baab"), "<b>[aa]<b>");
}

TEST(SplitRegex, knows_groups_and_looks_ahead) {
  EXPECT_EQ(cut("(?:ab|c)+d", "abcabdcd"), "[abcabd][cd]");
  EXPECT_EQ(cut("(a|b)*c", "abac"), "[abac]");
  EXPECT_EQ(cut("x(?:y|z)?w", "xwxywxzw"), "[xw][xyw][xzw]");
  EXPECT_EQ(cut("a(?=b)", "abac"), "[a]<bac>");
  EXPECT_EQ(cut("a(?!b)", "abac"), "<ab>[a]<c>");
  EXPECT_EQ(cut("\\s+(?!\\S)", "a  b  "), "<a>[ ]< b>[  ]");
  EXPECT_EQ(cut("((?=[\\p{L}])([^a-z]))+", "ABcD1"), "[AB]<c>[D]<1>");
  EXPECT_EQ(cut("(?i:'s|'ll)", "'S'Ll'x"), "['S]['Ll]<'x>");
  EXPECT_EQ(cut("^a|b$", "aab"), "[a]<a>[b]");
}

TEST(SplitRegex, knows_classes_of_characters) {
  EXPECT_EQ(cut("\\p{L}+", "ab\xC3\xA9\xE4\xBD\xA0 1"), "[ab\xC3\xA9\xE4\xBD\xA0]< 1>");
  EXPECT_EQ(cut("\\p{Lu}", "aBc"), "<a>[B]<c>");
  EXPECT_EQ(cut("\\P{L}+", "a1 b"), "<a>[1 ]<b>");
  EXPECT_EQ(cut("[^\\s\\p{L}\\p{N}]+", "a!? 1"), "<a>[!?]< 1>");
  EXPECT_EQ(cut("[\\p{L}&&[^a-c]]+", "abcdE"), "<abc>[dE]");
  EXPECT_EQ(cut("[a\\-z]+", "a-zb"), "[a-z]<b>");
  EXPECT_EQ(cut("[]a]+", "]a"), "[]a]");
  EXPECT_EQ(cut("[\\u4e00-\\u9fff]+", "x\xE4\xBD\xA0"), "<x>[\xE4\xBD\xA0]");
  EXPECT_EQ(cut("\\x{41}\\x42", "AB"), "[AB]");
  EXPECT_EQ(cut("\\s", "a\xC2\xA0\xE3\x80\x80"), "<a>[\xC2\xA0][\xE3\x80\x80]");
  EXPECT_EQ(cut("\\d+", "12\xD9\xA3"), "[12\xD9\xA3]");
  EXPECT_EQ(cut(".", "a\n"), "[a]<\n>");
}

TEST(SplitRegex, refuses_what_it_does_not_know_and_says_where) {
  for (const char* pattern :
       {"(?<=a)b", "a+?", "(?:a*)*", "(?:a|b){3}", "\\w", "\\bx", "\\p{Han}", "(?x:a)", "a{1001}",
        "[a[b]]", "[[:alpha:]]", "(?:a)++", "(?:a?b?)+"}) {
    const auto regex = SplitRegex::compile(pattern);
    ASSERT_FALSE(regex) << pattern;
    EXPECT_EQ(regex.code(), Code::kUnsupported) << pattern;
    EXPECT_NE(regex.error().message().find("byte "), std::string_view::npos);
  }
  for (const char* pattern : {"(a", "a)", "[a", "*a", "a{", "a{2", "a{3,2}", "[z-a]", "\\", "\\p{L",
                              "\\u12", "\xFF", "[a-\\s]"})
    EXPECT_EQ(SplitRegex::compile(pattern).code(), Code::kInvalid) << pattern;
  EXPECT_EQ(SplitRegex::compile(std::string(9000, 'a')).code(), Code::kUnsupported);
  EXPECT_EQ(SplitRegex::compile(std::string(40, '(') + "a" + std::string(40, ')')).code(),
            Code::kUnsupported);
}

TEST(SplitRegex, stops_when_its_budget_or_its_stack_of_choices_is_spent) {
  const auto steep = SplitRegex::compile("(?:a|aa)+$");
  ASSERT_TRUE(steep);
  SplitRegex::Budget budget{100'000, false};
  SplitRegex::Match match;
  EXPECT_FALSE(steep.value().find(std::string(40, 'a') + "b", 0, match, budget));
  EXPECT_TRUE(budget.spent);
  const auto deep = SplitRegex::compile("(?:a|b)+c");
  ASSERT_TRUE(deep);
  budget = {10'000'000, false};
  EXPECT_FALSE(deep.value().find(std::string(100'000, 'a'), 0, match, budget));
  EXPECT_TRUE(budget.spent);
}

TEST(SplitRegex, matches_without_heap) {
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer has its own allocator";
  for (const SplitRule& rule : split_rules()) {
    for (const std::string_view pattern : rule.patterns) {
      const auto regex = SplitRegex::compile(pattern);
      ASSERT_TRUE(regex) << rule.names[0] << ": " << regex.error().message();
      SplitRegex::Budget budget{1'000'000, false};
      SplitRegex::Match match;
      const size_t before = n_heap_calls();
      for (size_t at = 0;
           regex.value().find("It's 12345  caf\xC3\xA9!!\r\n\n x", at, match, budget);)
        at = match.end;
      EXPECT_EQ(n_heap_calls() - before, 0u);
      EXPECT_FALSE(budget.spent);
    }
  }
}

TEST(SplitPatterns, are_found_by_every_name_once) {
  for (const char* name :
       {"llama-bpe", "llama3", "qwen2", "gpt-2", "falcon", "deepseek-coder", "smollm", "default",
        "deepseek-v3", "gpt-4o", "tekken", "deepseek-r1-qwen", "starcoder"})
    EXPECT_NE(find_split_rule(name), nullptr) << name;
  EXPECT_EQ(find_split_rule("unheard-of"), nullptr);
  EXPECT_EQ(find_split_rule(""), nullptr);
  EXPECT_TRUE(find_split_rule("llama-bpe")->whole_words);
  EXPECT_FALSE(find_split_rule("qwen2")->whole_words);
}

TEST(SplitPatterns, cut_as_the_rules_say) {
  const auto first = [](const char* name, std::string_view text) {
    return cut(find_split_rule(name)->patterns[0], text);
  };
  EXPECT_EQ(first("llama-bpe", "It'S 12345 x!\n\n y  z"),
            "[It]['S][ ][123][45][ x][!\n\n][ y][ ][ z]");
  EXPECT_EQ(first("qwen2", "a12\r\nb"), "[a][1][2][\r\n][b]");
  EXPECT_EQ(first("gpt-2", "it's 12!  x'S"), "[it]['s][ 12][!][ ][ x]['][S]");
  EXPECT_EQ(first("gpt-4o", "iPhone HTTPServer don't"), "[i][Phone][ HTTPServer][ don't]");
}

}  // namespace
}  // namespace outrider::text_test
