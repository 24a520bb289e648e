// FC-46: JSON that is deep, huge or out of range, at every command that reads a file of it.
#include <gtest/gtest.h>

#include "support.h"

namespace outrider::cli_test {
namespace {

std::string repeated(const std::string& text, size_t n) {
  std::string out;
  out.reserve(text.size() * n);
  for (size_t i = 0; i < n; ++i) out += text;
  return out;
}

struct Hostile {
  const char* name;
  std::string text;
};
std::vector<Hostile> hostile() {
  return {{"arrays", repeated("[", 100'000)},
          {"objects", repeated("{\"a\":", 100'000)},
          {"in_an_ignored_field", "{\"model_family\":\"fake\",\"x\":" + repeated("[", 100'000)},
          {"many_values", "{\"a\":[" + repeated("0,", 2'500'000) + "0]}"},
          {"large_number", "{\"model_family\":1e999}"},
          {"twice", "{\"model_family\":\"fake\",\"model_family\":\"fake\"}"},
          {"no_utf8", "{\"model_family\":\"\xff\xfe\"}"},
          {"nul", "{\"model_family\":\"a\\u0000b\"}"},
          {"nul_byte", std::string("{\"model_family\":\"a\0b\"}", 22)}};
}

TEST(FC46, every_command_that_reads_json_refuses_what_is_deep_or_huge_in_one_line) {
  const std::string fake = fake_provider();
  if (fake.empty()) GTEST_SKIP() << "the scripted provider is not in this build";
  const std::string dir = scratch("fc46"), good = fake_config();
  for (const Hostile& input : hostile()) {
    const std::string file = write(dir + "/" + input.name + ".json", input.text);
    const std::vector<std::string> commands[] = {{"serve", file},
                                                 {"run", file},
                                                 {"doctor", file},
                                                 {"inspect", file},
                                                 {"loop", file},
                                                 {"bench", file},
                                                 {"conform", fake, file},
                                                 {"join", "tcp://127.0.0.1:1", "--standby", file},
                                                 {"bench", good, "--provider", fake, "--ticks", "3",
                                                  "--no-limits", "--idle", "0", "--compare", file}};
    for (const auto& words : commands) {
      SCOPED_TRACE(words[0] + " of " + input.name);
      const Outcome refused = run(words);
      EXPECT_EQ(refused.status, 2) << refused.err;
      ASSERT_FALSE(refused.err.empty());
      EXPECT_EQ(refused.err.find('\n'), refused.err.size() - 1) << refused.err;
      EXPECT_NE(refused.err.find(input.name), std::string::npos) << refused.err;
      EXPECT_LT(refused.err.size(), 1200u);
    }
  }
}

}  // namespace
}  // namespace outrider::cli_test
