// The control thread with real threads and a real clock, models in this process.
#include "tandem/worker.h"

#include <chrono>
#include <thread>

#include "hot_counter.h"
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
  explicit Pair(const Limits& limits, double agree_distance = 0,
                const Scripted::Options& lead_options = {.who = 2})
      : standby(nullptr, {.who = 1}), lead(nullptr, lead_options) {
    ports = plan_ports(standby.runtime(), {.max_output_bytes = 64}).value();
    const bool compares = limits.agree_ticks > 0;
    EXPECT_TRUE(arena.reserve(1 << 20));
    ring = std::make_unique<InputRing>(ports, limits.history_ticks, compares, arena);
    worker = std::make_unique<Worker>(
        Worker::Parts{[this]() -> Result<std::unique_ptr<host::SessionCore>> {
                        while (hold_open) usleep(1000);
                        if (refuse_open) return make_error(Code::kDevice, "refused");
                        return lead.second_core();
                      },
                      &standby.runtime(), &ports, ring.get(), &clock, agree_distance,
                      compares ? limits.period_ns : 0},
        arena);
    runner = std::make_unique<Runner>(
        Runner::Parts{limits, &ports, &standby.core(), History::of(standby.core()).value(),
                      worker.get(), ring.get(), &clock, nullptr},
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
  std::atomic<bool> refuse_open{false}, hold_open{false};
  Ports ports;
  Arena arena;
  std::unique_ptr<InputRing> ring;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Runner> runner;
  // A tick with everything that a loop calls around it. What it did that a tick must not do.
  outrider::test::HotCounts counted_tick(bool engaged) {
    const auto due = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    const float state[2] = {static_cast<float>(++n), 1};
    float command[4];
    uint64_t written = 0;
    int64_t origin[OUTRIDER_ORIGIN_COUNT], counters[OUTRIDER_TANDEM_COUNT];
    outrider::test::hot_counter::arm_thread();
    bool good = runner->set_input(0, state, sizeof state) == 0;
    runner->set_engaged(engaged);
    good = good && runner->tick() == 0;
    good = good && runner->get_output(0, command, sizeof command, &written) == 0;
    runner->read_origin(origin);
    runner->read_counters(counters);
    const auto counts = outrider::test::hot_counter::disarm();
    EXPECT_TRUE(good);
    std::this_thread::sleep_until(due);
    return counts;
  }
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

// A link that may lose a frame says "not ready" for it and is well.
TEST(TandemWorker, a_lead_without_an_answer_to_one_tick_costs_that_tick_and_no_link) {
  Pair pair(quick());
  ASSERT_TRUE(pair.until(Leader::kLead));
  const Limits limits = quick();
  for (int64_t i = 0; i <= limits.settling_ticks + limits.proving_ticks; ++i)
    ASSERT_EQ(pair.tick(true), 0);
  ASSERT_EQ(pair.runner->state().leader, Leader::kLead);
  const Counts before = pair.runner->state().counts;
  pair.lead.now.code = FRT_ERR_NOT_READY;
  ASSERT_EQ(pair.tick(true), 0);
  EXPECT_EQ(pair.runner->state().phase, Phase::kHolding);
  pair.lead.now.code = 0;
  for (int i = 0; i < 5; ++i) ASSERT_EQ(pair.tick(true), 0);
  EXPECT_EQ(pair.runner->state().phase, Phase::kLeading);
  EXPECT_EQ(pair.runner->state().counts.held, before.held + 1);
  EXPECT_EQ(pair.runner->state().counts.losses, before.losses);
  EXPECT_EQ(pair.runner->state().counts.handovers, before.handovers);
  // One that has none for good is lost like a silent one.
  pair.lead.now.code = FRT_ERR_NOT_READY;
  for (int i = 0; i < 10; ++i) ASSERT_EQ(pair.tick(true), 0);
  EXPECT_EQ(pair.runner->state().leader, Leader::kStandby);
}

// Keep-alive: a lead that knows whether its far end is there is asked that, and runs nothing.
TEST(TandemWorker, a_waiting_lead_is_asked_whether_it_is_there_without_running_it) {
  Limits limits = quick();
  limits.keepalive_ns = 40 * kMs;
  for (const bool liveness : {true, false}) {
    Pair pair(limits, 0, {.who = 2, .liveness = liveness});
    for (int i = 0; i < 30; ++i) ASSERT_EQ(pair.tick(true), 0);
    EXPECT_EQ(pair.runner->state().phase, Phase::kReady);
    const int64_t shadows = pair.runner->state().counts.shadows;
    EXPECT_EQ(shadows == 0, liveness) << "without the extension a shadow answer must show it";
    if (liveness) {
      pair.lead.now.alive = 0;
      for (int i = 0; i < 8; ++i) ASSERT_EQ(pair.tick(true), 0);
      EXPECT_GE(pair.runner->state().counts.losses, 1);
      EXPECT_STREQ(pair.worker->last_failure().text, "lead: its far end is gone");
    }
    pair.worker.reset();
    EXPECT_EQ(pair.lead.n_pings > 0, liveness);
    EXPECT_EQ(pair.lead.n_runs > 0, !liveness);
  }
}

TEST(TandemWorker, a_lead_with_a_reset_stage_follows_without_being_reset_in_between) {
  Pair pair(quick(), 0, {.who = 2, .reset_stage = true});
  ASSERT_TRUE(pair.until(Leader::kLead));
  const int64_t epoch = pair.runner->state().epoch;
  for (int i = 0; i < 10; ++i) ASSERT_EQ(pair.tick(true), 0);
  float command[4] = {};
  uint64_t written = 0;
  ASSERT_EQ(pair.runner->get_output(0, command, sizeof command, &written), 0);
  EXPECT_EQ(pair.runner->state().epoch, epoch);
  EXPECT_GE(command[2], 11.0f) << "the sum over all ticks since it began to follow";
  pair.worker.reset();
}

// FC-36: the cable is out and in again between two ticks, and no verb fails. Who is there now
// starts from zero: it is no lead before it has seen the last ticks.
TEST(TandemWorker, FC36_a_lead_whose_link_came_back_by_itself_is_warmed_again) {
  Pair pair(quick(), 0, {.who = 2, .liveness = true});
  ASSERT_TRUE(pair.until(Leader::kLead));
  for (int i = 0; i < 10; ++i) ASSERT_EQ(pair.tick(false), 0);
  const int64_t losses = pair.runner->state().counts.losses;
  pair.lead.generation = 1;
  ASSERT_EQ(pair.tick(false), 0);
  EXPECT_EQ(pair.runner->state().leader, Leader::kStandby) << "in the same tick";
  EXPECT_EQ(pair.runner->state().counts.losses, losses + 1);
  // And while it waits: followed from the oldest kept input again.
  Pair guest(quick(), 0, {.who = 2, .liveness = true});
  for (int i = 0; i < 5; ++i) ASSERT_EQ(guest.tick(true), 0);
  ASSERT_EQ(guest.tick(false), 0);  // follows
  for (int i = 0; i < 2; ++i) ASSERT_EQ(guest.tick(true), 0);
  const int64_t before = guest.lead.n_resets;
  guest.lead.generation = 1;
  ASSERT_TRUE(guest.until(Leader::kLead));
  EXPECT_EQ(guest.lead.n_resets, before + 1);
}

TEST(TandemWorker, other_ports_and_a_refused_open_are_told_in_words) {
  Pair other(quick(), 0, {.who = 2, .command_values = 6});
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

// Every phase, and every change from one to the next, on the thread of the tick. (Opening and
// closing the lead allocates: that is the control thread's.)
TEST(TandemHot, every_phase_and_every_change_of_phase_takes_nothing) {
  namespace hot = outrider::test::hot_counter;
  if (!hot::available()) GTEST_SKIP() << "a sanitizer stands where the counter would";
  bool met[6] = {};
  const auto ticks = [&](Pair& pair, Phase until, bool engaged, const char* what) {
    for (int i = 0; i < 100; ++i) {
      const auto counts = pair.counted_tick(engaged);
      ASSERT_EQ(counts.total(), 0u) << what << ": " << hot::describe(counts);
      const Phase phase = pair.runner->state().phase;
      met[static_cast<int>(phase)] = true;
      if (phase == until && i > 3) return;
    }
    ADD_FAILURE() << what << ": never got there";
  };
  Limits limits = quick();
  limits.shadow_every_ticks = 2;
  limits.settling_ticks = limits.proving_ticks = 0;
  limits.silent_holds = 0;
  limits.keepalive_ns = 50 * kMs;
  for (const int64_t standby_every : {0, 1}) {
    limits.standby_every_ticks = standby_every;
    Pair pair(limits, 0, {.who = 2, .liveness = true});
    pair.hold_open = true;
    ticks(pair, Phase::kJoining, false, "joining");
    pair.hold_open = false;
    ticks(pair, Phase::kReady, true, "ready, with shadows and pings");
    ticks(pair, Phase::kLeading, false, "taking over, leading");
    pair.lead.now.sleep_us = 17500;
    ticks(pair, Phase::kHolding, true, "holding");
    pair.lead.now.sleep_us = 0;
    pair.lead.now.code = FRT_ERR_BACKEND;
    ticks(pair, Phase::kRetrying, true, "losing, retrying");
  }
  limits.agree_ticks = 2;
  Pair compared(limits, 1e6);
  ticks(compared, Phase::kLeading, true, "proving, taking over while engaged");
  compared.lead.now.nan = true;
  ticks(compared, Phase::kRetrying, true, "an unsound answer");
  Pair other(limits, 0, {.who = 2, .command_values = 6});
  ticks(other, Phase::kUnavailable, true, "unavailable");
  for (int phase = 0; phase < 6; ++phase) EXPECT_TRUE(met[phase]) << "phase " << phase;
}

}  // namespace
}  // namespace outrider::tandem::test
