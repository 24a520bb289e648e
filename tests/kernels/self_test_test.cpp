#include "kernels/self_test.h"

#include <gtest/gtest.h>

#include <limits>

#include "reference.h"

namespace outrider::test {
namespace {

TEST(FC34, every_kernel_table_of_this_machine_computes_what_the_scalar_one_does) {
  const auto good = self_test();
  EXPECT_TRUE(good) << good.error().text;
}

TEST(FC34, a_table_that_computes_something_else_is_named_with_the_computation) {
  const auto wanted = run_self_test("scalar");
  ASSERT_TRUE(wanted);
  ASSERT_GE(wanted.value().size(), 13u);
  for (size_t t = 0; t < wanted.value().size(); ++t) {
    const SelfTestResult& test = wanted.value()[t];
    ASSERT_EQ(test.bounds.size(), test.values.size());
    for (const size_t at : {size_t{0}, test.values.size() - 1}) {
      // A value of its magnitude's own size, and the bound is no licence: word salad is found.
      for (const float wrong :
           {test.values[at] + 2 * test.bounds[at], test.values[at] - 2 * test.bounds[at],
            std::numeric_limits<float>::quiet_NaN()}) {
        auto got = wanted.value();
        got[t].values[at] = wrong;
        const auto compared = compare_self_test("avx9", got, wanted.value());
        ASSERT_EQ(compared.code(), Code::kFailed) << test.what << " " << at << " " << wrong;
        const std::string text = compared.error().text;
        EXPECT_NE(text.find("kernel table avx9, " + test.what), std::string::npos) << text;
        EXPECT_NE(text.find("value " + std::to_string(at)), std::string::npos) << text;
      }
    }
    for (const float bound : test.bounds) EXPECT_LT(bound, 2e-3f) << test.what;
  }
}

TEST(FC34, a_table_that_is_not_there_is_refused) {
  EXPECT_EQ(run_self_test("vulkan").code(), Code::kUnsupported);
}

}  // namespace
}  // namespace outrider::test
