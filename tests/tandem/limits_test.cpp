// Presets, ranges and relations of the limits.
#include "tandem/limits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace outrider::tandem::test {
namespace {

constexpr int64_t kMs = 1000000;

TEST(TandemLimits, the_driving_preset_has_the_numbers_of_a_20_Hz_loop) {
  const Limits l = preset_limits("driving20").value();
  EXPECT_EQ(l.period_ns, 50 * kMs);
  EXPECT_EQ(l.hold_ns, 46 * kMs);
  EXPECT_EQ(l.deadline_ns, 200 * kMs);
  EXPECT_EQ(l.settling_ticks, 3);
  EXPECT_EQ(l.proving_ticks, 20);
  EXPECT_EQ(l.row_holds, 5);
  EXPECT_EQ(l.window_holds, 20);
  EXPECT_EQ(l.window_ns, 10000 * kMs);
  EXPECT_EQ(l.drop_limit_ppm, 7500);
  EXPECT_EQ(l.keepalive_ns, 10000 * kMs);
  EXPECT_EQ(l.engaged_max_age_ns, 3 * l.period_ns);
}

TEST(TandemLimits, both_presets_keep_their_own_relations_and_ranges) {
  for (const char* name : {"driving20", "arm"}) {
    const auto limits = preset_limits(name);
    ASSERT_TRUE(limits) << name;
    EXPECT_TRUE(check_limits(limits.value())) << name;
    for (const LimitRow& row : limit_rows()) {
      Limits copy = limits.value();
      EXPECT_TRUE(set_limit(copy, row, limit_value(copy, row))) << name << " " << row.name;
      EXPECT_EQ(copy, limits.value()) << name << " " << row.name;
    }
  }
  const auto none = preset_limits("car");
  EXPECT_EQ(none.code(), Code::kInvalid);
  EXPECT_NE(none.error().message().find("driving20"), std::string::npos);
}

TEST(TandemLimits, every_row_has_another_name_and_field_and_names_its_unit) {
  std::set<std::string> names;
  Limits marked;
  for (const LimitRow& row : limit_rows()) {
    const std::string name = row.name;
    names.insert(name);
    EXPECT_EQ(marked.*row.field, 0) << name << " shares its field";
    marked.*row.field = 1;
    const bool ms = name.ends_with("_ms"), ppm = name.ends_with("_ppm");
    EXPECT_EQ(row.unit == Unit::kMs, ms) << name;
    EXPECT_EQ(row.unit == Unit::kPpm, ppm) << name;
    EXPECT_EQ(find_limit(name), &row);
    EXPECT_GT(std::string(row.help).size(), 10u) << name;
  }
  EXPECT_EQ(names.size(), limit_rows().size());
  EXPECT_EQ(sizeof(Limits), limit_rows().size() * sizeof(int64_t)) << "a field without a row";
  EXPECT_EQ(find_limit("hold_msec"), nullptr);
}

TEST(TandemLimits, a_value_outside_its_range_is_refused_with_the_range) {
  Limits l = preset_limits("driving20").value();
  const LimitRow& hold = *find_limit("hold_ms");
  EXPECT_TRUE(set_limit(l, hold, 33.5));
  EXPECT_EQ(l.hold_ns, 33500000);
  const LimitRow& row = *find_limit("row_holds");
  for (const double bad : {0.0, -1.0, 2.5, 1001.0, 1e300}) {
    const auto refused = set_limit(l, row, bad);
    EXPECT_EQ(refused.code(), Code::kInvalid) << bad;
    EXPECT_NE(refused.error().message().find("row_holds"), std::string::npos);
    EXPECT_NE(refused.error().message().find("1..1000"), std::string::npos);
  }
  EXPECT_EQ(l.row_holds, 5) << "nothing changed";
}

TEST(TandemLimits, limits_that_contradict_each_other_are_refused_by_name) {
  struct Case {
    const char *name, *other;
    double value;
  };
  for (const Case& c :
       {Case{"hold_ms", "period_ms", 50}, Case{"deadline_ms", "hold_ms", 45},
        Case{"return_ms", "hold_ms", 46.5}, Case{"proving_ticks", "settling_ticks", 2},
        Case{"retry_max_ms", "retry_ms", 4999}}) {
    Limits l = preset_limits("driving20").value();
    ASSERT_TRUE(set_limit(l, *find_limit(c.name), c.value)) << c.name;
    const auto refused = check_limits(l);
    EXPECT_EQ(refused.code(), Code::kInvalid) << c.name;
    EXPECT_NE(refused.error().message().find(c.name), std::string::npos);
    EXPECT_NE(refused.error().message().find(c.other), std::string::npos);
  }
}

TEST(TandemLimits, every_border_itself_is_allowed_and_one_step_beyond_is_not) {
  for (const LimitRow& row : limit_rows()) {
    const double step = row.unit == Unit::kMs ? 1e-3 : 1;
    Limits l = preset_limits("driving20").value();
    EXPECT_TRUE(set_limit(l, row, row.least)) << row.name;
    EXPECT_EQ(limit_value(l, row), row.least) << row.name;
    EXPECT_TRUE(set_limit(l, row, row.most)) << row.name;
    EXPECT_EQ(limit_value(l, row), row.most) << row.name;
    for (const double bad : {row.least - step, row.most + step, std::nan(""), HUGE_VAL, -HUGE_VAL})
      EXPECT_FALSE(set_limit(l, row, bad)) << row.name << " " << bad;
    EXPECT_EQ(limit_value(l, row), row.most) << row.name << ": nothing changed";
    EXPECT_EQ(static_cast<bool>(set_limit(l, row, row.most - 0.5)), row.unit == Unit::kMs)
        << row.name << ": fractions are of times only";
  }
}

// What must hold between two of them, at its border and beyond, with both numbers in the words.
TEST(TandemLimits, relations_hold_to_their_borders_and_name_both_numbers) {
  struct Case {
    const char* name;
    double allowed, refused;
    const char* words;
  };
  for (const Case& c :
       {Case{"hold_ms", 49.999, 50, "hold_ms is 50, allowed is less than period_ms (50)"},
        Case{"deadline_ms", 46, 45.5, "deadline_ms is 45.5, allowed is at least hold_ms (46)"},
        Case{"return_ms", 46, 46.5, "return_ms is 46.5, allowed is at most hold_ms (46)"},
        Case{"proving_ticks", 3, 2, "proving_ticks is 2, allowed is at least settling_ticks (3)"},
        Case{"retry_max_ms", 5000, 4999,
             "retry_max_ms is 4999, allowed is at least retry_ms (5000)"}}) {
    Limits l = preset_limits("driving20").value();
    ASSERT_TRUE(set_limit(l, *find_limit(c.name), c.allowed)) << c.name;
    EXPECT_TRUE(check_limits(l)) << c.name;
    ASSERT_TRUE(set_limit(l, *find_limit(c.name), c.refused)) << c.name;
    const auto refused = check_limits(l);
    EXPECT_EQ(refused.code(), Code::kInvalid) << c.name;
    EXPECT_EQ(std::string(refused.error().text), c.words);
  }
}

TEST(TandemLimits, what_is_refused_says_found_and_allowed) {
  Limits l = preset_limits("driving20").value();
  EXPECT_STREQ(set_limit(l, *find_limit("hold_ms"), 0.25).error().text,
               "hold_ms is 0.25, allowed is a number 0.5..60000");
  EXPECT_STREQ(set_limit(l, *find_limit("row_holds"), 2.5).error().text,
               "row_holds is 2.5, allowed is an integer 1..1000");
  EXPECT_STREQ(preset_limits("car").error().text,
               "preset is \"car\", allowed are \"driving20\", \"arm\"");
  EXPECT_EQ(preset_limits("arm").value().period_ns, 200 * kMs);
  EXPECT_EQ(preset_limits("arm").value().drop_limit_ppm, 50000);
}

// The reference page repeats the table: name, both presets, range and words.
TEST(TandemLimits, the_reference_page_has_every_row) {
  std::ifstream in(std::string(OUTRIDER_SOURCE_DIR) + "/docs/reference/config.md");
  std::stringstream page;
  page << in.rdbuf();
  for (const LimitRow& row : limit_rows()) {
    std::ostringstream line;
    line.precision(12);
    line << "\n| `" << row.name << "` | " << row.driving20 << " | " << row.arm << " | " << row.least
         << ".." << row.most << " | " << row.help << " |\n";
    EXPECT_NE(page.str().find(line.str()), std::string::npos) << line.str();
  }
}

}  // namespace
}  // namespace outrider::tandem::test
