// The suite in a process of its own: whatever a provider does to it, there is a whole report, soon.
#include "host/conform_child.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "base/json.h"

namespace outrider::host {
namespace {

std::string library(const char* name) {
  return std::string(OUTRIDER_BUILD_DIR "/lib/") + name;
}

ConformReport judge_apart(const std::string& members, const ConformChildOptions& child = {},
                          const ConformOptions& options = {}) {
  return conform_in_child(
      library("provider_fake.so"),
      R"({"model_family":"fake")" + (members.empty() ? "" : "," + members) + "}", options, child);
}

const ConformCheck& check_of(const ConformReport& report, const std::string& name) {
  for (const auto& check : report.checks)
    if (check.name == name) return check;
  static const ConformCheck none{"none", ConformOutcome::kSkipped, ""};
  ADD_FAILURE() << "no check is called " << name;
  return none;
}

// Every check once and in order, counted rightly, and a document that a parser takes.
void expect_whole(const ConformReport& report) {
  const auto names = conform_check_names();
  ASSERT_EQ(report.checks.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(report.checks[i].name, names[i]);
  EXPECT_EQ(report.passed + report.failed + report.skipped, int(names.size()));
  auto json = Json::parse(to_json(report));
  ASSERT_TRUE(json) << json.error().text;
  EXPECT_EQ(json.value().find("failed")->integer(), report.failed);
}

// One failure with these words, in the check `name`; everything behind it skipped.
void expect_ended_in(const ConformReport& report, const std::string& name, const char* words) {
  expect_whole(report);
  EXPECT_EQ(report.failed, 1) << to_text(report);
  const auto& culprit = check_of(report, name);
  EXPECT_EQ(culprit.outcome, ConformOutcome::kFailed) << to_text(report);
  EXPECT_NE(culprit.detail.find(words), std::string::npos) << culprit.detail;
  bool after = false;
  for (const auto& check : report.checks) {
    if (after) {
      EXPECT_EQ(check.outcome, ConformOutcome::kSkipped) << check.name;
    }
    after |= check.name == name;
  }
}

TEST(ConformChild, judges_as_the_suite_does_in_one_process_and_looks_at_standard_output) {
  std::vector<std::string> started, done;
  ConformOptions options;
  options.on_start = [&](const char* name) { started.push_back(name); };
  options.on_check = [&](const ConformCheck& check) { done.push_back(check.name); };
  const auto report = judge_apart("", {}, options);
  expect_whole(report);
  EXPECT_EQ(report.failed, 0) << to_text(report);
  EXPECT_EQ(check_of(report, "output: never writes to standard output").outcome,
            ConformOutcome::kPassed);
  EXPECT_EQ(started, done);
  EXPECT_EQ(done.size(), report.checks.size());
}

TEST(ConformChild, a_call_that_does_not_return_fails_its_check_and_ends_the_suite) {
  struct Row {
    const char *members, *check, *words;
  };
  const Row rows[] = {
      {R"("open_sleep_ms":60000)", "open: accepts the given configuration", "open did not return"},
      {R"("input_sleep_ms":60000)", "verbs: last_error ends, is UTF-8 and holds no control bytes",
       "set_input did not return"},
      {R"("sleep_ms":60000)", "tick: runs with every input staged", "run_stage did not return"},
      {R"("plan":"step","sleep_ms":60000)", "tick: runs with every input staged",
       "step did not return"},
  };
  ConformChildOptions limit;
  limit.call_timeout_s = 1;
  for (const Row& row : rows) {
    const auto start = std::chrono::steady_clock::now();
    const auto report = judge_apart(row.members, limit);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << row.members;
    SCOPED_TRACE(row.members);
    expect_ended_in(report, row.check, row.words);
  }
}

TEST(ConformChild, tells_what_it_waits_for_while_a_check_takes_long) {
  std::vector<std::string> told;
  ConformChildOptions child;
  child.call_timeout_s = 2.5;
  child.quiet_s = 0.5;
  child.on_wait = [&](const ConformProgress& now) {
    told.push_back(std::string(now.check) + ", " + call_name(now.call));
    EXPECT_GE(now.check_s, 0.5);
    EXPECT_LE(now.call_s, now.check_s + 0.1);
  };
  judge_apart(R"("open_sleep_ms":60000)", child);
  ASSERT_GE(told.size(), 1u);
  EXPECT_LE(told.size(), 3u);
  EXPECT_EQ(told[0], "open: accepts the given configuration, open");
}

TEST(ConformChild, a_provider_that_dies_or_exits_fails_its_check) {
  const char* first_tick = "tick: runs with every input staged";
  expect_ended_in(judge_apart(R"("crash_at":1)"), first_tick, "died of signal 6");
  expect_ended_in(judge_apart(R"("exit_at":1)"), first_tick, "status 0 in run_stage");
}

TEST(ConformChild, what_is_written_to_standard_output_is_found_and_quoted) {
  const char* name = "output: never writes to standard output";
  const auto opened = judge_apart(R"("open_print":1)");
  EXPECT_EQ(check_of(opened, name).outcome, ConformOutcome::kFailed) << to_text(opened);
  EXPECT_NE(check_of(opened, name).detail.find("the fake prints"), std::string::npos);
  EXPECT_NE(check_of(opened, name).detail.find("open: "), std::string::npos);
  const auto ticked = judge_apart(R"("print_in_tick":1000)");  // more than there is room for
  EXPECT_EQ(check_of(ticked, name).outcome, ConformOutcome::kFailed) << to_text(ticked);
  EXPECT_NE(check_of(ticked, name).detail.find("tick: runs"), std::string::npos);
  EXPECT_EQ(ticked.failed, 1) << to_text(ticked);
}

TEST(ConformChild, what_cannot_be_loaded_is_a_report_too) {
  const auto report = conform_in_child("/nonexistent/provider.so", "{}", {}, {});
  expect_whole(report);
  EXPECT_EQ(report.checks[0].outcome, ConformOutcome::kFailed);
}

}  // namespace
}  // namespace outrider::host
