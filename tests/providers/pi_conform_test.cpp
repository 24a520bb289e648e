// The contract suite against our own provider: every rule, the stricter ones too.
#include <gtest/gtest.h>

#include "host/conform.h"
#include "pi_fixture.h"

namespace outrider::test {
namespace {

void expect_conforming(PiFamily family) {
  host::ConformOptions options;
  options.strict = true;
  const auto report =
      host::conform(provider_path(), config_json({.pair = tiny_pair(family)}), options);
  EXPECT_GT(report.passed, 45);
  EXPECT_EQ(report.failed, 0) << host::to_text(report);
}

TEST(PiConform, pi0_passes_the_contract_suite) {
  expect_conforming(PiFamily::kPi0);
}
TEST(PiConform, pi05_passes_the_contract_suite) {
  expect_conforming(PiFamily::kPi05);
}

}  // namespace
}  // namespace outrider::test
