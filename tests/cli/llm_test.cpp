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

}  // namespace
}  // namespace outrider::cli_test
