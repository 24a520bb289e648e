// Commands on a text model that make-model wrote.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

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

// A tick is one token, which may be a part of a character: its text is not ready then, the token
// is.
TEST(LlmCommands, bench_and_doctor_tick_whatever_the_first_token_is) {
  for (const int i : {1, 2, 32, 42}) {  // of the last three it is
    const std::string prompt = "go " + std::to_string(i);
    const Outcome outcome = run({"bench", tiny_model(), "--ticks", "1", "--warmup", "1",
                                 "--no-limits", "--idle", "0", "--prompt", prompt});
    EXPECT_EQ(outcome.status, 0) << prompt << ": " << outcome.err;
  }
  EXPECT_EQ(run({"doctor", tiny_model()}).status, 0);
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

// A small plan: one of two tools, an amount, nothing else.
constexpr const char* kPlanSchema =
    R"({"type":"object","properties":{"tool":{"enum":["move","grip"]},)"
    R"("times":{"type":"integer","minimum":1,"maximum":20}},"required":["tool","times"]})";

void expect_small_plan(const std::string& text) {
  const auto plan = Json::parse(text);
  ASSERT_TRUE(plan) << text;
  const Json *tool = plan.value().find("tool"), *times = plan.value().find("times");
  ASSERT_TRUE(tool != nullptr && times != nullptr) << text;
  EXPECT_TRUE(tool->text() == "move" || tool->text() == "grip") << text;
  EXPECT_TRUE(times->is_integer() && times->integer() >= 1 && times->integer() <= 20) << text;
}

TEST(LlmCommands, run_with_a_schema_answers_in_json_that_follows_it) {
  const std::string folder = scratch("llm_schema");
  const std::string schema = write(folder + "/plan.json", kPlanSchema);
  for (const char* seed : {"1", "2", "3"}) {
    const Outcome outcome = run({"run", tiny_model(), "--prompt", "tidy up", "--schema", schema,
                                 "--set", "temp=3", "--seed", seed, "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json report = document(outcome);
    expect_small_plan(report.find("text")->text());
    EXPECT_TRUE(report.find("complete")->boolean());
    EXPECT_EQ(report.find("end")->text(), "eog");
  }
  // The text alone, and by the key; where it is from is told.
  const Outcome plain = run({"run", tiny_model(), "--prompt", "tidy up", "--schema", schema});
  ASSERT_EQ(plain.status, 0) << plain.err;
  expect_small_plan(plain.out);
  const Outcome key = run({"run", tiny_model(), "--prompt", "tidy up", "--set",
                           "schema_path=" + schema, "--set", "plan=infer", "--json"});
  ASSERT_EQ(key.status, 0) << key.err;
  EXPECT_EQ(document(key).find("text")->text() + "\n", plain.out);
  EXPECT_TRUE(document(key).find("complete")->boolean());
  const Outcome shown = run({"run", tiny_model(), "--schema", schema, "--print-config"});
  EXPECT_NE(shown.out.find("--schema"), std::string::npos) << shown.out;
}

TEST(LlmCommands, an_answer_that_is_cut_before_its_json_is_whole_is_no_good_answer) {
  const std::string schema = write(scratch("llm_schema_cut") + "/plan.json", kPlanSchema);
  const Outcome outcome = run({"run", tiny_model(), "--prompt", "tidy up", "--schema", schema,
                               "--max-tokens", "3", "--json"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_FALSE(document(outcome).find("complete")->boolean());
  EXPECT_NE(outcome.err.find("max_tokens"), std::string::npos) << outcome.err;
}

TEST(LlmCommands, chat_with_a_schema_answers_every_line_by_it) {
  const std::string folder = scratch("llm_schema_chat");
  const std::string schema = write(folder + "/plan.json", kPlanSchema);
  const Outcome outcome =
      run({"chat", tiny_model(), "--schema", schema, "--set", "temp=2", "--json"},
          {.stdin_path = write(folder + "/lines.txt", "tidy up\nand now the cups\n")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json report = document(outcome);
  ASSERT_EQ(report.find("turns")->items().size(), 2u);
  for (const Json& turn : report.find("turns")->items()) {
    expect_small_plan(turn.find("text")->text());
    EXPECT_TRUE(turn.find("complete")->boolean());
  }
}

TEST(LlmCommands, a_schema_that_cannot_be_followed_is_refused_in_words) {
  const std::string folder = scratch("llm_schema_bad");
  const auto refused = [&](const std::string& schema, int status, const char* word) {
    const std::string path = write(folder + "/bad.json", schema);
    const Outcome outcome = run({"run", tiny_model(), "--prompt", "x", "--schema", path});
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_NE(outcome.err.find(word), std::string::npos) << schema << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("bad.json"), std::string::npos) << outcome.err;
  };
  refused("no json", 2, "line 1");
  refused(R"({"type":"string","pattern":"(a+)+b"})", 1, "pattern");
  refused(R"({"$ref":"https://example.com/plan.json"})", 1, "$ref");
  refused(R"({"type":"string","maxLength":1000000})", 2, "max_states");
  refused(R"({"title":")" + std::string(2 << 20, 'x') + "\"}", 2, "1048576");
  EXPECT_EQ(run({"run", tiny_model(), "--prompt", "x", "--schema", folder + "/absent"}).status, 2);
  const Outcome policy =
      run({"run", tiny_policy(), "--prompt", "x", "--schema", folder + "/bad.json"});
  EXPECT_EQ(policy.status, 2) << policy.err;
  EXPECT_NE(policy.err.find("--schema"), std::string::npos) << policy.err;
}

// The example of the guide, on tiny models: a plan by the schema, its steps calls of a policy.
TEST(LlmCommands, the_planner_of_the_example_calls_the_policy_as_a_tool) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's library cannot be loaded into a Python built without it";
#endif
  if (std::system("python3 -c 'import ctypes' 2>/dev/null") != 0)
    GTEST_SKIP() << "python3 does not run here";
  const std::string folder = scratch("llm_planner"), source = OUTRIDER_SOURCE_DIR;
  const std::string command = source + "/examples/planner/run.sh -r 3 -o " + folder + " -b " +
                              OUTRIDER_BUILD_DIR + " > " + folder + "/out 2> " + folder + "/err";
  ASSERT_EQ(std::system(command.c_str()), 0) << read(folder + "/err");
  int n_plans = 0, n_calls = 0, n_chunks = 0;
  std::istringstream told(read(folder + "/out"));
  for (std::string line; std::getline(told, line);) {
    const auto parsed = Json::parse(line);
    ASSERT_TRUE(parsed) << line;
    if (const Json* plan = parsed.value().find("plan")) {
      ++n_plans;
      EXPECT_TRUE(!plan->items().empty() && plan->items().size() <= 3) << line;
      continue;
    }
    ++n_calls;
    const Json *call = parsed.value().find("call"), *result = parsed.value().find("result");
    ASSERT_TRUE(call != nullptr && result != nullptr) << line;
    if (call->find("tool")->text() != "act") continue;
    ++n_chunks;
    EXPECT_GT(result->find("actions")->integer(), 0) << line;
    EXPECT_FALSE(result->find("state")->items().empty()) << line;
  }
  EXPECT_GT(n_plans, 0);
  EXPECT_GE(n_calls, n_plans);
  EXPECT_GT(n_chunks, 0) << "the policy was never called:\n" << read(folder + "/out");
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
