// outrider conform --adapter: the adapter of a driving stack, as a shared object written in C.
#include <gtest/gtest.h>

#include "support.h"

namespace outrider::cli_test {
namespace {

std::string adapter(const char* name) {
  return std::string(OUTRIDER_BUILD_DIR) + "/lib/" + name + ".so";
}

TEST(ConformAdapter, a_good_one_passes_and_says_what_it_overrides) {
  const Outcome words = run({"conform", "--adapter", adapter("adapter_c11")});
  EXPECT_EQ(words.status, 0) << words.out << words.err;
  EXPECT_TRUE(words.out.ends_with(" passed, 0 failed\n")) << words.out;
  const Json json = document(run({"conform", "--adapter", adapter("adapter_c11"), "--json"}));
  ASSERT_NE(json.find("failed"), nullptr);
  EXPECT_EQ(json.find("failed")->integer(), 0);
  EXPECT_EQ(json.find("overridden")->items().size(), 6u);
}

TEST(ConformAdapter, a_bad_one_fails_and_the_check_is_named) {
  const Outcome bad = run({"conform", "--adapter", adapter("adapter_bad"), "--json"});
  EXPECT_EQ(bad.status, 1) << bad.err;
  const Json json = document(bad);
  ASSERT_NE(json.find("checks"), nullptr);
  EXPECT_EQ(json.find("failed")->integer(), 1);
  bool named = false;
  for (const Json& check : json.find("checks")->items())
    named |=
        check.find("name")->text() == "in_control" && check.find("outcome")->text() == "failed";
  EXPECT_TRUE(named);
}

TEST(ConformAdapter, FC49_what_is_no_adapter_is_told_with_status_2) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"conform", "--adapter", "/nowhere/a.so"},
        std::vector<std::string>{"conform", "x.so", "--adapter", adapter("adapter_c11")},
        std::vector<std::string>{"conform"}, std::vector<std::string>{"conform", "x.so"}}) {
    std::vector<std::string> with = words;
    with.push_back("--json");
    const Outcome outcome = run(with);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    document(outcome);
  }
  const Outcome other = run({"conform", "--adapter", adapter("provider_gguf"), "--json"});
  EXPECT_EQ(other.status, 1) << other.err;  // there, and found to be none
  document(other);
}

}  // namespace
}  // namespace outrider::cli_test
