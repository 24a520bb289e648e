// Heads of the output vector: forms, rules, refusals.
#include "driving/heads.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "driving/facts.h"

namespace outrider::driving::test {
namespace {

Spec spec_of(const std::vector<NamedRange>& slices, int64_t n) {
  GraphFacts facts = big_stateful();
  facts.outputs[0].dims = {1, n};
  facts.metadata[0].second = encode_slices(slices);
  return read_spec(facts, 4).value();
}

TEST(DrivingHeads, safe_functions) {
  EXPECT_FLOAT_EQ(safe_exp(11.0f), 59874.14f);
  EXPECT_EQ(safe_exp(1e30f), safe_exp(11.0f));
  EXPECT_EQ(safe_exp(-200.0f), 0.0f);
  EXPECT_EQ(sigmoid(0), 0.5f);
  EXPECT_FLOAT_EQ(sigmoid(-50), 1.0f / (1.0f + 59874.14f)) << "bounded by safe_exp";
  float three[] = {1000, 1001, 1002};
  softmax(three, 3);
  EXPECT_NEAR(three[0], 0.09003057, 1e-6);
  EXPECT_NEAR(three[2], 0.66524096, 1e-6);
  float one[] = {-7};
  softmax(one, 1);
  EXPECT_EQ(one[0], 1.0f);
}

TEST(DrivingHeads, all_of_the_big_output_against_the_rules_in_double) {
  const Spec spec = read_spec(big_queued(), 4).value();
  auto made = HeadParser::make(spec, HeadsWanted::kRequired);
  ASSERT_TRUE(made) << made.error().text;
  HeadParser& parser = made.value();
  EXPECT_TRUE(parser.unread().empty());
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> raw(18452);
  for (float& v : raw) v = normal(rng);
  const std::vector<float> before = raw;
  ASSERT_TRUE(parser.parse(raw.data()));
  EXPECT_EQ(raw, before) << "parsing leaves the vector as it is: it may be published again";
  const auto value = [&](const char* head, size_t i) {
    const HeadArray* array = parser.find(head);
    EXPECT_NE(array, nullptr) << head;
    return static_cast<double>(parser.values()[array->offset + i]);
  };
  const auto expo = [](double x) { return std::exp(std::min(x, 11.0)); };
  const auto near = [](double wanted) { return 1e-5 * std::max(1.0, std::fabs(wanted)); };
  const std::tuple<const char*, size_t, size_t> mixtures[] = {
      {"plan", 917, 495},        {"lane_lines", 0, 264}, {"road_edges", 536, 132},
      {"lead", 1907, 72},        {"pose", 887, 6},       {"wide_from_device_euler", 899, 3},
      {"road_transform", 905, 6}};
  for (const auto& [name, at, n] : mixtures)
    for (size_t i = 0; i < n; ++i) {
      EXPECT_EQ(value(name, i), static_cast<double>(raw[at + i])) << name << i;
      const double wanted = expo(static_cast<double>(raw[at + n + i]));
      EXPECT_NEAR(value((std::string(name) + "_std").c_str(), i), wanted, near(wanted))
          << name << i;
    }
  const std::tuple<const char*, size_t, size_t> probabilities[] = {
      {"lane_lines_prob", 528, 8}, {"meta", 800, 55}, {"lead_prob", 2051, 3}};
  for (const auto& [name, at, n] : probabilities)
    for (size_t i = 0; i < n; ++i)
      EXPECT_NEAR(value(name, i), 1 / (1 + expo(-static_cast<double>(raw[at + i]))), 1e-6) << name;
  const std::tuple<const char*, size_t, size_t> choices[] = {{"desire_pred", 855, 4},
                                                             {"desire_state", 2054, 1}};
  for (const auto& [name, at, rows] : choices)
    for (size_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (size_t i = 0; i < 8; ++i) sum += std::exp(static_cast<double>(raw[at + 8 * row + i]));
      for (size_t i = 0; i < 8; ++i)
        EXPECT_NEAR(value(name, 8 * row + i),
                    std::exp(static_cast<double>(raw[at + 8 * row + i])) / sum, 1e-6)
            << name;
    }
  EXPECT_EQ(parser.find("plan")->dims, (std::vector<int64_t>{33, 15}));
  EXPECT_EQ(parser.find("lead_std")->dims, (std::vector<int64_t>{3, 6, 4}));
  EXPECT_EQ(parser.find("hidden_state"), nullptr);
  EXPECT_EQ(parser.find("action"), nullptr);
}

TEST(DrivingHeads, of_hypotheses_the_likeliest_is_taken_for_each_selection) {
  // plan: 5 hypotheses of 495 means, 495 deviations, 1 weight. lead: 2 of 24, 24 and 3 weights.
  const Spec spec = spec_of({{"plan", {0, 4955}}, {"lead", {4955, 5057}}}, 5057);
  auto parser = HeadParser::make(spec, HeadsWanted::kKnown);
  ASSERT_TRUE(parser) << parser.error().text;
  std::vector<float> raw(5057);
  for (size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<float>(i % 97) * 0.01f;
  for (size_t h = 0; h < 5; ++h) raw[991 * h + 990] = h == 3 ? 2.0f : static_cast<float>(h) * 0.1f;
  const float weights[2][3] = {{1, 0, 5}, {0, 1, 4}};
  for (size_t h = 0; h < 2; ++h)
    for (size_t s = 0; s < 3; ++s) raw[4955 + 51 * h + 48 + s] = weights[h][s];
  ASSERT_TRUE(parser.value().parse(raw.data()));
  const auto at = [&](const char* name, size_t i) {
    return parser.value().values()[parser.value().find(name)->offset + i];
  };
  for (size_t i = 0; i < 495; ++i) {
    ASSERT_EQ(at("plan", i), raw[991 * 3 + i]);
    ASSERT_EQ(at("plan_std", i), safe_exp(raw[991 * 3 + 495 + i]));
  }
  const size_t winner[] = {0, 1, 0};
  for (size_t s = 0; s < 3; ++s)
    for (size_t i = 0; i < 24; ++i) {
      ASSERT_EQ(at("lead", 24 * s + i), raw[4955 + 51 * winner[s] + i]);
      ASSERT_EQ(at("lead_std", 24 * s + i), safe_exp(raw[4955 + 51 * winner[s] + 24 + i]));
    }
  raw[991 * 1 + 990] = raw[991 * 4 + 990] = 2.0f;  // as likely as hypothesis 3
  ASSERT_TRUE(parser.value().parse(raw.data()));
  for (size_t i = 0; i < 495; ++i)
    ASSERT_EQ(at("plan", i), raw[991 * 4 + i]) << "of equal ones the last";
}

TEST(DrivingHeads, a_missing_or_odd_head_is_refused_when_required_and_told_otherwise) {
  for (const HeadForm& form : head_forms()) {
    std::vector<NamedRange> slices = big_slices();
    std::erase_if(slices, [&](const NamedRange& s) { return s.name == form.name; });
    const auto parser = HeadParser::make(spec_of(slices, 18452), HeadsWanted::kRequired);
    EXPECT_EQ(!parser, form.required) << form.name;
    if (!parser) {
      EXPECT_NE(std::string(parser.error().text).find(form.name), std::string::npos);
    }
    EXPECT_TRUE(HeadParser::make(spec_of(slices, 18452), HeadsWanted::kKnown));
  }
  const Spec odd =
      spec_of({{"plan", {0, 989}}, {"lead", {1000, 1143}}, {"lead_prob", {1200, 1204}}}, 2000);
  EXPECT_EQ(HeadParser::make(odd, HeadsWanted::kRequired).code(), Code::kShape);
  const auto told = HeadParser::make(odd, HeadsWanted::kKnown);
  ASSERT_TRUE(told);
  EXPECT_TRUE(told.value().arrays().empty());
  EXPECT_EQ(told.value().unread(),
            (std::vector<std::string>{"plan (989)", "lead (143)", "lead_prob (4)"}));
}

TEST(DrivingHeads, FC22_a_value_that_is_no_number_fails_the_frame) {
  const Spec spec = read_spec(big_queued(), 4).value();
  for (const auto& [at, name] : std::initializer_list<std::pair<size_t, const char*>>{
           {917, "plan"}, {917 + 495, "plan_std"}, {528, "lane_lines_prob"}, {855, "desire_pred"}})
    for (const float bad : {NAN, INFINITY}) {
      HeadParser parser = HeadParser::make(spec, HeadsWanted::kRequired).value();
      std::vector<float> raw(18452, 0.0f);
      raw[at] = bad;
      const bool finite_after = bad > 0 && (at == 917 + 495 || at == 528);  // safe_exp bounds it
      EXPECT_EQ(parser.parse(raw.data()), finite_after) << name;
      if (!finite_after) {
        ASSERT_NE(parser.bad(), nullptr);
        EXPECT_EQ(parser.bad()->name, name);
      }
    }
}

}  // namespace
}  // namespace outrider::driving::test
