// outrider demo as a whole story: three cuts, who led, and one time line of it all.
#include "cli/demo.h"

#include <gtest/gtest.h>

#include "cli/report/timeline.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

double number(const Json& json, const char* key) {
  const Json* value = json.find(key);
  EXPECT_NE(value, nullptr) << key;
  return value != nullptr ? value->number() : -1;
}

TEST(Demo, cuts_the_cable_three_times_and_every_tick_has_an_answer) {
  const std::string folder = scratch("demo-cuts");
  const Outcome outcome = run({"demo", "--seconds", "6", "--json", "--out", folder});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = document(outcome);
  ASSERT_EQ(number(json, "ticks"), 120);
  const Json* leader = json.find("leader_ms");
  EXPECT_EQ(number(*leader, "standby") + number(*leader, "lead"), 6000) << "a tick of nobody";
  const auto& cuts = json.find("cuts")->items();
  ASSERT_EQ(cuts.size(), 3u);
  const char* what[] = {"silent", "reset", "slow"};
  const auto& changes = json.find("changes")->items();
  ASSERT_GE(changes.size(), 1u);
  EXPECT_EQ(changes[0].find("leader")->text(), "standby");
  EXPECT_EQ(number(json, "handovers"), static_cast<double>(changes.size() - 1));
  bool told = false;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(cuts[i].find("what")->text(), what[i]);
    const double from_s = number(cuts[i], "from_s"), to_s = number(cuts[i], "to_s");
    EXPECT_NEAR(from_s, 1.5 * static_cast<double>(i + 1), 0.051);
    EXPECT_NEAR(to_s - from_s, 0.5, 1e-9);
    // Whoever led when it was cut does not any more 0.35 s later (5 held ticks, and a bit).
    std::string before = "standby", after = "standby";
    for (const Json& change : changes) {
      if (number(change, "time_s") < from_s) before = change.find("leader")->text();
      if (number(change, "time_s") <= from_s + 0.35) after = change.find("leader")->text();
    }
    told |= before == "lead";
    if (before == "lead") {
      EXPECT_EQ(after, "standby") << what[i];
    }
  }
  if (number(json, "missed") == 0) {  // on a machine that is free at all
    EXPECT_TRUE(told) << "the lead never led when the cable was cut";
  }
  const std::string page = read(folder + "/outrider-demo.html");
  EXPECT_EQ(count(page, "id=\"timeline\""), 1u);
  EXPECT_EQ(count(page, "class=\"cut\""), 3u);
  EXPECT_EQ(count(page, "class=\"handover\""), changes.size() - 1);
  EXPECT_EQ(count(page, "class=\"held\""), static_cast<size_t>(number(json, "held")));
  EXPECT_GE(count(page, "class=\"leader\""), changes.size());
}

// x of a time: 52 at 0, 1026 at the end.
TEST(Demo, the_time_line_has_leader_latency_holds_and_hand_overs_on_one_axis) {
  cli::DemoRun demo;
  demo.rate_hz = 20;
  for (int i = 0; i < 200; ++i) {
    cli::DemoTick tick;
    tick.time_s = i / 20.0;
    tick.latency_ms = 25;
    tick.leader = i >= 100 && i < 150 ? 2 : 1;
    tick.held = i == 149;
    demo.ticks.push_back(tick);
  }
  demo.cuts = {{7.5, 8.5, "silent"}};
  demo.changes = {{{"time_s", 0.0}, {"leader", "standby"}, {"reason", "none"}},
                  {{"time_s", 5.0}, {"leader", "lead"}, {"reason", "take_over"}},
                  {{"time_s", 7.5}, {"leader", "standby"}, {"reason", "silent"}}};
  const std::string svg = cli::timeline(demo);
  const auto x = [](double s) { return fmt::format("{:.1f}", 52 + s / 10 * 974); };
  EXPECT_EQ(count(svg, "<svg"), 1u);
  EXPECT_EQ(count(svg, "class=\"leader\""), 3u);
  EXPECT_NE(svg.find("class=\"leader\" x=\"" + x(5) + "\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("class=\"leader\" x=\"" + x(7.5) + "\""), std::string::npos);
  EXPECT_NE(svg.find("class=\"cut\" x=\"" + x(7.5) + "\""), std::string::npos);
  EXPECT_NE(svg.find("cable silent"), std::string::npos);
  EXPECT_EQ(count(svg, "class=\"handover\""), 2u);
  EXPECT_NE(svg.find("class=\"handover\" x1=\"" + x(7.5) + "\""), std::string::npos);
  EXPECT_NE(svg.find("7.50 s: standby leads (silent)"), std::string::npos);
  EXPECT_EQ(count(svg, "class=\"held\""), 1u);
  EXPECT_NE(svg.find("class=\"held\" cx=\"" + x(7.45) + "\""), std::string::npos);
  const size_t points = svg.find("points=\"");
  EXPECT_EQ(count(svg.substr(points, svg.find('"', points + 8) - points), ","), 200u);
  // No ticks at all is no crash.
  cli::DemoRun none;
  none.rate_hz = 20;
  EXPECT_EQ(count(cli::timeline(none), "<svg"), 1u);
}

}  // namespace
}  // namespace outrider::cli_test
