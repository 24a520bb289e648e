// Templates of published models, as the npm packages carry them, and renderings written by hand
// from each format's description: tests/text/vocabularies.sh fetches the packages.
#include <gtest/gtest.h>

#include <filesystem>

#include "chat_fixture.h"
#include "fixtures.h"
#include "language_fixtures.h"

namespace outrider::text_test {
namespace {

class PublishedTemplate : public testing::Test {
 protected:
  // The template of one package; skips the test where there is none.
  void take(const std::string& package) {
    const auto file = vocabularies_dir() / "templates" / (package + ".json");
    if (!std::filesystem::exists(file))
      GTEST_SKIP() << "no vocabularies: run tests/text/vocabularies.sh";
    source_ = read_json(file).find("chat_template")->text();
  }
  std::string source_;
};

TEST_F(PublishedTemplate, of_llama_3_has_header_ids) {
  take("llama3_1");
  if (IsSkipped()) return;
  ChatRequest request = conversation();
  request.bos_token = "<|begin_of_text|>";
  EXPECT_EQ(rendered(source_, request),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n2+2?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

const char* const kQwenTools =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
    "provided with "
    "function signatures within <tools></tools> XML tags:\n<tools>\n"
    "{\"type\": \"function\", \"function\": {\"name\": \"go\", \"description\": \"é\"}}"
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
    "<args-json-object>}\n</tool_call><|im_end|>\n";

TEST_F(PublishedTemplate, of_qwen_2_5_has_its_own_system_text_tools_and_tool_answers) {
  take("qwen2_5");
  if (IsSkipped()) return;
  EXPECT_EQ(
      rendered(source_, conversation()),
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
      "<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n"
      "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n");
  const Json tools = json(R"([{"type":"function","function":{"name":"go","description":"é"}}])");
  const Json calls = json(R"({"tool_calls":[{"function":{"name":"go","arguments":{"to":[1,2]}}},
                                            {"name":"go","arguments":{}}]})");
  ChatRequest request = with_system();
  request.messages = {{"system", "S"},
                      {"user", "U"},
                      {"assistant", "", {}, &calls},
                      {"tool", "r1"},
                      {"tool", "r2"}};
  request.tools = &tools;
  EXPECT_EQ(rendered(source_, request),
            std::string("<|im_start|>system\nS\n\n") + kQwenTools +
                "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant"
                "\n<tool_call>\n{\"name\": \"go\", \"arguments\": {\"to\": [1, 2]}}\n</tool_call>"
                "\n<tool_call>\n{\"name\": \"go\", \"arguments\": {}}\n</tool_call><|im_end|>\n"
                "<|im_start|>user\n<tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n"
                "</tool_response><|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(PublishedTemplate, of_qwen_3_drops_old_thoughts_and_can_switch_thinking_off) {
  take("qwen3");
  if (IsSkipped()) return;
  ChatRequest request = conversation();
  request.messages[1].content = "<think>\nhm\n</think>\n\nHello!";
  EXPECT_EQ(rendered(source_, request),
            "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n"
            "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n");
  const Json off = json(R"({"enable_thinking":false})");
  request.variables = &off;
  EXPECT_TRUE(
      rendered(source_, request).ends_with("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  // Behind the last question the thoughts of a tool call stay.
  const Json tools = json(R"([{"type":"function","function":{"name":"go","description":"é"}}])");
  const Json calls = json(
      R"({"reasoning_content":"\nplan\n","tool_calls":[{"function":{"name":"go","arguments":"{}"}}]})");
  request.variables = nullptr;
  request.tools = &tools;
  request.messages = {{"user", "U"}, {"assistant", "on it", {}, &calls}, {"tool", "done"}};
  EXPECT_EQ(
      rendered(source_, request),
      std::string("<|im_start|>system\n") + kQwenTools +
          "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n<think>\nplan\n</think>\n\non it"
          "\n<tool_call>\n{\"name\": \"go\", \"arguments\": {}}\n</tool_call><|im_end|>\n"
          "<|im_start|>user\n<tool_response>\ndone\n</tool_response><|im_end|>\n"
          "<|im_start|>assistant\n");
}

TEST_F(PublishedTemplate,
       of_gemma_3_puts_system_text_in_front_of_the_first_turn_and_marks_pictures) {
  take("gemma3");
  if (IsSkipped()) return;
  ChatRequest request = with_system();
  request.bos_token = "<bos>";
  request.messages[1].parts = {{true, ""}, {false, " What is this? "}};
  EXPECT_EQ(rendered(source_, request),
            "<bos><start_of_turn>user\nBe brief.\n\n<start_of_image>What is this?<end_of_turn>\n"
            "<start_of_turn>model\nHello!<end_of_turn>\n<start_of_turn>user\n2+2?<end_of_turn>\n"
            "<start_of_turn>model\n");
}

TEST_F(PublishedTemplate, of_deepseek_v3_joins_system_texts_and_closes_tool_calls) {
  take("deepseek_v3");
  if (IsSkipped()) return;
  ChatRequest request = with_system();
  request.bos_token = "<｜begin▁of▁sentence｜>";
  request.messages.insert(request.messages.begin() + 1, {"system", "Be kind."});
  EXPECT_EQ(rendered(source_, request),
            "<｜begin▁of▁sentence｜>Be brief.\n\nBe kind.<｜User｜> Hi <｜Assistant｜>Hello!"
            "<｜end▁of▁sentence｜><｜User｜>2+2?<｜Assistant｜>");
  const Json calls = json(R"({"content":null,"tool_calls":[
      {"type":"function","function":{"name":"go","arguments":"{\"a\":1}"}},
      {"type":"function","function":{"name":"stop","arguments":"{}"}}]})");
  request.messages = {{"user", "U"}, {"assistant", "", {}, &calls}, {"tool", "r1"}, {"tool", "r2"}};
  EXPECT_EQ(
      rendered(source_, request),
      "<｜begin▁of▁sentence｜><｜User｜>U<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
      "function<｜tool▁sep｜>go\n```json\n{\"a\":1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>"
      "function<｜tool▁sep｜>stop\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
      "<｜end▁of▁sentence｜><｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>r1<｜tool▁output▁end｜>"
      "\n<｜tool▁output▁begin｜>r2<｜tool▁output▁end｜><｜tool▁outputs▁end｜>");
}

TEST_F(PublishedTemplate, of_mistral_nemo_has_instructions) {
  take("mistral_nemo");
  if (IsSkipped()) return;
  EXPECT_EQ(rendered(source_, conversation()), "<s>[INST] Hi [/INST]Hello!</s>[INST]2+2?[/INST]");
}

}  // namespace
}  // namespace outrider::text_test
