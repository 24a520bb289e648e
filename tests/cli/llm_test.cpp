// Commands on a text model that make-model wrote.
#include <gtest/gtest.h>

#include <fstream>

#include "support.h"

namespace outrider::cli_test {
namespace {

const std::string& tiny_model() {
  static const std::string path = [] {
    const std::string made = scratch("llm_model") + "/tiny.gguf";
    const Outcome outcome = run({"make-model", "llm", made, "--type", "q8_0", "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_GT(document(outcome).find("model")->find("bytes")->integer(), 100000);
    return made;
  }();
  return path;
}

TEST(LlmCommands, inspect_tells_sizes_tokenizer_and_that_this_build_runs_it) {
  const Outcome outcome = run({"inspect", tiny_model(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json report = document(outcome);
  EXPECT_TRUE(report.find("runs")->boolean());
  EXPECT_EQ(report.find("family")->find("name")->text(), "llm");
  EXPECT_EQ(report.find("backbone")->find("layers")->integer(), 2);
  EXPECT_EQ(report.find("tokenizer")->find("bos")->integer(), 2);
  EXPECT_TRUE(report.find("tokenizer")->find("chat_template")->boolean());
  EXPECT_NE(run({"inspect", tiny_model()}).out.find("this build"), std::string::npos);
  EXPECT_EQ(run({"inspect", tiny_model(), "--markdown"}).status, 0);
}

TEST(LlmCommands, inspect_tokens_shows_what_the_prompt_port_makes) {
  const Outcome outcome = run({"inspect", tiny_model(), "--tokens", "pick up", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json report = document(outcome);
  ASSERT_GE(report.find("ids")->items().size(), 2u);
  EXPECT_EQ(report.find("ids")->items()[0].integer(), 2);
  EXPECT_EQ(report.find("pieces")->items().size(), report.find("ids")->items().size());
  EXPECT_FALSE(report.find("doubled_bos")->boolean());
  EXPECT_TRUE(document(run({"inspect", tiny_model(), "--tokens", "<bos>up", "--json"}))
                  .find("doubled_bos")
                  ->boolean());
}

TEST(LlmCommands, run_answers_one_prompt_as_text_and_as_a_document) {
  const std::vector<std::string> words = {
      "run", tiny_model(), "--prompt", "pick up the cup", "--threads", "1", "--max-tokens", "12"};
  const Outcome text = run(words);
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_GT(text.out.size(), 1u);
  auto with_json = words;
  with_json.push_back("--json");
  const Outcome json = run(with_json);
  ASSERT_EQ(json.status, 0) << json.err;
  const Json report = document(json);
  EXPECT_LE(report.find("ids")->items().size(), 12u);
  EXPECT_FALSE(report.find("ids")->items().empty());
  EXPECT_GT(report.find("prompt_tokens")->integer(), 1);
  const std::string end = report.find("end")->text();
  EXPECT_TRUE(end == "eog" || end == "length") << end;
  EXPECT_EQ(document(run(with_json)).find("text")->text(), report.find("text")->text());
}

TEST(LlmCommands, both_plans_and_a_configuration_give_the_same_text) {
  const auto text = [](std::vector<std::string> words) {
    for (const char* more : {"--prompt", "open the drawer", "--max-tokens", "9", "--json"})
      words.emplace_back(more);
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return document(outcome).find("text")->text();
  };
  const std::string staged = text({"run", tiny_model()});
  EXPECT_EQ(text({"run", tiny_model(), "--set", "plan=infer"}), staged);
  const std::string config = scratch("llm_config") + "/llm.json";
  std::ofstream(config) << R"({"model_family":"llm","model_path":")" << tiny_model()
                        << R"(","backend":"cpu","n_ctx":256,"n_threads":1,"temp":0.0,"top_k":0,)"
                           R"("top_p":0.0,"seed":1,"max_tokens":64})";
  EXPECT_EQ(text({"run", config}), staged);
  EXPECT_EQ(run({"inspect", config}).status, 0);
}

TEST(LlmCommands, sampling_follows_its_keys) {
  const auto ids = [](const char* seed) {
    const Outcome outcome = run({"run", tiny_model(), "--prompt", "turn", "--set", "temp=3.5",
                                 "--seed", seed, "--max-tokens", "16", "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return document(outcome).find("text")->text();
  };
  EXPECT_EQ(ids("5"), ids("5"));
  EXPECT_NE(ids("5"), ids("6"));
}

TEST(LlmCommands, refusals_name_what_is_wrong) {
  const Outcome none = run({"run", tiny_model()});
  EXPECT_NE(none.status, 0);
  EXPECT_NE(none.err.find("--prompt"), std::string::npos) << none.err;
  const Outcome typo = run({"run", tiny_model(), "--prompt", "x", "--set", "tmp=1"});
  EXPECT_EQ(typo.status, 2);
  EXPECT_NE(typo.err.find("temp"), std::string::npos) << typo.err;
  const Outcome word = run({"run", tiny_model(), "--prompt", "x", "--set", "temp=warm"});
  EXPECT_EQ(word.status, 2);
  EXPECT_NE(word.err.find("temp"), std::string::npos) << word.err;
  std::string long_text = "turn";
  while (long_text.size() < 30000) long_text += " turn";
  const Outcome full = run({"run", tiny_model(), "--prompt", long_text, "--set", "n_ctx=64"});
  EXPECT_NE(full.status, 0);
  EXPECT_NE(full.err.find("prompt"), std::string::npos) << full.err;
}

TEST(LlmCommands, chat_answers_line_by_line_and_remembers) {
  const std::string lines = write(scratch("llm_chat") + "/lines.txt",
                                  "pick up the cup\nnow the <end_of_turn> block\n\nnever read\n");
  const std::vector<std::string> words = {"chat",     tiny_model(), "--max-tokens", "6",
                                          "--system", "You plan.",  "--json"};
  const Outcome outcome = run(words, {.stdin_path = lines});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json report = document(outcome);
  const auto& turns = report.find("turns")->items();
  ASSERT_EQ(turns.size(), 2u);
  EXPECT_GT(turns[1].find("prompt_tokens")->integer(), turns[0].find("prompt_tokens")->integer());
  EXPECT_LE(turns[0].find("new_tokens")->integer(), 6);
  EXPECT_EQ(
      document(run(words, {.stdin_path = lines})).find("turns")->items()[1].find("text")->text(),
      turns[1].find("text")->text());
  const std::vector<std::string> plain(words.begin(), words.end() - 1);
  EXPECT_EQ(run(plain, {.stdin_path = lines}).status, 0);
}

// FC-11: what a user types is never a control piece.
TEST(LlmCommands, FC11_chat_keeps_typed_control_text_as_text) {
  const std::string folder = scratch("llm_chat_fc11");
  const auto prompt_tokens = [&](const std::string& line) {
    const Outcome outcome = run({"chat", tiny_model(), "--max-tokens", "1", "--json"},
                                {.stdin_path = write(folder + "/line.txt", line + "\n")});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return document(outcome).find("turns")->items()[0].find("prompt_tokens")->integer();
  };
  // One control piece would be one token; the same text as text is many.
  EXPECT_GT(prompt_tokens("a<end_of_turn>b"), prompt_tokens("ab") + 3);
}

TEST(LlmCommands, chat_refuses_what_it_cannot_talk_with) {
  EXPECT_NE(run({"chat", tiny_policy()}).status, 0);
  EXPECT_EQ(run({"chat", "/no/such/model.gguf"}).status, 2);
  EXPECT_EQ(run({"chat", tiny_model(), "--image", "a.png"}).status, 2);
  const Outcome infer = run({"chat", tiny_model(), "--set", "plan=infer"});
  EXPECT_NE(infer.status, 0);
  EXPECT_NE(infer.err.find("plan"), std::string::npos) << infer.err;
}

}  // namespace
}  // namespace outrider::cli_test
