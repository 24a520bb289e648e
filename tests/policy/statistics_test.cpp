// norm_stats.json and what makes statistics usable. FC-18, FC-20.
#include "policy/statistics.h"

#include <cmath>

#include "policy/support.h"

namespace outrider::policy_test {
namespace {

constexpr const char* kGood =
    R"({"norm_stats": {"state": {"mean": [1, 2], "std": [3, 0], "q01": [0, 5], "q99": [1, 5]},
        "actions": {"mean": [1], "std": [2], "q01": null, "q99": null}}})";

TEST(NormStats, reads_both_fields_and_takes_null_for_absent) {
  const auto read = read_norm_stats(kGood, "norm_stats.json");
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read.value().state.q99, (std::vector<double>{1, 5}));
  EXPECT_EQ(read.value().actions.width(), 1);
  EXPECT_TRUE(read.value().state.has(NormForm::kQuantile));
  EXPECT_FALSE(read.value().actions.has(NormForm::kQuantile));
  EXPECT_TRUE(read.value().actions.has(NormForm::kZScore));
}

TEST(NormStats, reads_the_recorded_file) {
  OUTRIDER_NEED_SHARED(path, "golden/openpi-preproc/norm_stats.json");
  const auto read = read_norm_stats(read_file(path), path);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read.value().state.width(), 8);
  EXPECT_EQ(read.value().actions.width(), 7);
  EXPECT_EQ(read.value().state.std[3], 0);  // a joint that never moved
  for (const NormForm form : {NormForm::kZScore, NormForm::kQuantile})
    EXPECT_TRUE(check_statistics(read.value().state, form, 8, "state"));
}

TEST(NormStats, refuses_what_it_cannot_believe_and_says_where) {
  struct Row {
    const char *text, *says;
  };
  const Row rows[] = {
      {"", "norm_stats.json"},
      {"{}", "neither"},
      {"[]", "neither"},
      {R"({"norm_stats": {"state": 3}})", "state"},
      {R"({"norm_stats": {"state": {}}})", "none of mean"},
      {R"({"norm_stats": {"state": {"mean": 1}}})", "mean"},
      {R"({"norm_stats": {"state": {"mean": []}}})", "0 values"},
      {R"({"norm_stats": {"state": {"mean": [1, "2"]}}})", "mean[1]"},
      {R"({"norm_stats": {"state": {"mean": [1, 2], "std": [1]}}})", "std has 1"},
      {R"({"norm_stats": {"state": {"mean": [NaN], "std": [1]}}})", "finite"},
      {R"({"norm_stats": {"state": {"mean": [1e999], "std": [1]}}})", "finite"},
  };
  for (const Row& row : rows) {
    const auto read = read_norm_stats(row.text, "norm_stats.json");
    ASSERT_FALSE(read) << row.text;
    EXPECT_EQ(read.code(), Code::kNotFound) << row.text;
    EXPECT_NE(read.error().message().find(row.says), std::string_view::npos)
        << row.text << " -> " << read.error().text;
  }
}

TEST(NormStats, a_cut_file_is_refused_at_every_length) {
  const std::string text = kGood;
  for (size_t n = 0; n < text.size(); ++n)
    EXPECT_FALSE(read_norm_stats(std::string_view(text).substr(0, n), "cut")) << n;
}

TEST(Statistics, FC18_a_form_whose_columns_are_missing_is_refused_with_their_names) {
  FieldStatistics field;
  field.mean = {1};
  auto checked = check_statistics(field, NormForm::kZScore, 1, "a.json: actions");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.code(), Code::kNotFound);
  EXPECT_NE(checked.error().message().find("std is missing"), std::string_view::npos)
      << checked.error().text;
  checked = check_statistics(field, NormForm::kQuantile, 1, "a.json: actions");
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("q01 and q99, both are missing"), std::string_view::npos)
      << checked.error().text;
  EXPECT_TRUE(check_statistics(field, NormForm::kNone, 5, "normalised units ask for nothing"));
}

TEST(Statistics, FC18_statistics_for_fewer_dimensions_than_the_robot_has_are_refused) {
  const FieldStatistics field = plain_statistics(3);
  EXPECT_TRUE(check_statistics(field, NormForm::kZScore, 3, "x"));
  EXPECT_TRUE(check_statistics(field, NormForm::kZScore, 2, "x"));  // the reference cuts them
  const auto checked = check_statistics(field, NormForm::kZScore, 4, "x");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.code(), Code::kShape);
}

TEST(Statistics, FC20_bad_values_are_refused_by_dimension) {
  struct Row {
    NormForm form;
    std::vector<double> FieldStatistics::*column;
    double value;
  };
  const double nan = std::nan(""), inf = INFINITY;
  const Row rows[] = {
      {NormForm::kZScore, &FieldStatistics::std, -1e-9},
      {NormForm::kZScore, &FieldStatistics::std, nan},
      {NormForm::kZScore, &FieldStatistics::std, inf},
      {NormForm::kZScore, &FieldStatistics::mean, nan},
      {NormForm::kZScore, &FieldStatistics::mean, -inf},
      {NormForm::kQuantile, &FieldStatistics::q01, nan},
      {NormForm::kQuantile, &FieldStatistics::q99, inf},
      {NormForm::kQuantile, &FieldStatistics::q99, -100},  // below q01
      {NormForm::kMinMax, &FieldStatistics::max, -100},
  };
  for (const Row& row : rows) {
    FieldStatistics field = plain_statistics(4);
    (field.*row.column)[2] = row.value;
    const auto checked = check_statistics(field, row.form, 4, "state");
    ASSERT_FALSE(checked) << norm_form_name(row.form) << " " << row.value;
    EXPECT_EQ(checked.code(), Code::kNotFound);
    EXPECT_NE(checked.error().message().find("dimension 2"), std::string_view::npos)
        << checked.error().text;
  }
}

TEST(Statistics, FC20_numbers_as_python_writes_them_are_refused_by_dimension) {
  for (const char* word : {"NaN", "Infinity", "-Infinity"}) {
    for (const char* column : {"mean", "std", "q99"}) {
      std::string text = R"({"name \" NaN":"NaN","actions":{"mean":[10,10,10],)"
                         R"("std":[11,11,11],"q01":[0,0,0],"q99":[12,12,12]}})";
      // The third value of the column.
      size_t at = text.find(std::string("\"") + column + "\"");
      for (int commas = 0; commas < 2; ++commas) at = text.find(',', at) + 1;
      text.replace(at, 2, word);
      const auto read = read_norm_stats(text, "norm_stats.json");
      ASSERT_FALSE(read) << text;
      EXPECT_EQ(read.code(), Code::kNotFound);
      EXPECT_NE(read.error().message().find(std::string(column) +
                                            "[2] is no finite number (dimension 2)"),
                std::string_view::npos)
          << read.error().text;
    }
  }
  EXPECT_FALSE(read_norm_stats(R"({"state":{"mean":[NaN}})", "x")) << "broken is broken";
  EXPECT_FALSE(read_norm_stats("NaN", "x"));
}

TEST(Statistics, FC20_ranges_that_f32_does_not_hold_are_refused_by_dimension) {
  FieldStatistics field = plain_statistics(3);
  field.q01[1] = -3e38, field.q99[1] = 3e38;
  auto checked = check_statistics(field, NormForm::kQuantile, 3, "x");
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("dimension 1"), std::string_view::npos);
  field = plain_statistics(3);
  field.std[2] = 1e300;
  checked = check_statistics(field, NormForm::kZScore, 3, "x");
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("dimension 2"), std::string_view::npos);
  field.std[2] = 5e-324;  // hardly moved: as good as never
  EXPECT_TRUE(check_statistics(field, NormForm::kZScore, 3, "x"));
}

TEST(Statistics, FC20_a_dimension_that_never_moved_is_good) {
  FieldStatistics field = plain_statistics(2);
  field.std[1] = 0;
  field.q99[1] = field.q01[1];
  EXPECT_TRUE(check_statistics(field, NormForm::kZScore, 2, "x"));
  EXPECT_TRUE(check_statistics(field, NormForm::kQuantile, 2, "x"));
}

TEST(Statistics, the_summary_tells_width_and_range) {
  EXPECT_EQ(statistics_summary(plain_statistics(3), NormForm::kQuantile),
            "3 dims, q01 -3 .. -1, q99 2 .. 4");
  EXPECT_EQ(statistics_summary({}, NormForm::kZScore), "missing");
  EXPECT_EQ(statistics_summary({}, NormForm::kNone), "none");
}

}  // namespace
}  // namespace outrider::policy_test
