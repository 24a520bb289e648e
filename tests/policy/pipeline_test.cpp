// State in, chunk out, against independent double arithmetic. FC-20, FC-21, FC-23.
#include "policy/pipeline.h"

#include <cmath>
#include <limits>
#include <random>

#include "policy/support.h"
#include "support/hot_counter.h"

namespace outrider::policy_test {
namespace {

PolicyPipeline make(const PolicyDescription& p, PiFamily family, int64_t width, int64_t columns) {
  auto made = PolicyPipeline::make(p, family, width, columns);
  EXPECT_TRUE(made) << made.error().text;
  return std::move(made.value());
}

TEST(Pipeline, recorded_delta_actions) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-preproc");
  const Json meta = read_json(folder + "/meta.json");
  const Json& sample = *meta.find("delta");
  PolicyDescription p = small_robot(14, 14);
  p.state_form = p.action_form = NormForm::kNone;
  for (const Json& item : sample.find("mask")->items()) p.delta_mask.push_back(item.boolean());
  PolicyPipeline pipeline = make(p, PiFamily::kPi0, 14, 14);
  pipeline.take_state(floats(*sample.find("state")));
  const auto& rows = sample.find("actions")->items();
  std::vector<float> chunk, out(rows.size() * 14), back(out.size());
  for (const Json& row : rows)
    for (const float v : floats(row)) chunk.push_back(v);
  EXPECT_TRUE(pipeline.finish(chunk, out));
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto wanted = doubles(sample.find("absolute")->items()[r]);
    for (size_t i = 0; i < 14; ++i) EXPECT_NEAR(out[r * 14 + i], wanted[i], 1e-6);
  }
  pipeline.to_model(chunk, back);  // the recorded relative actions
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto wanted = doubles(sample.find("delta")->items()[r]);
    for (size_t i = 0; i < 14; ++i) EXPECT_NEAR(back[r * 14 + i], wanted[i], 1e-6);
  }
}

// Everything at once, written out in double.
TEST(Pipeline, the_whole_way_equals_independent_arithmetic) {
  for (const bool quantile : {false, true}) {
    const PiFamily family = quantile ? PiFamily::kPi05 : PiFamily::kPi0;
    PolicyDescription p = policy_defaults(Robot::kAloha, family);
    p.statistics = {plain_statistics(14), plain_statistics(14), "test"};
    PolicyPipeline pipeline = make(p, family, 32, 14);
    std::mt19937 random(11);
    std::uniform_real_distribution<float> draw(-1, 1);
    std::vector<float> state(14), chunk(3 * 32), out(3 * 14);
    for (float& v : state) v = draw(random);
    for (float& v : chunk) v = draw(random);
    pipeline.take_state(state);
    ASSERT_TRUE(pipeline.finish(chunk, out));
    const double signs[14] = {1, -1, -1, 1, 1, 1, 1, 1, -1, -1, 1, 1, 1, 1};
    for (size_t i = 0; i < 14; ++i) {
      const auto x = static_cast<double>(i);
      double s = signs[i] * static_cast<double>(state[i]);
      if (i % 7 == 6) {
        const double v = s * 0.03956 + 0.01844;
        const double q = (0.022 * 0.022 + v * v - 0.036 * 0.036) / (2 * 0.022 * v);
        s = (std::asin(std::min(1.0, std::max(-1.0, q))) - 0.5476) / (1.6296 - 0.5476);
      }
      const double n =
          quantile ? (s + 1 + x) / (3 + 2 * x + 1e-6) * 2 - 1 : (s - x) / (1 + x + 1e-6);
      EXPECT_NEAR(pipeline.normalised_state()[i], n, 1e-12);
      EXPECT_EQ(pipeline.padded_state()[i], static_cast<float>(n));
      for (size_t r = 0; r < 3; ++r) {
        const double y = static_cast<double>(chunk[r * 32 + i]);
        double a = quantile ? (y + 1) / 2 * (3 + 2 * x + 1e-6) - 1 - x : y * (1 + x + 1e-6) + x;
        if (i % 7 != 6) a += s;
        a *= signs[i];
        if (i % 7 == 6) a = (a + 0.5476 + 0.6213) / (1.4910 + 0.6213);
        EXPECT_NEAR(out[r * 14 + i], a, 2e-6 * std::max(1.0, std::abs(a))) << r << " " << i;
      }
    }
    for (size_t i = 14; i < 32; ++i) EXPECT_EQ(pipeline.padded_state()[i], 0);
  }
}

TEST(Pipeline, a_chunk_turned_back_is_the_chunk) {
  for (const Robot robot : {Robot::kLibero, Robot::kDroid, Robot::kAloha}) {
    for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
      PolicyDescription p = policy_defaults(robot, family);
      const int64_t n = p.action_width;
      p.statistics = {plain_statistics(p.state_width()), plain_statistics(n), "test"};
      PolicyPipeline pipeline = make(p, family, 32, n);
      ASSERT_TRUE(pipeline.can_return());
      const std::vector<float> state(static_cast<size_t>(p.state_width()), 0.25f);
      pipeline.take_state(state);
      std::vector<float> chunk(2 * 32, 0.0f), robot_rows(static_cast<size_t>(2 * n)), back(2 * 32);
      for (size_t r = 0; r < 2; ++r)
        for (size_t i = 0; i < static_cast<size_t>(n); ++i)
          chunk[r * 32 + i] = 0.01f * static_cast<float>(i + 1) - 0.05f * static_cast<float>(r);
      ASSERT_TRUE(pipeline.finish(chunk, robot_rows));
      pipeline.to_model(robot_rows, back);
      for (size_t i = 0; i < chunk.size(); ++i) EXPECT_NEAR(back[i], chunk[i], 5e-6) << i;
    }
  }
}

TEST(Pipeline, FC23_the_state_is_added_to_exactly_the_masked_dimensions) {
  PolicyDescription p = small_robot(4, 4);
  p.state_form = p.action_form = NormForm::kNone;
  const std::vector<float> state = {10, 20, 30, 40}, chunk(10 * 4, 1.0f);
  std::vector<float> out(10 * 4);
  const auto row = [&](std::vector<bool> mask) {
    p.delta_mask = std::move(mask);
    PolicyPipeline pipeline = make(p, PiFamily::kPi0, 4, 4);
    pipeline.take_state(state);
    EXPECT_TRUE(pipeline.finish(chunk, out));
    for (size_t r = 1; r < 10; ++r)  // one state for all rows
      EXPECT_EQ(std::vector<float>(out.begin() + static_cast<int64_t>(r) * 4,
                                   out.begin() + static_cast<int64_t>(r) * 4 + 4),
                std::vector<float>(out.begin(), out.begin() + 4));
    return std::vector<float>(out.begin(), out.begin() + 4);
  };
  EXPECT_EQ(row({}), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_EQ(row({true, true, true, false}), (std::vector<float>{11, 21, 31, 1}));
  EXPECT_EQ(row({false, true, false, true}), (std::vector<float>{1, 21, 1, 41}));
}

TEST(Pipeline, FC23_the_added_state_is_the_last_one_taken) {
  PolicyDescription p = small_robot(1, 1);
  p.state_form = p.action_form = NormForm::kNone;
  p.delta_mask = {true};
  PolicyPipeline pipeline = make(p, PiFamily::kPi0, 1, 1);
  std::vector<float> out(1);
  const std::vector<float> first = {5}, second = {7}, chunk = {1};
  pipeline.take_state(first);
  EXPECT_TRUE(pipeline.finish(chunk, out));
  EXPECT_EQ(out[0], 6);
  pipeline.take_state(second);
  EXPECT_TRUE(pipeline.finish(chunk, out));
  EXPECT_EQ(out[0], 8);
}

TEST(Pipeline, the_lerobot_rule_adds_the_state_as_measured) {
  PolicyDescription p = small_robot(1, 1);
  p.norm_rule = NormRule::kLerobot;
  p.epsilon = 1e-8;
  p.statistics.state.q99 = {-0.99999};  // a narrow range: the detour through it would lose digits
  p.delta_mask = {true};
  PolicyPipeline pipeline = make(p, PiFamily::kPi05, 2, 1);
  const std::vector<float> state = {123.456f}, chunk = {0, 0};
  std::vector<float> out(1);
  pipeline.take_state(state);
  ASSERT_TRUE(pipeline.finish(chunk, out));
  EXPECT_EQ(out[0], static_cast<float>(0.5 + static_cast<double>(state[0])));
}

TEST(Pipeline, FC21_widths_that_do_not_fit_the_model_are_refused) {
  EXPECT_EQ(PolicyPipeline::make(small_robot(8, 33), PiFamily::kPi05, 32, 33).code(), Code::kShape);
  EXPECT_EQ(PolicyPipeline::make(small_robot(33, 7), PiFamily::kPi0, 32, 7).code(), Code::kShape);
  EXPECT_TRUE(PolicyPipeline::make(small_robot(33, 7), PiFamily::kPi05, 32, 7));
  EXPECT_TRUE(PolicyPipeline::make(small_robot(8, 7), PiFamily::kPi0, 32, 32));
  EXPECT_EQ(PolicyPipeline::make(small_robot(8, 7), PiFamily::kPi0, 32, 8).code(), Code::kShape);
  PolicyDescription wide = small_robot(8, 7);
  wide.statistics.actions = plain_statistics(33);
  EXPECT_EQ(PolicyPipeline::make(wide, PiFamily::kPi0, 32, 7).code(), Code::kShape);
}

TEST(Pipeline, FC21_the_padded_width_is_given_when_asked_for) {
  PolicyPipeline z = make(small_robot(2, 2), PiFamily::kPi0, 4, 4),
                 q = make(small_robot(2, 2), PiFamily::kPi05, 4, 4);
  const std::vector<float> state(2, 0.0f), chunk = {0, 0, 0.5f, -0.5f};
  std::vector<float> out(4);
  z.take_state(state);
  ASSERT_TRUE(z.finish(chunk, out));
  EXPECT_FLOAT_EQ(out[2], 0.5f * 1.000001f);
  q.take_state(state);
  ASSERT_TRUE(q.finish(chunk, out));
  EXPECT_EQ(out[2], 0.5f);
}

TEST(Pipeline, values_outside_the_statistics_are_counted_and_kept) {
  PolicyPipeline q = make(small_robot(3, 2), PiFamily::kPi05, 4, 2);
  const std::vector<float> state = {-1.5f, 0, 9};
  q.take_state(state);
  EXPECT_EQ(q.n_outside(), 2);
  EXPECT_LT(q.normalised_state()[0], -1);
  EXPECT_GT(q.normalised_state()[2], 1);
}

TEST(Pipeline, FC22_a_result_beyond_f32_is_told) {
  PolicyDescription p = small_robot(1, 1);
  p.statistics.actions.std = {1e38};
  PolicyPipeline pipeline = make(p, PiFamily::kPi0, 1, 1);
  const std::vector<float> state = {0}, fine = {1}, beyond = {1e3f},
                           nan = {std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> out(1);
  pipeline.take_state(state);
  EXPECT_TRUE(pipeline.finish(fine, out));
  EXPECT_FALSE(pipeline.finish(beyond, out));
  EXPECT_FALSE(pipeline.finish(nan, out));
}

TEST(Pipeline, allocates_nothing_in_a_tick) {
  if (!test::hot_counter::available()) GTEST_SKIP() << "a sanitizer has its own allocator";
  PolicyDescription p = policy_defaults(Robot::kAloha, PiFamily::kPi0);
  p.statistics = {plain_statistics(14), plain_statistics(14), "test"};
  PolicyPipeline pipeline = make(p, PiFamily::kPi0, 32, 14);
  const std::vector<float> state(14, 0.1f), chunk(50 * 32, 0.1f);
  std::vector<float> out(50 * 14), back(50 * 32);
  test::hot_counter::arm();
  pipeline.take_state(state);
  pipeline.finish(chunk, out);
  pipeline.to_model(out, back);
  const auto counts = test::hot_counter::disarm();
  EXPECT_EQ(counts.total(), 0u) << test::hot_counter::describe(counts);
}

}  // namespace
}  // namespace outrider::policy_test
