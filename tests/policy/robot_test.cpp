// Conversions of robots: worked values of pi-policy.md 4.5, recorded ALOHA vectors, round trips.
#include "policy/robot.h"

#include <cmath>

#include "policy/support.h"

namespace outrider::policy_test {
namespace {

RobotTransform aloha() {
  auto made = RobotTransform::make({Robot::kAloha, true, 14, 14, {}, {}});
  EXPECT_TRUE(made);
  return made.value();
}

TEST(Aloha, worked_values) {
  EXPECT_NEAR(aloha_gripper_to_model(0), -1.079866, 1e-6);
  EXPECT_NEAR(aloha_gripper_to_model(0.5), -0.140056, 1e-6);
  EXPECT_NEAR(aloha_gripper_to_model(1), 0.945653, 1e-6);
  EXPECT_NEAR(aloha_gripper_to_robot(0.5), 0.790087, 1e-6);
}

TEST(Aloha, grippers_far_outside_stay_finite) {
  for (const double v : {-1e9, -0.466127, -0.4661274, -1.0, 5.0, 1e9, -0.01844 / 0.03956})
    EXPECT_TRUE(std::isfinite(aloha_gripper_to_model(v))) << v;
}

TEST(Aloha, recorded_state_and_actions) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-preproc");
  const Json meta = read_json(folder + "/meta.json");
  const Json& sample = *meta.find("aloha");
  const RobotTransform robot = aloha();
  std::vector<double> model(14);
  const auto wanted = doubles(*sample.find("decoded_state"));
  robot.state_to_model(floats(*sample.find("state")), model);
  for (size_t i = 0; i < 14; ++i) EXPECT_NEAR(model[i], wanted[i], 1e-6) << i;
  const auto& rows = sample.find("model_actions")->items();
  for (size_t r = 0; r < rows.size(); ++r) {
    auto row = doubles(rows[r]);
    const auto encoded = doubles(sample.find("encoded_actions")->items()[r]);
    robot.actions_to_robot(row);
    for (size_t i = 0; i < 14; ++i) EXPECT_NEAR(row[i], encoded[i], 1e-9) << r << " " << i;
    robot.actions_from_robot(row);
    const auto back = doubles(rows[r]);
    for (size_t i = 0; i < 14; ++i) EXPECT_NEAR(row[i], back[i], 1e-12) << r << " " << i;
  }
}

TEST(Aloha, signs_turn_the_six_joints_they_should) {
  const RobotTransform robot = aloha();
  const std::vector<float> ones(14, 1.0f);
  std::vector<double> model(14);
  robot.state_to_model(ones, model);
  for (const size_t i : {1u, 2u, 8u, 9u}) EXPECT_EQ(model[i], -1) << i;
  for (const size_t i : {0u, 3u, 4u, 5u, 7u, 10u, 11u, 12u}) EXPECT_EQ(model[i], 1) << i;
  EXPECT_NEAR(model[6], 0.945653, 1e-6);
  EXPECT_NEAR(model[13], 0.945653, 1e-6);
}

TEST(Aloha, without_adapt_to_pi_nothing_changes) {
  auto made = RobotTransform::make({Robot::kAloha, false, 14, 14, {}, {}});
  ASSERT_TRUE(made);
  const std::vector<float> raw(14, 0.5f);
  std::vector<double> model(14), row(14, 0.25);
  made.value().state_to_model(raw, model);
  made.value().actions_to_robot(row);
  EXPECT_EQ(model, std::vector<double>(14, 0.5));
  EXPECT_EQ(row, std::vector<double>(14, 0.25));
}

TEST(Aloha, other_widths_are_refused) {
  for (const int64_t width : {0, 7, 13, 15, 32}) {
    EXPECT_EQ(RobotTransform::make({Robot::kAloha, true, width, 14, {}, {}}).code(), Code::kShape);
    EXPECT_EQ(RobotTransform::make({Robot::kAloha, true, 14, width, {}, {}}).code(), Code::kShape);
  }
}

TEST(Custom, declared_conversions_pick_scale_and_shift) {
  auto made = RobotTransform::make(
      {Robot::kCustom, true, 3, 2, {{2, 0.5, 1}, {0, -1, 0}}, {{1, 100, 0}, {0, 2, -1}}});
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(made.value().model_state_width(), 2);
  const std::vector<float> raw = {1, 2, 4};
  std::vector<double> model(2);
  made.value().state_to_model(raw, model);
  EXPECT_EQ(model, (std::vector<double>{3, -1}));
  std::vector<double> row = {0.25, 0.5, 9};  // the third is behind the robot's
  made.value().actions_to_robot(row);
  EXPECT_EQ(row, (std::vector<double>{50, -0.5, 9}));
  ASSERT_TRUE(made.value().invertible());
  made.value().actions_from_robot(row);
  EXPECT_EQ(row, (std::vector<double>{0.25, 0.5, 9}));
}

TEST(Custom, a_dimension_read_twice_cannot_be_turned_back) {
  auto made = RobotTransform::make({Robot::kCustom, true, 1, 2, {}, {{0, 1, 0}, {0, 2, 0}}});
  ASSERT_TRUE(made);
  EXPECT_FALSE(made.value().invertible());
}

TEST(Custom, conversions_beyond_the_width_or_without_scale_are_refused) {
  for (const AffineDim bad : {AffineDim{-1, 1, 0}, AffineDim{2, 1, 0}, AffineDim{0, 0, 0},
                              AffineDim{0, NAN, 0}, AffineDim{0, 1, INFINITY}}) {
    EXPECT_EQ(RobotTransform::make({Robot::kCustom, true, 2, 2, {bad}, {}}).code(), Code::kInvalid);
    EXPECT_EQ(RobotTransform::make({Robot::kCustom, true, 2, 2, {}, {bad, bad}}).code(),
              Code::kInvalid);
  }
  EXPECT_EQ(RobotTransform::make({Robot::kCustom, true, 2, 2, {}, {{0, 1, 0}}}).code(),
            Code::kShape);
  const std::vector<AffineDim> many(kMaxConverted + 1);
  EXPECT_EQ(
      RobotTransform::make({Robot::kCustom, true, 2, static_cast<int64_t>(many.size()), {}, many})
          .code(),
      Code::kShape);
}

TEST(Robots, have_their_names) {
  for (const Robot robot : {Robot::kCustom, Robot::kLibero, Robot::kDroid, Robot::kAloha}) {
    auto named = robot_named(robot_name(robot));
    ASSERT_TRUE(named);
    EXPECT_EQ(named.value(), robot);
  }
  EXPECT_EQ(robot_named("ur5").code(), Code::kInvalid);
}

}  // namespace
}  // namespace outrider::policy_test
