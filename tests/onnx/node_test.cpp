// The standard's node tests: every one whose operators are claimed passes, or is refused at open
// for a reason that is listed.
#include <gtest/gtest.h>

#include <cstdio>

#include "onnx/node_data.h"

namespace outrider::onnx::test {
namespace {

TEST(NodeTests, those_of_claimed_operators_pass_and_the_rest_is_refused_in_words) {
  const std::string dir = node_data_dir();
  if (dir.empty()) GTEST_SKIP() << "the node tests are absent: package libonnx-testdata";
  size_t passed = 0, refused = 0, unclaimed = 0;
  for (const int n_threads : {1, 2}) {
    passed = refused = unclaimed = 0;
    for (const NodeResult& r : run_node_tests(dir, n_threads)) {
      if (r.verdict == Verdict::kPassed) {
        ++passed;
      } else if (r.verdict == Verdict::kFailed) {
        ADD_FAILURE() << r.name << ": " << r.why;
      } else if (r.claimed) {
        ++refused;
        if (n_threads == 1)
          std::printf("refused  %-45s %s\n", r.name.c_str(), r.why.c_str() + r.why.find(": ") + 2);
      } else {
        ++unclaimed;
        if (n_threads == 1)
          std::printf("no operator  %-41s %s\n", r.name.c_str(),
                      r.why.c_str() + r.why.find(": ") + 2);
      }
    }
  }
  std::printf("%zu passed, %zu refused by claimed operators, %zu of operators not claimed\n",
              passed, refused, unclaimed);
  EXPECT_GE(passed, 500u);
}

}  // namespace
}  // namespace outrider::onnx::test
