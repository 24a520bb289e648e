// The formulas of pi-policy.md 4.3, against recorded values and against themselves turned round.
#include "policy/normalize.h"

#include <cmath>
#include <random>

#include "policy/support.h"

namespace outrider::policy_test {
namespace {

Normalizer make(NormForm form, NormRule rule, const FieldStatistics& field, int64_t width) {
  auto made =
      Normalizer::make({form, rule, rule == NormRule::kOpenpi ? 1e-6 : 1e-8}, field, width, "test");
  EXPECT_TRUE(made) << made.error().text;
  return made ? made.value() : Normalizer();
}

void flatten(const Json& json, std::vector<double>& out) {
  if (json.is_number()) out.push_back(json.number());
  for (const Json& item : json.items()) flatten(item, out);
}

TEST(Normalize, matches_every_recorded_value) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-preproc");
  auto stats = read_norm_stats(read_file(folder + "/norm_stats.json"), "norm_stats.json");
  ASSERT_TRUE(stats);
  const Json meta = read_json(folder + "/meta.json");
  int n_compared = 0, n_refused = 0;
  for (const Json& sample : meta.find("normalize")->items()) {
    const FieldStatistics& field =
        sample.find("key")->text() == "state" ? stats.value().state : stats.value().actions;
    const Json& x_json = *sample.find("x");
    std::vector<double> x;
    flatten(x_json, x);
    const size_t columns =
        x_json.items()[0].is_array() ? x_json.items()[0].items().size() : x_json.items().size();
    for (const auto& [letter, form] :
         {std::pair{"z", NormForm::kZScore}, std::pair{"q", NormForm::kQuantile}}) {
      if (const Json* wanted = sample.find(std::string("norm_") + letter); wanted != nullptr) {
        const Normalizer norm = make(form, NormRule::kOpenpi, field, static_cast<int64_t>(columns));
        std::vector<double> values;
        flatten(*wanted, values);
        ASSERT_EQ(values.size(), x.size());
        for (size_t i = 0; i < x.size(); ++i, ++n_compared)
          EXPECT_NEAR(norm.forward(i % columns, x[i]), values[i],
                      1e-12 * std::max(1.0, std::abs(values[i])));
      } else {  // wider than the statistics
        EXPECT_FALSE(Normalizer::make({form, NormRule::kOpenpi, 1e-6}, field,
                                      static_cast<int64_t>(columns), "test"));
        ++n_refused;
      }
      if (const Json* wanted = sample.find(std::string("unnorm_") + letter); wanted != nullptr) {
        const Normalizer norm = make(form, NormRule::kOpenpi, field, 1);
        std::vector<double> values;
        flatten(*wanted, values);
        for (size_t i = 0; i < x.size(); ++i, ++n_compared)
          EXPECT_NEAR(norm.inverse(i % columns, x[i]), values[i], 1e-12);
      }
    }
  }
  EXPECT_GT(n_compared, 100);
  EXPECT_EQ(n_refused, 2);
}

TEST(Normalize, worked_values) {
  FieldStatistics field;
  field.q01 = {-1};
  field.q99 = {2};
  const Normalizer norm = make(NormForm::kQuantile, NormRule::kOpenpi, field, 1);
  EXPECT_NEAR(norm.forward(0, 0.5), -3.33e-7, 1e-9);
  EXPECT_NEAR(norm.inverse(0, 0.0), 0.5000005, 1e-12);
}

TEST(Normalize, FC25_the_marks_of_both_forms_lie_where_they_should) {
  FieldStatistics field;
  field.mean = {3}, field.std = {2}, field.q01 = {-1}, field.q99 = {4};
  const Normalizer z = make(NormForm::kZScore, NormRule::kOpenpi, field, 1),
                   q = make(NormForm::kQuantile, NormRule::kOpenpi, field, 1);
  EXPECT_NEAR(z.forward(0, 3), 0, 1e-6);
  EXPECT_NEAR(z.forward(0, 5), 1, 1e-6);
  EXPECT_NEAR(z.forward(0, 1), -1, 1e-6);
  EXPECT_NEAR(q.forward(0, -1), -1, 1e-6);
  EXPECT_NEAR(q.forward(0, 4), 1, 1e-6);
  EXPECT_NEAR(q.forward(0, 1.5), 0, 1e-6);
  // Twice outside: kept, not clipped, and seen.
  EXPECT_NEAR(q.forward(0, 9), 3, 2e-6);
  EXPECT_TRUE(q.outside(q.forward(0, 9)));
  EXPECT_TRUE(q.outside(q.forward(0, -1.1)));
  EXPECT_FALSE(q.outside(q.forward(0, 3.99)));
  EXPECT_FALSE(z.outside(100));
  for (const double y : {-1.0, 0.0, 1.0, 1.5}) {
    EXPECT_NEAR(q.inverse(0, y), (y + 1) / 2 * (5 + 1e-6) - 1, 1e-12);
    EXPECT_NEAR(z.inverse(0, y), y * (2 + 1e-6) + 3, 1e-12);
  }
}

TEST(Normalize, FC20_a_constant_dimension_gives_documented_finite_values) {
  FieldStatistics field;
  field.mean = {3}, field.std = {0}, field.q01 = {3}, field.q99 = {3};
  field.min = {3}, field.max = {3};
  const Normalizer z = make(NormForm::kZScore, NormRule::kOpenpi, field, 1),
                   q = make(NormForm::kQuantile, NormRule::kOpenpi, field, 1),
                   l = make(NormForm::kQuantile, NormRule::kLerobot, field, 1),
                   m = make(NormForm::kMinMax, NormRule::kLerobot, field, 1);
  EXPECT_EQ(z.forward(0, 3), 0);
  EXPECT_NEAR(z.forward(0, 3.5), 0.5e6, 1);
  EXPECT_EQ(q.forward(0, 3), -1);
  EXPECT_EQ(l.forward(0, 3), -1);
  EXPECT_EQ(m.forward(0, 3), -1);
  for (const double y : {-1.0, 0.0, 1.0}) {
    EXPECT_NEAR(z.inverse(0, y), 3, 1.1e-6);
    EXPECT_NEAR(q.inverse(0, y), 3, 1.1e-6);
    EXPECT_NEAR(l.inverse(0, y), 3, 1e-6);
  }
}

// LeRobot's arithmetic is f32: the deviation that comes back has no epsilon, ranges get none.
TEST(Normalize, the_lerobot_rule_differs_where_it_should) {
  FieldStatistics field;
  field.mean = {0.25}, field.std = {1e-7};
  field.q01 = {0}, field.q99 = {1e-5}, field.min = {-1}, field.max = {3};
  const Normalizer z = make(NormForm::kZScore, NormRule::kLerobot, field, 1),
                   q = make(NormForm::kQuantile, NormRule::kLerobot, field, 1),
                   m = make(NormForm::kMinMax, NormRule::kLerobot, field, 1);
  EXPECT_EQ(z.forward(0, 0.5), static_cast<double>(0.25f / (1e-7f + 1e-8f)));
  EXPECT_EQ(z.inverse(0, 2), static_cast<double>(2.0f * 1e-7f + 0.25f));
  EXPECT_EQ(q.forward(0, 1e-5), static_cast<double>(2.0f * 1e-5f / 1e-5f - 1.0f));
  EXPECT_EQ(q.inverse(0, 1), static_cast<double>(2.0f * 1e-5f / 2.0f));
  EXPECT_EQ(m.forward(0, 1), 0);
  EXPECT_EQ(m.inverse(0, 0), 1);
  const Normalizer open = make(NormForm::kQuantile, NormRule::kOpenpi, field, 1);
  EXPECT_GT(std::abs(open.forward(0, 1e-5) - 1), 0.1);  // there the epsilon shows
}

TEST(Normalize, dimensions_behind_the_statistics) {
  const FieldStatistics field = plain_statistics(2);
  const Normalizer z = make(NormForm::kZScore, NormRule::kOpenpi, field, 2),
                   q = make(NormForm::kQuantile, NormRule::kOpenpi, field, 2),
                   l = make(NormForm::kZScore, NormRule::kLerobot, field, 2);
  EXPECT_DOUBLE_EQ(z.inverse(2, 0.5), 0.5 * 1.000001);
  EXPECT_EQ(q.inverse(2, 0.5), 0.5);
  EXPECT_EQ(l.inverse(2, 0.5), 0.5);
  EXPECT_EQ(Normalizer().forward(77, 0.5), 0.5);
}

TEST(Normalize, forward_and_inverse_are_each_others_for_every_form_and_rule) {
  const FieldStatistics field = plain_statistics(6);
  std::mt19937 random(7);
  std::uniform_real_distribution<double> draw(-9, 9);
  for (const NormRule rule : {NormRule::kOpenpi, NormRule::kLerobot}) {
    for (const NormForm form : {NormForm::kZScore, NormForm::kQuantile, NormForm::kMinMax}) {
      if (rule == NormRule::kOpenpi && form == NormForm::kMinMax) continue;
      const Normalizer norm = make(form, rule, field, 6);
      for (int i = 0; i < 600; ++i) {
        const auto dim = static_cast<size_t>(i % 6);
        const double x = draw(random);
        EXPECT_NEAR(norm.inverse(dim, norm.forward(dim, x)), x,
                    rule == NormRule::kOpenpi ? 1e-12 : 5e-6);
      }
    }
  }
}

TEST(Normalize, openpi_has_no_min_max) {
  const auto made = Normalizer::make({NormForm::kMinMax, NormRule::kOpenpi, 1e-6},
                                     plain_statistics(1), 1, "test");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.code(), Code::kUnsupported);
}

}  // namespace
}  // namespace outrider::policy_test
