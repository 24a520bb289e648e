// The runner in simulated time: what the machine decides really happens, with real inputs and
// outputs.
#include <algorithm>

#include "tandem/sim.h"

namespace outrider::tandem::test {
namespace {

TEST(TandemRunner, the_lead_takes_over_with_its_history_warm_and_answers_every_tick) {
  Sim sim(1);
  sim.settle();
  const Sim::Seen seen = sim.tick();
  EXPECT_EQ(seen.leader(), 2);
  EXPECT_EQ(seen.command[0], 2);
  EXPECT_EQ(seen.took_ns, 25 * kSimMs);
  EXPECT_EQ(seen.origin[OUTRIDER_ORIGIN_AGE_NS], 25 * kSimMs) << "what a consumer compensates";
  EXPECT_EQ(sim.unanswered + sim.double_authority + sim.stale, 0);
}

TEST(TandemRunner, stays_with_the_standby_while_engaged) {
  Sim sim(1);
  sim.run(600, true);
  EXPECT_EQ(sim.lead_ticks, 0);
  EXPECT_EQ(sim.runner->state().phase, Phase::kReady);
}

// G3 and the port's rule: never staged, or older than engaged_max_age_ms, is in control.
TEST(TandemRunner, an_engaged_value_that_is_missing_or_old_counts_as_engaged) {
  for (const bool once : {false, true}) {
    Sim sim(1);
    const float state[2] = {1, 1};
    if (once) sim.runner->set_engaged(false);
    for (int i = 0; i < 100; ++i) {
      if (!once || i > 0) sim.clock.advance_ns(50 * kSimMs);
      sim.runner->set_input(0, state, sizeof state);
      ASSERT_EQ(sim.runner->tick(), 0);
    }
    EXPECT_EQ(sim.runner->state().leader, Leader::kStandby) << once;
  }
}

// R9 on the runner: 45 ms is fresh, 47 ms is held and given at 46.
TEST(TandemRunner, R9_the_hold_point_of_46_ms) {
  Sim sim(1);
  sim.settle();
  sim.lead->cable.delay_ns = 45 * kSimMs;
  Sim::Seen seen = sim.tick();
  EXPECT_FALSE(seen.held());
  EXPECT_EQ(seen.took_ns, 45 * kSimMs);
  sim.lead->cable.delay_ns = 47 * kSimMs;
  const float before = seen.command[1];
  seen = sim.tick();
  EXPECT_TRUE(seen.held());
  EXPECT_EQ(seen.took_ns, 46 * kSimMs);
  EXPECT_EQ(seen.command[1], before) << "the previous output once more";
  EXPECT_EQ(seen.origin[OUTRIDER_ORIGIN_AGE_NS], 96 * kSimMs);
}

// What the loop lost before it began the tick is the lead's loss, not the consumer's.
TEST(TandemRunner, R9_the_hold_point_counts_from_when_a_tick_was_due) {
  for (const int64_t late_ms : {0, 10, 45, 46, 49, 50, 70}) {
    Sim sim(1);
    sim.settle();
    sim.lead->cable.delay_ns = 60 * kSimMs;
    const int64_t due_ns = sim.clock.now_ns();
    sim.clock.advance_ns(late_ms * kSimMs);
    sim.runner->due(due_ns);
    const Sim::Seen seen = sim.tick();
    EXPECT_TRUE(seen.held()) << late_ms;
    EXPECT_EQ(seen.took_ns, std::max<int64_t>(46 - late_ms, 0) * kSimMs) << late_ms;
    const int64_t late_ns = std::min<int64_t>(late_ms, 50) * kSimMs;  // no more is believed
    EXPECT_EQ(seen.origin[OUTRIDER_ORIGIN_AGE_NS], 50 * kSimMs + late_ms * kSimMs + seen.took_ns);
    int64_t c[OUTRIDER_TANDEM_COUNT];
    sim.runner->read_counters(c);
    EXPECT_EQ(c[OUTRIDER_TANDEM_WORST_TICK_NS], std::max(46 * kSimMs, late_ns)) << late_ms;
    EXPECT_EQ(c[OUTRIDER_TANDEM_DROPPED_PERIODS], late_ms >= 50 ? 1 : 0) << late_ms;
  }
}

// Told for one tick only, whether that tick was run or not; a time to come is now.
TEST(TandemRunner, a_tick_that_was_not_told_of_is_due_when_it_begins) {
  Sim sim(1);
  sim.settle();
  sim.lead->cable.delay_ns = 47 * kSimMs;
  sim.runner->due(sim.clock.now_ns() - 20 * kSimMs);
  EXPECT_EQ(sim.tick().took_ns, 26 * kSimMs);
  sim.run(1);
  EXPECT_EQ(sim.tick().took_ns, 46 * kSimMs);
  sim.runner->due(sim.clock.now_ns() + 1);
  EXPECT_EQ(sim.tick().took_ns, 46 * kSimMs);
}

// G9: the late answer is what a second held tick gives.
TEST(TandemRunner, G9_a_late_answer_refreshes_what_is_held) {
  Sim sim(1);
  sim.settle();
  sim.lead->cable.delay_ns = 47 * kSimMs;
  sim.tick();
  sim.lead->cable.delay_ns = 49 * kSimMs;
  const Sim::Seen seen = sim.tick();
  EXPECT_TRUE(seen.held());
  EXPECT_EQ(seen.command[1], static_cast<float>(sim.n_ticks - 1));
  EXPECT_EQ(seen.origin[OUTRIDER_ORIGIN_AGE_NS], 96 * kSimMs);
}

TEST(TandemRunner, FC36_the_host_dies_in_the_middle_of_a_tick_and_the_standby_answers_that_tick) {
  Sim sim(1);
  sim.settle();
  sim.lead->cable.alive = false;  // noticed when the next tick is asked
  const Sim::Seen seen = sim.tick(true);
  EXPECT_EQ(seen.leader(), 1);
  EXPECT_FALSE(seen.held());
  EXPECT_LE(seen.took_ns, 50 * kSimMs);
  EXPECT_EQ(seen.origin[OUTRIDER_ORIGIN_REASON], OUTRIDER_REASON_LOST);
  sim.run(200, true);
  EXPECT_EQ(sim.unanswered, 0);
  sim.lead->cable.alive = true;
  sim.run(20 * 200, true);
  EXPECT_EQ(sim.runner->state().leader, Leader::kStandby) << "engaged: no way back";
  sim.run(100, false);
  EXPECT_EQ(sim.runner->state().leader, Leader::kLead) << "and back through the normal rules";
}

TEST(TandemRunner, a_silent_host_is_held_once_and_replaced_within_two_ticks) {
  Sim sim(1);
  sim.settle();
  sim.lead->cable.silent = true;
  Sim::Seen seen = sim.tick(true);
  EXPECT_TRUE(seen.held());
  seen = sim.tick(true);
  EXPECT_EQ(seen.leader(), 1);
  EXPECT_FALSE(seen.held());
  EXPECT_LE(seen.took_ns, 46 * kSimMs);
  EXPECT_LT(sim.worst_age_ns, 100 * kSimMs);
}

TEST(TandemRunner, a_NaN_of_the_lead_is_never_given) {
  Sim sim(1);
  sim.settle();
  sim.lead->cable.unsound = true;
  const Sim::Seen seen = sim.tick(true);
  EXPECT_EQ(seen.leader(), 1);
  EXPECT_EQ(seen.origin[OUTRIDER_ORIGIN_REASON], OUTRIDER_REASON_UNSOUND);
}

// S17e / R35: the reset allocates nothing (hot_test), and what follows equals a fresh start.
TEST(TandemRunner, R35_after_a_hand_back_the_standby_is_as_after_its_own_start) {
  Sim sim(1);
  sim.settle();
  sim.lead->cable.alive = false;
  std::vector<float> after;
  for (int i = 0; i < 30; ++i) {
    const Sim::Seen seen = sim.tick(true);
    ASSERT_EQ(seen.leader(), 1);
    after.insert(after.end(), {seen.command[2], seen.command[3]});
  }
  Sim fresh(2);
  fresh.lead->cable.alive = false;
  std::vector<float> first;
  for (int i = 0; i < 30; ++i) {
    const Sim::Seen seen = fresh.tick(true);
    first.insert(first.end(), {seen.command[2], seen.command[3]});
  }
  EXPECT_EQ(after, first);
  EXPECT_EQ(sim.standby.n_resets, 1);
}

// A runtime whose history is a stage "reset" of its plan: a tick of a tandem runs the others.
TEST(TandemRunner, R35_a_reset_stage_is_the_history_and_no_part_of_a_tick) {
  Sim sim(1, preset_limits("driving20").value(), {.who = 1, .reset_stage = true});
  for (int i = 1; i <= 5; ++i) {
    const Sim::Seen seen = sim.tick(true);
    ASSERT_EQ(seen.command[2], static_cast<float>(i)) << "goes on from the tick before";
  }
  EXPECT_EQ(sim.standby.n_resets, 0);
  sim.settle();
  sim.lead->cable.alive = false;
  const Sim::Seen seen = sim.tick(true);
  EXPECT_EQ(seen.leader(), 1);
  EXPECT_EQ(seen.command[2], 1.0f) << "from its start";
  EXPECT_EQ(sim.standby.n_resets, 1);
}

TEST(TandemRunner, a_standby_whose_history_cannot_be_reset_does_not_answer_until_it_can) {
  Sim sim(1);
  sim.settle();
  sim.standby.now.reset_code = FRT_ERR_BACKEND;
  sim.lead->cable.alive = false;
  const float state[2] = {1, 1};
  int codes[6];
  for (int& code : codes) {
    ASSERT_EQ(sim.runner->set_input(0, state, sizeof state), 0);
    code = sim.runner->tick();
    sim.clock.advance_ns(50 * kSimMs);
  }
  const int64_t held = preset_limits("driving20").value().stop_holds;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(codes[i], i < held ? 0 : FRT_ERR_BACKEND) << i;
  sim.standby.now.reset_code = 0;
  const Sim::Seen seen = sim.tick(true);
  EXPECT_EQ(seen.code, 0);
  EXPECT_EQ(seen.command[2], 1.0f);
}

TEST(TandemRunner, a_history_that_cannot_be_reset_is_refused_before_the_first_tick) {
  Scripted broken(nullptr, {.who = 1});
  broken.now.reset_code = FRT_ERR_FAILED;
  const auto history = History::of(broken.core());
  ASSERT_FALSE(history);
  EXPECT_EQ(history.error().code, Code::kFailed);
  Scripted none(nullptr, {.who = 1, .history = false});
  EXPECT_FALSE(History::of(none.core()).value().exists());
  Scripted good(nullptr, {.who = 1});
  EXPECT_TRUE(History::of(good.core()).value().exists());
  EXPECT_EQ(good.n_resets, 3) << "exercised: nothing is done for the first time when it counts";
}

TEST(TandemRunner, a_standby_kept_warm_runs_beside_the_lead_and_is_not_reset) {
  Limits limits = preset_limits("driving20").value();
  limits.standby_every_ticks = 1;
  Sim sim(1, limits);
  sim.settle();
  const int64_t runs = sim.standby.n_runs;
  sim.run(20);
  EXPECT_EQ(sim.standby.n_runs, runs + 20);
  sim.lead->cable.alive = false;
  const Sim::Seen seen = sim.tick(true);
  EXPECT_EQ(seen.leader(), 1);
  EXPECT_EQ(sim.standby.n_resets, 0);
  EXPECT_EQ(seen.took_ns, 10 * kSimMs) << "its answer was there already";
}

TEST(TandemRunner, a_failing_standby_holds_then_refuses_with_its_code) {
  for (const char* how : {"code", "nan", "short", "nothing", "throws"}) {
    Sim sim(1);
    sim.lead->cable.alive = false;
    sim.run(10);
    Scripted::Behaviour& b = sim.standby.now;
    const std::string kind = how;
    if (kind == "code") b.code = FRT_ERR_BACKEND;
    b.nan = kind == "nan";
    b.short_output = kind == "short";
    b.not_ready = kind == "nothing";
    b.throws = kind == "throws";
    for (int i = 0; i < 3; ++i) {
      const Sim::Seen seen = sim.tick();
      EXPECT_EQ(seen.code, 0) << how;
      EXPECT_TRUE(seen.held()) << how;
    }
    const Sim::Seen seen = sim.tick();
    EXPECT_EQ(seen.code, kind == "code" ? FRT_ERR_BACKEND : FRT_ERR_FAILED) << how;
    EXPECT_EQ(seen.leader(), 0) << how << ": nobody";
    uint64_t written = 9;
    float out[4];
    EXPECT_EQ(sim.runner->get_output(0, out, sizeof out, &written), FRT_ERR_NOT_READY);
    EXPECT_EQ(written, 0u);
    b.code = 0;
    b.nan = b.short_output = b.not_ready = b.throws = false;
    EXPECT_EQ(sim.tick().code, 0) << how << ": a good tick works again";
  }
}

TEST(TandemRunner, inputs_that_a_side_refuses_or_that_are_missing_are_told) {
  Sim sim(1);
  EXPECT_EQ(sim.runner->tick(), FRT_ERR_INVALID);
  EXPECT_EQ(sim.runner->failure().fault, Runner::Fault::kNotStaged);
  EXPECT_EQ(sim.runner->state().tick, 0) << "no tick was used up";
  const float state[3] = {1, 2, 3};
  EXPECT_EQ(sim.runner->set_input(0, state, sizeof state), FRT_ERR_SHAPE);
  EXPECT_EQ(sim.runner->failure().fault, Runner::Fault::kTooLarge);
  EXPECT_EQ(sim.runner->set_input(0, state, 4), FRT_ERR_SHAPE);
  EXPECT_EQ(sim.runner->failure().fault, Runner::Fault::kStandbyInput);
  EXPECT_EQ(sim.runner->tick(), FRT_ERR_INVALID) << "a refused input is not staged";
  sim.run(3);
  sim.standby.now.input_code = FRT_ERR_INVALID;
  EXPECT_EQ(sim.runner->set_input(0, state, 8), FRT_ERR_INVALID);
  EXPECT_EQ(sim.runner->tick(), FRT_ERR_INVALID) << "the old value is gone";
}

TEST(TandemRunner, a_device_that_stalls_is_not_the_leads_fault) {
  Sim sim(1);
  sim.settle();
  for (int i = 0; i < 50; ++i) sim.tick(false, i % 10 == 0 ? 400 * kSimMs : 0);
  EXPECT_EQ(sim.runner->state().leader, Leader::kLead);
}

// The spec's statistics: a host at 40 ms with a 3 % tail past 46 is held in that share of the ticks
// and keeps the lead; one at 60 ms is handed back within 5 ticks.
TEST(TandemRunner, hold_statistics_are_exact) {
  Limits limits = preset_limits("driving20").value();
  Sim sim(1, limits);
  sim.settle();
  int late = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool tail = i % 33 == 5;
    late += tail;
    sim.lead->cable.delay_ns = (tail ? 48 : 40) * kSimMs;
    ASSERT_EQ(sim.tick().held(), tail) << i;
  }
  int64_t counters[OUTRIDER_TANDEM_COUNT];
  sim.runner->read_counters(counters);
  EXPECT_EQ(counters[OUTRIDER_TANDEM_HELD], late);
  EXPECT_EQ(counters[OUTRIDER_TANDEM_LATE_ANSWERS], late);
  EXPECT_EQ(sim.runner->state().leader, Leader::kLead);
  sim.lead->cable.delay_ns = 60 * kSimMs;
  int ticks = 0;
  while (sim.tick().leader() == 2) ++ticks;
  EXPECT_LE(ticks, 5);
}

TEST(TandemRunner, a_lead_that_took_over_lately_is_said_to_be_proving) {
  Sim sim(3);
  int64_t c[OUTRIDER_TANDEM_COUNT];
  int64_t proving = 0;
  for (int i = 0; i < 100; ++i) {
    sim.tick();
    sim.runner->read_counters(c);
    const int64_t led = sim.runner->state().led_ticks;
    const bool wanted = sim.runner->state().leader == Leader::kLead && led <= 20;
    ASSERT_EQ(c[OUTRIDER_TANDEM_PROVING], wanted ? 1 : 0) << i;
    proving += wanted;
  }
  EXPECT_EQ(proving, 20);
}

// The device of the lead left and came back: the wait for the next attempt ends with the next tick,
// once in a streak.
TEST(TandemRunner, a_replug_that_is_reported_ends_one_wait) {
  Sim sim(3);
  sim.settle();
  sim.lead->die();
  sim.tick();
  for (int i = 0; i < 3; ++i) sim.tick();
  ASSERT_EQ(sim.runner->state().phase, Phase::kRetrying);
  const int64_t connects = sim.runner->state().counts.connects;
  sim.runner->replugged();
  sim.tick();
  EXPECT_EQ(sim.runner->state().counts.connects, connects + 1);
  for (int i = 0; i < 3; ++i) sim.tick();  // that one failed: the next replug waits
  sim.runner->replugged();
  sim.tick();
  EXPECT_EQ(sim.runner->state().counts.connects, connects + 1);
}

TEST(TandemRunner, a_tick_beyond_its_period_is_kept_with_its_parts_for_a_cold_thread) {
  Sim sim(3);
  SlowTick slow;
  sim.run(10, true);
  EXPECT_FALSE(sim.runner->take_slow(slow));
  sim.standby.now.took_ns = 61 * kSimMs;
  sim.tick(true);
  ASSERT_TRUE(sim.runner->take_slow(slow));
  EXPECT_EQ(slow.tick, 11);
  EXPECT_EQ(slow.took_ns, 61 * kSimMs);
  EXPECT_EQ(slow.standby_ns, 61 * kSimMs);
  EXPECT_EQ(slow.lead_ns, 0);
  EXPECT_EQ(slow.leader, Leader::kStandby);
  EXPECT_FALSE(sim.runner->take_slow(slow)) << "told once";
}

TEST(TandemRunner, counters_fit_what_happened) {
  Sim sim(1);
  sim.run(300);
  int64_t c[OUTRIDER_TANDEM_COUNT];
  sim.runner->read_counters(c);
  EXPECT_EQ(c[OUTRIDER_TANDEM_TICKS], 300);
  EXPECT_EQ(c[OUTRIDER_TANDEM_BY_LEAD], sim.lead_ticks);
  EXPECT_EQ(c[OUTRIDER_TANDEM_BY_STANDBY], sim.standby_ticks);
  EXPECT_EQ(c[OUTRIDER_TANDEM_BY_LEAD] + c[OUTRIDER_TANDEM_BY_STANDBY] + c[OUTRIDER_TANDEM_HELD] +
                c[OUTRIDER_TANDEM_REFUSED],
            300);
  EXPECT_EQ(c[OUTRIDER_TANDEM_HANDOVERS],
            c[OUTRIDER_TANDEM_TAKEOVERS] + c[OUTRIDER_TANDEM_HANDBACKS]);
  for (int i = OUTRIDER_TANDEM_USED; i < OUTRIDER_TANDEM_COUNT; ++i) EXPECT_EQ(c[i], 0) << i;
}

}  // namespace
}  // namespace outrider::tandem::test
