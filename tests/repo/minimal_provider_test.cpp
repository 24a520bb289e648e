// The provider of docs/guides/writing-a-provider.md keeps the rules that the guide teaches.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "host/conform.h"
#include "outrider/host.h"
#include "repo/docs_files.h"

namespace outrider::test {
namespace {

const std::string kProvider = std::string(OUTRIDER_BUILD_DIR) + "/lib/provider_minimal.so";
const char* const kConfig = R"({"model_family": "hold"})";

class MinimalProvider : public testing::Test {
 protected:
  void SetUp() override {
    char reason[256] = {};
    ASSERT_EQ(outrider_open(kProvider.c_str(), kConfig, &session_, reason, sizeof reason), FRT_OK)
        << reason;
  }
  void TearDown() override { outrider_close(session_); }

  int set_state(float a, float b, float c) {
    const float values[] = {a, b, c};
    return outrider_set_input(session_, 0, values, sizeof values);
  }
  int get_actions(float (&out)[3]) {
    uint64_t written = 0;
    return outrider_get_output(session_, 1, out, sizeof out, &written);
  }
  outrider_session* session_ = nullptr;
};

TEST_F(MinimalProvider, computes_its_action) {
  float out[3] = {};
  ASSERT_EQ(set_state(1, -2, 0.5f), FRT_OK);
  ASSERT_EQ(outrider_tick(session_), FRT_OK) << outrider_session_error(session_);
  ASSERT_EQ(get_actions(out), FRT_OK);
  EXPECT_EQ(out[0], -0.1f * 1);
  EXPECT_EQ(out[1], -0.1f * -2);
  EXPECT_EQ(out[2], -0.1f * 0.5f);
}

TEST_F(MinimalProvider, keeps_the_stale_rules) {
  float out[3];
  EXPECT_EQ(outrider_tick(session_), FRT_ERR_INVALID);
  EXPECT_EQ(get_actions(out), FRT_ERR_NOT_READY);
  ASSERT_EQ(set_state(1, 1, 1), FRT_OK);
  EXPECT_EQ(get_actions(out), FRT_ERR_NOT_READY);
  ASSERT_EQ(outrider_tick(session_), FRT_OK);
  EXPECT_EQ(get_actions(out), FRT_OK);
  EXPECT_EQ(set_state(1, NAN, 1), FRT_ERR_INVALID);
  EXPECT_EQ(get_actions(out), FRT_ERR_NOT_READY);
  EXPECT_EQ(outrider_tick(session_), FRT_ERR_INVALID) << "the old state must be gone";
}

TEST_F(MinimalProvider, says_why_it_refuses) {
  EXPECT_EQ(outrider_set_input(session_, 0, "1234", 4), FRT_ERR_INVALID);
  EXPECT_NE(std::string(outrider_session_error(session_)).find("12 bytes"), std::string::npos);
  float one = 0;
  uint64_t written = 0;
  EXPECT_EQ(outrider_get_output(session_, 1, &one, sizeof one, &written), FRT_ERR_STORAGE);
  EXPECT_EQ(written, 12u);
}

TEST(MinimalProviderOpen, takes_its_one_key_and_nothing_else) {
  for (const char* json : {"{}", R"({"model_family":"pi0"})", R"({"model_family":"hold","x":1})",
                           R"({"model_family":"hold"} x)", ""}) {
    outrider_session* session = nullptr;
    EXPECT_EQ(outrider_open(kProvider.c_str(), json, &session, nullptr, 0), FRT_ERR_INVALID)
        << json;
    EXPECT_EQ(session, nullptr);
  }
}

TEST(MinimalProviderOpen, passes_the_contract_suite_with_our_stricter_rules) {
  host::ConformOptions options;
  options.strict = true;
  const host::ConformReport report = host::conform(kProvider, kConfig, options);
  EXPECT_EQ(report.failed, 0) << host::to_text(report);
  EXPECT_GT(report.passed, 20) << host::to_text(report);
}

// The guide shows parts of the file: they must be parts of the file.
TEST(MinimalProviderGuide, shows_code_that_is_in_the_file) {
  const std::string code = read_text(kRoot / "examples/provider_minimal.c");
  const std::string guide = read_text(kRoot / "docs/guides/writing-a-provider.md");
  int n_lines = 0;
  bool inside = false;
  for (const std::string& line : lines_of(guide)) {
    if (line.rfind("```", 0) == 0) {
      inside = line == "```c";
    } else if (inside && !line.empty()) {
      ++n_lines;
      EXPECT_NE(code.find(line + "\n"), std::string::npos) << line;
    }
  }
  EXPECT_GT(n_lines, 20);
}

}  // namespace
}  // namespace outrider::test
