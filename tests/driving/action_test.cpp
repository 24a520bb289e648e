// From outputs to an action, with values worked out by hand.
#include "driving/action.h"

#include <gtest/gtest.h>

#include <cmath>

#include "driving/facts.h"

namespace outrider::driving::test {
namespace {

// The big output with a plan whose column c at time t is start + slope * t.
struct Model {
  Spec spec = read_spec(big_queued(), 4).value();
  HeadParser heads = HeadParser::make(spec, HeadsWanted::kRequired).value();
  std::vector<float> raw = std::vector<float>(18452, 0.0f);
  void line(int64_t column, float start, float slope) {
    for (int64_t row = 0; row < 33; ++row)
      raw[static_cast<size_t>(917 + row * 15 + column)] = start + slope * plan_time_s(row);
  }
  void set_action(float first, float second) {
    raw[2062] = first;
    raw[2063] = second;
  }
  ActionMaker maker(const char* rule, float lateral_tau = 0, float longitudinal_tau = 0) {
    return {{ActionMaker::rule_of(rule, spec, heads).value(), lateral_tau, longitudinal_tau},
            spec,
            heads};
  }
  bool step(ActionMaker& maker, float v, float lateral = 0.5f, float longitudinal = 0.5f) {
    return heads.parse(raw.data()) && maker.step(raw.data(), heads, v, lateral, longitudinal);
  }
};

TEST(DrivingAction, of_the_head_by_generation) {
  Model m;
  m.set_action(8, -1.5f);
  ActionMaker v16 = m.maker("v16"), v14 = m.maker("v14"), automatic = m.maker("auto");
  ASSERT_TRUE(m.step(v16, 4));
  EXPECT_FLOAT_EQ(v16.last().curvature, 0.5f);
  EXPECT_FLOAT_EQ(v16.last().acceleration, -1.5f);
  EXPECT_EQ(v16.last().stop, 0);
  ASSERT_TRUE(m.step(v16, 0.5f));
  EXPECT_FLOAT_EQ(v16.last().curvature, 8.0f) << "below 1 m/s the speed counts as 1";
  ASSERT_TRUE(m.step(v14, 4));
  EXPECT_FLOAT_EQ(v14.last().curvature, 0.08f);
  ASSERT_TRUE(m.step(automatic, 4));
  EXPECT_FLOAT_EQ(automatic.last().curvature, 0.5f);
}

TEST(DrivingAction, of_the_plan) {
  Model m;
  m.line(3, 10, 2);         // speed 10 + 2 t
  m.line(6, 1.5f, 0);       // acceleration now
  m.line(11, 0.02f, 0.1f);  // yaw
  m.line(14, 0.3f, 0);      // yaw rate
  ActionMaker maker = m.maker("plan");
  // A line is met by interpolation at any time: v_T - v_0 = 2 T, so a = 2 * 2 - 1.5.
  for (const float t : {0.05f, 0.29f, 0.3f, 0.5f, 3.0f}) {
    ASSERT_TRUE(m.step(maker, 5, t, t));
    EXPECT_NEAR(maker.last().acceleration, 2.5f, 2e-4) << t;
    EXPECT_NEAR(maker.last().curvature, 2 * (0.02f + 0.1f * t) / (5 * t) - 0.3f / 5, 1e-4) << t;
  }
  // Beyond the last row its value stands.
  ASSERT_TRUE(m.step(maker, 5, 20, 20));
  EXPECT_NEAR(maker.last().acceleration, 2 * 20.0f / 20 - 1.5f, 1e-4);
}

TEST(DrivingAction, below_0_3_s_the_plan_starts_straight) {
  Model m;
  // A kink between the rows at 0.0098 s and 0.039 s, seen by interpolation and not by the rule.
  for (int64_t row = 0; row < 33; ++row)
    m.raw[static_cast<size_t>(917 + row * 15 + 3)] = row < 2 ? 10.0f : 10.0f + plan_time_s(row);
  ASSERT_TRUE(m.heads.parse(m.raw.data()));
  const auto plan = m.heads.values().subspan(m.heads.find("plan")->offset, 495);
  const float at_03 = plan_at(plan, 3, 0.3f);
  EXPECT_NEAR(at_03, 10.3f, 1e-4);
  EXPECT_NEAR(plan_at(plan, 3, 0.15f), 10 + 0.5f * (at_03 - 10), 1e-5);
  EXPECT_EQ(plan_at(plan, 3, 0), 10.0f);
}

TEST(DrivingAction, smoothing_stop_and_the_curvature_of_a_standing_car) {
  Model m;
  ActionMaker maker = m.maker("v16", 0, 0.3f);
  m.set_action(4, 1);
  ASSERT_TRUE(m.step(maker, 2));
  EXPECT_NEAR(maker.last().acceleration, 0.15351828f, 1e-7) << "k of 0.3 s";
  EXPECT_FLOAT_EQ(maker.last().curvature, 1.0f) << "none laterally";
  m.set_action(40, 0.05f);
  ASSERT_TRUE(m.step(maker, 0.3f));
  EXPECT_FLOAT_EQ(maker.last().curvature, 1.0f) << "kept at 0.3 m/s";
  EXPECT_EQ(maker.last().stop, 0) << "0.3 m/s is not below 0.3";
  ASSERT_TRUE(m.step(maker, 0.29f));
  EXPECT_EQ(maker.last().stop, 1) << "by what the model says, before smoothing";
  m.set_action(40, 0.1f);
  ASSERT_TRUE(m.step(maker, 0.29f));
  EXPECT_EQ(maker.last().stop, 0);
  maker.reset();
  EXPECT_EQ(maker.last().acceleration, 0);
  EXPECT_EQ(maker.last().curvature, 0);
}

TEST(DrivingAction, v9_reads_its_own_curvature_or_keeps_the_one_before) {
  Model m;
  m.line(3, 10, 1);
  ActionMaker keeps = m.maker("v9");
  ASSERT_TRUE(m.step(keeps, 5));
  EXPECT_EQ(keeps.last().curvature, 0);
  EXPECT_NEAR(keeps.last().acceleration, 2, 1e-4);
  Model own;
  own.spec.slices.push_back({"desired_curvature", {2062, 2064}});
  own.set_action(0.25f, 0);
  ActionMaker reads = own.maker("v9");
  ASSERT_TRUE(own.step(reads, 5));
  EXPECT_EQ(reads.last().curvature, 0.25f);
}

TEST(DrivingAction, FC22_fails_on_what_is_no_number_and_keeps_the_last) {
  Model m;
  m.set_action(4, 1);
  ActionMaker maker = m.maker("v16"), plan = m.maker("plan");
  ASSERT_TRUE(m.step(maker, 2));
  const float before = maker.last().curvature;
  m.set_action(NAN, 1);
  EXPECT_FALSE(m.step(maker, 2));
  EXPECT_EQ(maker.last().curvature, before);
  m.set_action(0, 0);
  m.line(3, 10, 2);
  ASSERT_TRUE(m.step(plan, 2, 0, 0));
  EXPECT_NEAR(plan.last().acceleration, 4, 1e-3) << "a time of 0 counts as a frame";
  Spec bare = m.spec;
  bare.slices.clear();
  const HeadParser none = HeadParser::make(bare, HeadsWanted::kKnown).value();
  for (const char* rule : {"auto", "v9", "v14", "v15", "v16", "plan"})
    EXPECT_EQ(ActionMaker::rule_of(rule, bare, none).code(), Code::kNotFound) << rule;
}

}  // namespace
}  // namespace outrider::driving::test
