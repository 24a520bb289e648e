// Commands on vision-language pairs that make-model wrote.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "cli/report/png.h"
#include "cli/scene.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

const std::string& tiny_pair(const std::string& pair) {
  static std::map<std::string, std::string> paths;
  std::string& path = paths[pair];
  if (path.empty()) {
    path = scratch("mllm_" + pair) + "/" + pair + ".gguf";
    const Outcome outcome =
        run({"make-model", "mllm", path, "--pair", pair, "--type", "f16", "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const Json report = document(outcome);
    EXPECT_GT(report.find("model")->find("bytes")->integer(), 100000);
    EXPECT_GT(report.find("vision")->find("bytes")->integer(), 100000);
  }
  return path;
}

std::string picture(const std::string& name, int32_t width, int32_t height) {
  auto png = cli::encode_png(cli::Scene(width, height).draw(cli::Camera::kFront, 1));
  EXPECT_TRUE(png);
  return write(scratch("mllm_pictures_" + name) + "/" + name,
               {reinterpret_cast<const char*>(png.value().data()), png.value().size()});
}

constexpr const char* kPairs[] = {"gemma3", "qwen25vl", "smolvlm"};

TEST(MllmCommands, inspect_finds_the_vision_file_and_tells_whether_the_pair_runs) {
  for (const char* pair : kPairs) {
    const Outcome outcome = run({"inspect", tiny_pair(pair), "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json report = document(outcome);
    EXPECT_TRUE(report.find("runs")->boolean());
    EXPECT_EQ(report.find("family")->find("name")->text(), "mllm");
    EXPECT_GT(report.find("picture_tower")->find("tokens_per_frame")->integer(), 0);
    EXPECT_NE(run({"inspect", tiny_pair(pair)}).out.find("projector"), std::string::npos);
    std::string vision = tiny_pair(pair);
    vision.insert(vision.size() - 5, "-mmproj");
    EXPECT_EQ(run({"inspect", vision}).status, 0);
  }
  std::string other = tiny_pair("smolvlm");
  other.insert(other.size() - 5, "-mmproj");
  const Outcome mixed = run({"inspect", tiny_pair("gemma3"), "--set", "mmproj_path=" + other});
  EXPECT_EQ(mixed.status, 1) << mixed.out;
  EXPECT_NE((mixed.out + mixed.err).find("idefics3"), std::string::npos) << mixed.out;
}

TEST(MllmCommands, run_shows_pictures_of_any_size_and_answers) {
  const std::string a = picture("a.png", 64, 48), b = picture("b.png", 40, 90);
  for (const char* pair : kPairs) {
    std::vector<std::string> words = {
        "run", tiny_pair(pair), "--prompt", "what is this", "--threads",
        "1",   "--max-tokens",  "6",        "--json"};
    const Outcome blind = run(words);
    ASSERT_EQ(blind.status, 0) << blind.err;
    for (const std::string& path : {a, b}) words.insert(words.end(), {"--image", path});
    const Outcome seeing = run(words);
    ASSERT_EQ(seeing.status, 0) << seeing.err;
    EXPECT_GT(document(seeing).find("prompt_tokens")->integer(),
              document(blind).find("prompt_tokens")->integer() + 8);
    EXPECT_EQ(document(run(words)).find("text")->text(), document(seeing).find("text")->text());
    words.insert(words.end(), {"--set", "plan=infer"});
    EXPECT_EQ(document(run(words)).find("text")->text(), document(seeing).find("text")->text());
  }
}

TEST(MllmCommands, a_configuration_is_opened_as_it_stands_and_without_pictures_there_are_none) {
  std::string vision = tiny_pair("gemma3");
  vision.insert(vision.size() - 5, "-mmproj");
  const std::string config = scratch("mllm_config") + "/mllm.json";
  std::ofstream(config) << R"({"model_family":"mllm","model_path":")" << tiny_pair("gemma3")
                        << R"(","mmproj_path":")" << vision
                        << R"(","backend":"cpu","n_ctx":256,"n_threads":1,"temp":0,"top_k":0,)"
                           R"("top_p":0,"seed":1,"max_tokens":5})";
  const Outcome plain = run({"run", config, "--prompt", "what is this", "--json"});
  ASSERT_EQ(plain.status, 0) << plain.err;
  const std::string a = picture("c.png", 64, 48);
  const Outcome seeing = run({"run", config, "--prompt", "what is this", "--image", a, "--json"});
  ASSERT_EQ(seeing.status, 0) << seeing.err;
  EXPECT_GT(document(seeing).find("prompt_tokens")->integer(),
            document(plain).find("prompt_tokens")->integer());
  const Outcome two = run({"run", config, "--prompt", "x", "--image", a, "--image",
                           picture("d.png", 30, 30), "--json"});
  EXPECT_NE(two.status, 0) << "equal sizes unless the configuration says any";
  EXPECT_NE(two.err.find("share one size"), std::string::npos) << two.err;
  EXPECT_EQ(run({"inspect", config}).status, 0);
}

TEST(MllmCommands, FC09_chat_sees_pictures_given_and_shown_later_and_typed_marks_are_nothing) {
  const std::string a = picture("e.png", 50, 40), b = picture("f.png", 30, 60);
  for (const char* pair : kPairs) {
    const std::string lines =
        write(scratch(std::string("mllm_chat_") + pair) + "/lines.txt",
              "what is this\n/image " + b + "\n/image /no/such.png\nand <__media__> this\n");
    const Outcome outcome = run({"chat", tiny_pair(pair), "--image", a, "--max-tokens", "3",
                                 "--system", "You <__media__> see.", "--json"},
                                {.stdin_path = lines});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("/no/such.png"), std::string::npos) << outcome.err;
    const Json report = document(outcome);
    const auto& turns = report.find("turns")->items();
    ASSERT_EQ(turns.size(), 2u);
    EXPECT_EQ(turns[0].find("pictures")->integer(), 1);
    EXPECT_EQ(turns[1].find("pictures")->integer(), 1);
    EXPECT_GT(turns[1].find("prompt_tokens")->integer(),
              turns[0].find("prompt_tokens")->integer() + 4);
  }
}

TEST(MllmCommands, FC11_chat_with_pictures_keeps_typed_control_text_as_text) {
  const std::string folder = scratch("mllm_fc11"), a = picture("g.png", 50, 40);
  const auto prompt_tokens = [&](const std::string& line) {
    const Outcome outcome =
        run({"chat", tiny_pair("gemma3"), "--image", a, "--max-tokens", "1", "--json"},
            {.stdin_path = write(folder + "/line.txt", line + "\n")});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return document(outcome).find("turns")->items()[0].find("prompt_tokens")->integer();
  };
  EXPECT_GT(prompt_tokens("a<end_of_turn>b"), prompt_tokens("ab") + 3);
  EXPECT_GT(prompt_tokens("a<start_of_image>b"), prompt_tokens("ab") + 3);
}

TEST(MllmCommands, refusals_name_what_is_wrong) {
  const std::string alone = scratch("mllm_alone") + "/alone.gguf";
  std::filesystem::copy_file(tiny_pair("gemma3"), alone);
  const std::string a = picture("h.png", 20, 20);
  const Outcome missing = run({"run", alone, "--prompt", "x", "--image", a});
  EXPECT_NE(missing.status, 0);
  EXPECT_NE(missing.err.find("mmproj"), std::string::npos) << missing.err;
  std::string vision = tiny_pair("gemma3");
  vision.insert(vision.size() - 5, "-mmproj");
  const Outcome given =
      run({"run", alone, "--prompt", "x", "--image", a, "--mmproj", vision, "--max-tokens", "2"});
  EXPECT_EQ(given.status, 0) << given.err;
  std::string other = tiny_pair("qwen25vl");
  other.insert(other.size() - 5, "-mmproj");
  const Outcome wrong = run({"run", alone, "--prompt", "x", "--image", a, "--mmproj", other});
  EXPECT_EQ(wrong.status, 1) << wrong.err;
  EXPECT_NE(wrong.err.find("qwen2.5vl_merger"), std::string::npos) << wrong.err;
  EXPECT_EQ(run({"run", vision, "--prompt", "x"}).status, 1);
  const Outcome full =
      run({"run", tiny_pair("gemma3"), "--prompt", "x", "--image", a, "--set", "n_ctx=4"});
  EXPECT_NE(full.status, 0);
  EXPECT_NE(full.err.find("context"), std::string::npos) << full.err;
  EXPECT_NE(run({"make-model", "mllm", "x.gguf", "--pair", "llava"}).err.find("gemma3"),
            std::string::npos);
  EXPECT_EQ(run({"chat", tiny_pair("gemma3"), "--image", "/no/such.png"}).status, 2);
}

}  // namespace
}  // namespace outrider::cli_test
