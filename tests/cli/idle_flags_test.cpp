// A flag that would change nothing is refused with what it goes with; a misspelt one gets a near
// name or none.
#include <gtest/gtest.h>

#include "support.h"

namespace outrider::cli_test {
namespace {

struct Row {
  std::vector<std::string> words;
  const char* flag;  // named in the refusal
  const char* why;   // part of it
};

std::string driving() {
  static const std::string path = [] {
    const std::string file = scratch("idle") + "/driving.onnx";
    return run({"make-model", "driving", file}).status == 0 ? file : std::string();
  }();
  return path;
}

std::string remote() {
  return write(scratch("idle") + "/remote.json",
               R"({"model_family": "remote", "endpoint": "tcp://127.0.0.1:9", "model": "x"})");
}

void expect_refused(const Row& row) {
  const Outcome outcome = run(row.words);
  std::string line;
  for (const std::string& word : row.words) line += word + " ";
  EXPECT_EQ(outcome.status, 2) << line << outcome.err;
  EXPECT_NE(outcome.err.find(row.flag), std::string::npos) << line << outcome.err;
  EXPECT_NE(outcome.err.find(row.why), std::string::npos) << line << outcome.err;
  EXPECT_NE(outcome.err.find("no effect here"), std::string::npos) << line << outcome.err;
}

TEST(IdleFlags, of_a_command_alone_are_refused_before_anything_is_opened) {
  const std::string out = scratch("idle") + "/never.gguf";
  for (const Row& row : std::vector<Row>{
           {{"inspect", "x.gguf", "--state", "0"}, "--state", "--tokens"},
           {{"inspect", "x.gguf", "--json", "--markdown"}, "--markdown", "--json"},
           {{"inspect", "x.gguf", "--tokens", "x", "--markdown"}, "--markdown", "--tokens"},
           {{"inspect", "x.gguf", "--tokens", "x", "--print-config"}, "--tokens", "--print-config"},
           {{"make-model", "pi05", out, "--pair", "smolvlm"}, "--pair", "mllm"},
           {{"make-model", "driving", out, "--pair", "smolvlm"}, "--pair", "mllm"},
           {{"make-model", "llm", out, "--layout", "stateful"}, "--layout", "driving"},
           {{"make-model", "mllm", out, "--layout", "stateful"}, "--layout", "driving"},
           {{"help", "--markdown", "--completions", "bash"}, "--completions", "--markdown"},
           {{"conform", "--adapter", "x.so", "--strict"}, "--strict", "providers"},
           {{"conform", "--adapter", "x.so", "--served", "x"}, "--served", "providers"},
           {{"conform", "--adapter", "x.so", "--call-timeout", "3"}, "--call-timeout", "providers"},
           {{"link", "push", "tcp://127.0.0.1:9", "x", "--pings", "3"}, "--pings", "link check"},
           {{"link", "check", "tcp://127.0.0.1:9", "--name", "x"}, "--name", "link push"},
           {{"link", "models", "tcp://127.0.0.1:9", "--mmproj", "x"}, "--mmproj", "link push"},
           {{"link", "check", "tcp://127.0.0.1:9", "--timeout", "3"}, "--timeout", "link push"},
           {{"link", "check", "tcp://127.0.0.1:9", "--reason", "x"}, "--reason", "power-off"},
           {{"top", "tcp://127.0.0.1:9", "--json", "--every", "2"}, "--every", "one look"},
           {{"doctor", "--threads", "2"}, "--threads", "CONFIG|FILE"},
           {{"doctor", "--set", "a=b"}, "--set", "CONFIG|FILE"}})
    expect_refused(row);
}

TEST(IdleFlags, that_a_family_has_no_key_for_are_refused_with_where_to_say_it) {
  if (driving().empty()) GTEST_SKIP() << "make-model driving is not in this build";
  for (const Row& row : std::vector<Row>{
           {{"run", driving(), "--seed", "4"}, "--seed", "noise_seed"},
           {{"run", driving(), "--views", "2"}, "--views", "n_views"},
           {{"inspect", driving(), "--print-config", "--views", "2"}, "--views", "n_views"},
           {{"run", driving(), "--max-tokens", "4"}, "--max-tokens", "max_tokens"},
           {{"run", driving(), "--mmproj", "x.gguf"}, "--mmproj", "mmproj_path"},
           {{"bench", driving(), "--prompt", "x"}, "--prompt", "no such input"},
           {{"bench", driving(), "--state", "0"}, "--state", "no such input"},
           {{"loop", driving(), "--prompt", "x", "--seconds", "0.1"},
            "--prompt",
            "no input prompt"},
           {{"run", remote(), "--threads", "2"}, "--threads", "outrider serve"},
           {{"loop", remote(), "--threads", "2"}, "--threads", "outrider serve"},
           {{"run", remote(), "--seed", "2"}, "--seed", "outrider serve"},
           {{"bench", remote(), "--views", "2"}, "--views", "outrider serve"}})
    expect_refused(row);
}

TEST(IdleFlags, that_do_have_an_effect_are_taken) {
  if (driving().empty()) GTEST_SKIP() << "make-model driving is not in this build";
  const std::string out = scratch("idle") + "/stateful.onnx";
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"run", driving(), "--threads", "1"},
           {"inspect", driving(), "--markdown"},
           {"make-model", "driving", out, "--layout", "stateful"},
           {"help", "--completions", "bash"},
           {"loop", driving(), "--seconds", "0.1", "--threads", "1", "--print-config"}}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 0) << words[0] << ": " << outcome.err;
  }
}

TEST(IdleFlags, a_key_far_from_all_others_is_told_where_keys_are_listed) {
  if (driving().empty()) GTEST_SKIP() << "make-model driving is not in this build";
  const Outcome far = run({"run", driving(), "--set", "noise_seed=3"});
  EXPECT_EQ(far.status, 2);
  EXPECT_EQ(far.err.find("did you mean"), std::string::npos) << far.err;
  EXPECT_NE(far.err.find("docs/reference/config.md"), std::string::npos) << far.err;
  const Outcome near = run({"run", driving(), "--set", "n_thread=3"});
  EXPECT_NE(near.err.find("did you mean \"n_threads\"?"), std::string::npos) << near.err;
}

}  // namespace
}  // namespace outrider::cli_test
