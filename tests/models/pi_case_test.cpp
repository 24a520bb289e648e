// Golden cases of the reference policy, every stage, at model level.
#include "models/pi_case.h"

#include <gtest/gtest.h>

#include "kernels/cpu_ops.h"
#include "models/pi_run.h"
#include "support/shared_data.h"

namespace outrider {
namespace {

PiCaseReport run(const std::string& folder, const char* table, int n_threads, Precision precision) {
  auto ops = make_cpu_ops({.n_threads = n_threads, .kernel_table = table});
  EXPECT_TRUE(ops) << ops.error().text;
  if (!ops) return {};
  auto report = run_pi_case(folder, *ops.value(), precision);
  EXPECT_TRUE(report) << report.error().text;
  return report ? report.value() : PiCaseReport{};
}

class ReferencePolicy : public testing::TestWithParam<const char*> {};

TEST_P(ReferencePolicy, matches_every_stage_within_the_stated_tolerance) {
  OUTRIDER_NEED_SHARED(folder, std::string("golden/") + GetParam());
  for (const char* table : {"scalar", ""}) {
    const PiCaseReport report = run(folder, table, 1, Precision::kF32);
    ASSERT_GT(report.stages.size(), 5u);
    for (const PiCaseStage& stage : report.stages) {
      EXPECT_TRUE(stage.passed()) << table << " " << stage.name << ": " << stage.max_abs << " > "
                                  << stage.tolerance;
      EXPECT_LE(stage.tolerance, 5e-4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, ReferencePolicy,
                         testing::Values("openpi-pi0-a", "openpi-pi0-b", "openpi-pi05-a",
                                         "openpi-pi05-b", "openpi-pi05-b-ropebf16",
                                         "openpi-rtc-pi05-b", "openpi-rtctrain-pi05-b",
                                         "openpi-extra-pi05-a"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Every stage of every case in the fast precisions, within the bounds of docs/precision.md.
class FastPrecisions : public testing::TestWithParam<const char*> {};

TEST_P(FastPrecisions, every_stage_is_within_its_bound) {
  OUTRIDER_NEED_SHARED(folder, std::string("golden/") + GetParam());
  const bool guided = std::string(GetParam()).find("rtc-") != std::string::npos;
  struct Bound {
    Precision precision;
    double stage, last, cosine, least;
  };
  for (const Bound& bound : {Bound{Precision::kBf16, guided ? 0.1 : 3e-2, 3e-2, 0.9999, 1e-5},
                             Bound{Precision::kInt8, guided ? 0.6 : 0.2, 0.1, 0.9998, 1e-3}}) {
    const PiCaseReport report = run(folder, "", 1, bound.precision);
    ASSERT_GT(report.stages.size(), 5u);
    for (const PiCaseStage& stage : report.stages) {
      EXPECT_TRUE(stage.passed()) << stage.name << ": " << stage.max_abs << " > "
                                  << stage.tolerance;
      EXPECT_LE(stage.tolerance, bound.stage) << stage.name;
      EXPECT_GE(stage.cosine, 0.999) << stage.name;
    }
    // What the robot gets: the chunk, or the last x of each way of continuing one.
    int n_last = 0;
    for (size_t i = 0; i < report.stages.size(); ++i) {
      const PiCaseStage& stage = report.stages[i];
      const bool last = stage.name == "actions" || i + 1 == report.stages.size() ||
                        (stage.name.find(".x_9") != std::string::npos);
      if (!last) continue;
      ++n_last;
      EXPECT_LE(stage.max_abs, bound.last) << stage.name;
      EXPECT_GE(stage.cosine, bound.cosine) << stage.name;
      EXPECT_GT(stage.max_abs, bound.least) << stage.name << ": is the precision ignored?";
    }
    EXPECT_EQ(n_last, guided ? 2 : 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, FastPrecisions,
                         testing::Values("openpi-pi0-a", "openpi-pi0-b", "openpi-pi05-a",
                                         "openpi-pi05-b", "openpi-pi05-b-ropebf16",
                                         "openpi-rtc-pi05-b", "openpi-rtctrain-pi05-b",
                                         "openpi-extra-pi05-a"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The policy that was recorded in bfloat16 states no tolerance: the f32 policy differs from it by
// 1.3e-2 in the actions.
TEST(ReferencePolicyBf16, all_precisions_are_near_the_recording_in_bfloat16) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-pi05-b-bf16");
  for (const Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    auto ops = make_cpu_ops({.n_threads = 1});
    ASSERT_TRUE(ops);
    const auto report = run_pi_case(folder, *ops.value(), precision, 0.2);
    ASSERT_TRUE(report);
    for (const PiCaseStage& stage : report.value().stages)
      EXPECT_TRUE(stage.passed() && stage.cosine > 0.999) << stage.name << " " << stage.max_abs;
    const PiCaseStage& actions = report.value().stages.back();
    EXPECT_LE(actions.max_abs, precision == Precision::kInt8 ? 0.1 : 3e-2);
  }
}

TEST(ReferencePolicy, a_wrong_rotary_rule_is_seen) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-pi05-b-ropebf16");
  OUTRIDER_NEED_SHARED(plain, "golden/openpi-pi05-b");
  const PiCaseReport rounded = run(folder, "", 1, Precision::kF32),
                     exact = run(plain, "", 1, Precision::kF32);
  EXPECT_TRUE(rounded.passed()) << rounded.first_deviation();
  EXPECT_TRUE(exact.passed()) << exact.first_deviation();
}

TEST(ReferencePolicy, a_folder_without_meta_is_refused) {
  auto ops = make_cpu_ops({.n_threads = 1});
  ASSERT_TRUE(ops);
  const auto report = run_pi_case("/nonexistent", *ops.value(), Precision::kF32);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.code(), Code::kNotFound);
  EXPECT_NE(report.error().message().find("/nonexistent"), std::string_view::npos);
}

}  // namespace
}  // namespace outrider
