// FC-34: a backend that this build does not have is refused by every face, wherever the key stands;
// nothing falls back to another one.
#include <gtest/gtest.h>

#include "cli/support.h"

namespace outrider::cli_test {
namespace {

std::string made(const std::vector<std::string>& words, const std::string& path) {
  std::vector<std::string> all = {"make-model"};
  all.insert(all.end(), words.begin(), words.end());
  all.push_back(path);
  const Outcome outcome = run(all);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return path;
}

void expect_refused(const std::vector<std::string>& words, const std::string& backend) {
  const Outcome outcome = run(words, {.stdin_path = "/dev/null"});
  EXPECT_EQ(outcome.status, 1) << words.back() << ": " << outcome.err;
  EXPECT_NE(outcome.err.find("backend is \"" + backend + "\", this build has \"cpu\""),
            std::string::npos)
      << words.back() << ": " << outcome.err;
  EXPECT_EQ(outcome.out, "") << words.back();
}

TEST(FC34, an_absent_backend_is_refused_by_every_face_and_nothing_falls_back) {
  const std::string folder = scratch("fc34"), policy = tiny_policy();
  ASSERT_FALSE(policy.empty());
  const std::string language = made({"llm", "--size", "tiny"}, folder + "/llm.gguf"),
                    pair = made({"mllm", "--size", "tiny"}, folder + "/mllm.gguf");
  for (const std::string backend : {"cuda", "vulkan", "CPU"}) {
    const std::string set = "backend=" + backend;
    for (const std::string& path : {policy, language, pair})
      expect_refused({"doctor", path, "--set", set}, backend);
    const std::string onnx =
        write(folder + "/onnx.json", R"({"model_family":"onnx","model_path":"/nowhere.onnx",)"
                                     R"("backend":")" +
                                         backend + "\"}");
    expect_refused({"doctor", onnx}, backend);
    // Behind another face: the standby of a tandem, the policy behind a camera, a served model.
    const std::string inner =
        write(folder + "/inner.json", R"({"model_family":"llm","model_path":")" + language +
                                          R"(","n_ctx":64,"n_threads":1,"temp":0,"top_k":1,"top_p":1,"seed":1,"max_tokens":4,"backend":")" + backend + "\"}");
    const std::string tandem =
        write(folder + "/tandem.json",
              R"({"model_family":"tandem","standby":")" + inner + R"(","lead":")" + inner + "\"}");
    const std::string camera =
        write(folder + "/camera.json",
              R"({"model_family":"camera","runtime":")" + inner + R"(","width":64,"height":48})");
    expect_refused({"doctor", tandem}, backend);
    expect_refused({"doctor", camera}, backend);
    expect_refused({"serve", inner, "--listen", "tcp://127.0.0.1:0"}, backend);
  }
}

TEST(FC34, doctor_compares_the_kernels_of_this_machine_with_the_scalar_ones) {
  const Outcome outcome = run({"doctor", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Json report = document(outcome);
  int n_kernels = 0;
  for (const Json& check : report.find("checks")->items()) {
    if (check.find("name")->text() != "kernels") continue;
    ++n_kernels;
    EXPECT_TRUE(check.find("ok")->boolean()) << check.find("found")->text();
  }
  EXPECT_EQ(n_kernels, 1);
}

}  // namespace
}  // namespace outrider::cli_test
