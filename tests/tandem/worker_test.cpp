// The control thread with real threads and a real clock, models in this process.
#include "tandem/worker.h"

#include <chrono>
#include <thread>

#include "tandem/runner.h"
#include "tandem/scripted.h"

namespace outrider::tandem::test {
namespace {

constexpr int64_t kMs = 1000000;

Limits quick() {
  Limits l = preset_limits("driving20").value();
  l.period_ns = 20 * kMs;
  l.hold_ns = 16 * kMs;
  l.return_ns = 15 * kMs;
  l.return_ticks = 1;
  l.deadline_ns = 80 * kMs;
  l.history_ticks = 6;
  return l;
}

struct Pair {
  explicit Pair(const Limits& limits, double agree_distance = 0, int64_t lead_values = 4)
      : standby(nullptr, {.who = 1}), lead(nullptr, {.who = 2, .command_values = lead_values}) {
    ports = plan_ports(standby.runtime(), {.max_output_bytes = 64}).value();
    const bool compares = limits.agree_ticks > 0;
    EXPECT_TRUE(arena.reserve(1 << 20));
    ring = std::make_unique<InputRing>(ports, limits.history_ticks, compares, arena);
    worker = std::make_unique<Worker>(
        Worker::Parts{[this]() -> Result<std::unique_ptr<host::SessionCore>> {
                        if (refuse_open) return make_error(Code::kDevice, "refused");
                        return lead.second_core();
                      },
                      &standby.runtime(), &ports, ring.get(), &clock, agree_distance,
                      compares ? limits.period_ns : 0},
        arena);
    runner = std::make_unique<Runner>(
        Runner::Parts{limits, &ports, &standby.core(), worker.get(), ring.get(), &clock, nullptr},
        arena);
  }
  int tick(bool engaged, int64_t period_ms = 20) {
    const auto due = std::chrono::steady_clock::now() + std::chrono::milliseconds(period_ms);
    const float state[2] = {static_cast<float>(++n), 1};
    EXPECT_EQ(runner->set_input(0, state, sizeof state), 0);
    runner->set_engaged(engaged);
    const int code = runner->tick();
    std::this_thread::sleep_until(due);
    return code;
  }
  bool until(Leader leader, bool engaged = false) {
    for (int i = 0; i < 300; ++i) {
      if (tick(engaged) != 0) return false;
      if (runner->state().leader == leader) return true;
    }
    return false;
  }

  MonotonicClock clock;
  Scripted standby, lead;
  std::atomic<bool> refuse_open{false};
  Ports ports;
  Arena arena;
  std::unique_ptr<InputRing> ring;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Runner> runner;
  int n = 0;
};

TEST(TandemWorker, the_lead_has_seen_every_recent_input_in_order_before_it_answers) {
  Pair pair(quick());
  for (int i = 0; i < 20; ++i) ASSERT_EQ(pair.tick(true), 0);  // engaged: it does not follow
  ASSERT_TRUE(pair.until(Leader::kLead));
  pair.worker.reset();  // joins: what the lead saw is ours to read
  const std::vector<float>& seen = pair.lead.seen;
  ASSERT_GE(seen.size(), 7u);
  EXPECT_GE(pair.lead.n_resets, 1) << "from the start";
  // The take-over tick is the last input that was asked; before it no gap back to a reset.
  int in_a_row = 1;
  for (size_t i = seen.size() - 1; i > 0 && seen[i] == seen[i - 1] + 1; --i) ++in_a_row;
  EXPECT_GE(in_a_row, 7) << "six kept ones, and its own";
  EXPECT_EQ(seen.back(), static_cast<float>(pair.n));
}

TEST(TandemWorker, agreement_is_measured_against_what_was_published) {
  Limits limits = quick();
  limits.agree_ticks = 5;
  Pair far(limits, 0.5);
  for (int i = 0; i < 60; ++i) ASSERT_EQ(far.tick(true), 0);
  EXPECT_EQ(far.runner->state().leader, Leader::kStandby) << "who differs by 1";
  EXPECT_EQ(far.runner->state().agreed, 0);
  Pair near(limits, 1e6);
  EXPECT_TRUE(near.until(Leader::kLead, true));
  EXPECT_EQ(near.runner->state().reason, Reason::kTakeOverProof);
}

TEST(TandemWorker, a_lead_that_hangs_keeps_its_own_thread_and_nothing_else) {
  Pair pair(quick());
  ASSERT_TRUE(pair.until(Leader::kLead));
  pair.lead.now.sleep_us = 700000;
  int64_t worst = 0;
  for (int i = 0; i < 25; ++i) {
    const int64_t begin = pair.clock.now_ns();
    ASSERT_EQ(pair.tick(true, 0), 0);
    worst = std::max(worst, pair.clock.now_ns() - begin);
  }
  EXPECT_LT(worst, 400 * kMs) << "a tick waited for the lead";
  EXPECT_EQ(pair.runner->state().leader, Leader::kStandby);
}

TEST(TandemWorker, other_ports_and_a_refused_open_are_told_in_words) {
  Pair other(quick(), 0, 6);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(other.tick(false), 0);
  EXPECT_EQ(other.runner->state().phase, Phase::kUnavailable);
  EXPECT_NE(std::string(other.worker->last_failure().text).find("port command"), std::string::npos);

  Limits limits = quick();
  limits.retry_quick_ns = 30 * kMs;
  Pair shut(limits);
  ASSERT_TRUE(shut.until(Leader::kLead));
  shut.refuse_open = true;
  shut.lead.now.code = FRT_ERR_BACKEND;
  for (int i = 0; i < 30; ++i) ASSERT_EQ(shut.tick(false), 0);
  EXPECT_EQ(shut.runner->state().phase, Phase::kRetrying);
  EXPECT_STREQ(shut.worker->last_failure().text, "refused");
  shut.refuse_open = false;
  shut.lead.now.code = 0;
  EXPECT_TRUE(shut.until(Leader::kLead)) << "back by the normal rules";
}

}  // namespace
}  // namespace outrider::tandem::test
