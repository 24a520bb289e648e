// Output that scripts can trust: one document, right status, nothing else on standard output.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/commands.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

// Each command with a failure that needs no model.
const std::vector<std::vector<std::string>>& failures() {
  static const std::vector<std::vector<std::string>> kAll = {
      {"inspect", "none.gguf"},
      {"run", "none.gguf"},
      {"bench", "none.gguf"},
      {"parity", "none.gguf", "none"},
      {"conform", "none.so", "none.json"},
      {"make-model", "pi9", "x.gguf"},
      {"doctor", "none.json"},
      {"demo", "--out", "none/none"},
      {"demo", "--seconds", "x"},
      {"join", "none.json"},
      {"inspect"},
      {"bench", "a", "b", "c"},
      {"nonsense"},
      {},
      {"serve", "x.json"},
      {"inspect", "/"},
      {"inspect", "/dev/null"},
      {"make-model", "driving", "x.onnx", "--type", "f16"},
      {"help", "--nope"},
  };
  return kAll;
}

TEST(FC49, every_failure_is_one_document_with_code_and_text_and_a_nonzero_status) {
  for (std::vector<std::string> words : failures()) {
    words.push_back("--json");
    const Outcome outcome = run(words, {.folder = scratch("fc49")});
    std::string line;
    for (const std::string& word : words) line += word + " ";
    EXPECT_GE(outcome.status, 1) << line;
    EXPECT_LE(outcome.status, 3) << line;
    const Json json = document(outcome);
    const Json* error = json.find("error");
    ASSERT_NE(error, nullptr) << line;
    EXPECT_TRUE(error->find("code")->is_integer()) << line;
    EXPECT_EQ(error->find("exit")->integer(), outcome.status) << line;
    EXPECT_GT(error->find("text")->text().size(), 8u) << line;
    EXPECT_NE(outcome.err, "") << line;
  }
}

TEST(FC49, without_json_a_failure_leaves_standard_output_empty) {
  for (const std::vector<std::string>& words : failures()) {
    const Outcome outcome = run(words, {.folder = scratch("fc49")});
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err, "");
    EXPECT_NE(outcome.status, 0);
  }
}

TEST(FC49, a_broken_pipe_is_quiet) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"help"}, {"doctor"}, {"doctor", "--json"}}) {
    const Outcome outcome = run(words, {.break_pipe = true});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
  }
}

TEST(FC49, a_full_disk_and_a_closed_output_are_status_two_with_text) {
  const Outcome full = run({"doctor", "--json"}, {.stdout_path = "/dev/full"});
  EXPECT_EQ(full.status, 2);
  EXPECT_NE(full.err.find("No space left"), std::string::npos) << full.err;
  const Outcome closed = run({"doctor"}, {.close_stdout = true});
  EXPECT_EQ(closed.status, 2);
  EXPECT_NE(closed.err.find("standard output"), std::string::npos) << closed.err;
}

TEST(FC49, a_closed_output_never_lands_in_a_file_the_command_opens) {
  const std::string policy = tiny_policy();
  ASSERT_NE(policy, "");
  const std::string before = read(policy);
  run({"inspect", policy}, {.close_stdout = true});
  EXPECT_EQ(read(policy), before);
}

TEST(FC49, no_colour_codes_reach_a_pipe_whatever_the_environment_says) {
  for (const char* setting :
       {"NO_COLOR=1", "NO_COLOR=", "TERM=xterm-256color", "LC_ALL=C", "COLUMNS=40", "COLUMNS=-3"}) {
    const Outcome outcome = run({"help"}, {.environment = {setting}});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos) << setting;
  }
}

TEST(FC49, narrow_pages_keep_to_their_width) {
  const Outcome outcome = run({"bench", "--help"}, {.environment = {"COLUMNS=60"}});
  for (size_t at = 0; at < outcome.out.size();) {
    const size_t end = std::min(outcome.out.find('\n', at), outcome.out.size());
    const std::string line = outcome.out.substr(at, end - at);
    if (line.find("  ") != 0 || line.find("outrider") == std::string::npos) {
      EXPECT_LE(line.size(), 64u) << line;
    }
    at = end + 1;
  }
}

TEST(FC49, the_status_of_a_damaged_file_is_one_and_of_a_missing_file_two) {
  const std::string policy = tiny_policy();
  ASSERT_NE(policy, "");
  const std::string folder = scratch("fc49");
  const std::string cut = write(folder + "/cut.gguf", read(policy).substr(0, 5000));
  EXPECT_EQ(run({"inspect", cut}).status, 1);
  EXPECT_EQ(run({"run", cut, "--prompt", "x"}).status, 1);
  EXPECT_EQ(run({"inspect", folder + "/none.gguf"}).status, 2);
  EXPECT_EQ(run({"inspect", write(folder + "/text.gguf", "hello")}).status, 1);
}

}  // namespace
}  // namespace outrider::cli_test
