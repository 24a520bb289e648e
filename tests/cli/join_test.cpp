// outrider join as a caller sees it: two fakes, and a lead that fails.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "link/serve_process.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

std::vector<std::string> join(const std::string& lead, const std::string& seconds) {
  return {"join",         lead,     "--standby",          fake_config(),   "--seconds",
          seconds,        "--json", "--standby-provider", fake_provider(), "--lead-provider",
          fake_provider()};
}

double number(const Json& json, const char* key) {
  const Json* value = json.find(key);
  EXPECT_NE(value, nullptr) << key;
  return value != nullptr ? value->number() : -1;
}

// Every tick has an answer, always. That each comes within its period is up to the machine the test
// runs on: then status, lateness and number missed must agree.
void expect_answered(const Json& json, int status) {
  EXPECT_EQ(number(*json.find("counters"), "refused"), 0);
  EXPECT_EQ(status, number(json, "missed") == 0 ? 0 : 3);
  if (number(json, "missed") == 0) {
    EXPECT_EQ(number(json, "worst_late_ms"), 0);
  }
}

TEST(Join, both_lead_in_turn_and_no_tick_is_missed) {
  const Outcome outcome = run(join(fake_config(), "2"));
  ASSERT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  const Json json = document(outcome);
  EXPECT_EQ(number(json, "ticks") + number(json, "skipped"), 40);
  expect_answered(json, outcome.status);
  EXPECT_GE(number(json, "handovers"), 1);
  EXPECT_GE(number(json, "held"), 0);
  const Json* leader = json.find("leader_ms");
  ASSERT_NE(leader, nullptr);
  EXPECT_GT(number(*leader, "standby"), 100);
  EXPECT_GT(number(*leader, "lead"), 0);
  EXPECT_EQ(number(*leader, "standby") + number(*leader, "lead"), 50 * number(json, "ticks"));
}

TEST(Join, a_lead_that_fails_costs_no_tick_and_is_told) {
  const Outcome outcome = run(join(fake_config("\"fail_at\":25"), "2.5"));
  ASSERT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  const Json json = document(outcome);
  expect_answered(json, outcome.status);
  EXPECT_GE(number(json, "handovers"), 2);
  EXPECT_NE(json.find("lead_error")->text().find("scripted failure"), std::string::npos);
  ASSERT_GE(json.find("changes")->items().size(), 3u);
  EXPECT_EQ(json.find("changes")->items()[2].find("reason")->text(), "lost");
}

// A host in a process of its own; it dies in the middle of the run.
TEST(Join, FC36_a_real_host_leads_and_its_death_costs_no_tick) {
  link::here::ServeProcess host(
      {fake_config(), "--provider", fake_provider(), "--listen", "tcp://127.0.0.1:0"});
  ASSERT_TRUE(host.is_there()) << host.line();
  Outcome outcome;
  std::thread joined([&] {
    outcome = run({"join", host.endpoint(), "--standby", fake_config(), "--standby-provider",
                   fake_provider(), "--seconds", "3", "--json"});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(2200));
  EXPECT_EQ(host.end(SIGKILL), 128 + SIGKILL);
  joined.join();
  ASSERT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  const Json json = document(outcome);
  EXPECT_EQ(number(json, "ticks") + number(json, "skipped"), 60);
  expect_answered(json, outcome.status);
  const Json* leader = json.find("leader_ms");
  EXPECT_GT(number(*leader, "lead"), 300);
  EXPECT_GT(number(*leader, "standby"), 300);
  const auto& changes = json.find("changes")->items();
  ASSERT_GE(changes.size(), 3u);
  EXPECT_EQ(changes.back().find("leader")->text(), "standby");
  EXPECT_EQ(json.find("state")->text(), "retrying");
  EXPECT_NE(json.find("lead_error")->text(), "");
}

// Nobody listens there: the standby has every tick, and the status says so.
TEST(Join, an_endpoint_without_a_host_is_status_3_and_named) {
  const Outcome outcome =
      run({"join", "tcp://127.0.0.1:1", "--standby", fake_config(), "--standby-provider",
           fake_provider(), "--seconds", "0.5", "--json"});
  EXPECT_EQ(outcome.status, 3);
  const Json json = document(outcome);
  EXPECT_EQ(number(*json.find("leader_ms"), "lead"), 0);
  EXPECT_EQ(number(*json.find("counters"), "refused"), 0);
  EXPECT_NE(outcome.err.find("the lead never led"), std::string::npos) << outcome.err;
}

TEST(Join, mistakes_are_usage_errors_with_a_way_out) {
  const std::string folder = scratch("join_bad");
  EXPECT_EQ(run({"join", "tcp://127.0.0.1:1"}).status, 2);
  EXPECT_EQ(run({"join"}).status, 2);
  EXPECT_EQ(run({"join", folder + "/none.json", "--standby", folder + "/none.json"}).status, 2);
  auto words = join(fake_config(), "1");
  words.insert(words.end(), {"--set", "hold_ms=60"});
  const Outcome outcome = run(words);
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.err.find("hold_ms is 60, allowed is less than period_ms (50)"),
            std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace outrider::cli_test
