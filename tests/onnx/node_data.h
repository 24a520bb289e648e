// The standard's node tests as Debian's libonnx-testdata ships them, and what became of each here.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

namespace outrider::onnx::test {

// "" when the package is not installed.
std::string node_data_dir();

enum class Verdict { kPassed, kFailed, kRefused };

struct NodeResult {
  std::string name;                 // "test_abs"
  std::set<std::string> operators;  // in its graph
  int64_t opset = 0;
  Verdict verdict = Verdict::kFailed;
  std::string why;       // of a failure or refusal
  bool claimed = false;  // every operator in it is one of this build's, in this opset
};

// Runs one folder: model.onnx with every test_data_set_*.
NodeResult run_node_test(const std::string& dir, int n_threads);
// All of a folder's folders, by name.
std::vector<NodeResult> run_node_tests(const std::string& dir, int n_threads);

}  // namespace outrider::onnx::test
