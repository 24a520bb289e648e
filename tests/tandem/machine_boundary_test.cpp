// The rules of the tandem at their boundaries, and what changes nothing: each of these tells one
// line of the machine from its neighbour (tools/mutate_tandem.py).
#include "tandem/rig.h"

namespace outrider::tandem::test {
namespace {

using enum Phase;

TEST(TandemMachine, what_the_standby_computed_beside_the_lead_is_of_that_tick_only) {
  Rig rig;
  rig.limits.standby_every_ticks = 2;
  rig.lead_proven();
  while (!rig.begin(true).has(act::kCover)) {
    rig.answer(30);
    rig.next();
  }
  rig.standby(true, 20);
  rig.answer(30);
  rig.next();
  ASSERT_FALSE(rig.begin(true).has(act::kCover));
  rig.after_ms(5);
  EXPECT_TRUE(rig.failed().has(act::kRunStandby)) << "the answer beside the tick before is old";
}

TEST(TandemMachine, missed_periods_of_the_first_ticks_are_forgiven_to_the_last_one) {
  for (const int64_t first : {24, 25}) {
    Rig rig;
    rig.limits.drop_first_ticks = first;
    rig.limits.standby_first_ticks = 1;
    rig.take_over();
    while (rig.tick < 23) rig.lead_tick();
    rig.begin(false, 50);
    EXPECT_TRUE(rig.last.has(act::kAskLead)) << "tick 24 is one of the first";
    rig.answer(30);
    rig.next();
    rig.begin(false, 50);
    EXPECT_EQ(rig.last.has(act::kRunStandby), first == 24) << first;
  }
}

TEST(TandemMachine, the_stall_of_a_take_over_counts_for_nothing_at_all) {
  Rig rig;
  rig.limits.drop_first_ticks = 0;
  rig.take_over();
  rig.begin(false, 8);
  rig.answer(30);
  rig.next();
  EXPECT_EQ(rig.state.drops.x, 0);
  rig.begin(false, 1);
  EXPECT_TRUE(rig.last.has(act::kAskLead)) << "one missed period is forgiven";
}

TEST(TandemMachine, a_question_that_is_overdue_when_a_tick_begins_gives_the_tick_to_the_standby) {
  for (const bool at_it : {false, true}) {
    Rig rig;
    rig.limits.silent_holds = 0;
    rig.lead_proven();
    rig.begin();
    const int64_t asked_ns = rig.now;
    rig.silence();
    rig.now = asked_ns + rig.limits.deadline_ns - (at_it ? 0 : 1);
    EXPECT_EQ(rig.begin().has(act::kRunStandby), at_it);
    EXPECT_EQ(rig.state.reason == Reason::kDeadline, at_it);
  }
}

TEST(TandemMachine, a_doubted_lead_is_not_asked_when_the_standby_needs_the_whole_tick) {
  for (const int64_t standby_ms : {45, 46, 47}) {
    Rig rig;
    rig.lead_proven();
    rig.begin();
    rig.silence();
    rig.next();
    rig.state.standby_ns = standby_ms * kMs;
    EXPECT_EQ(rig.begin().has(act::kRunStandby), standby_ms >= 46) << standby_ms;
    EXPECT_EQ(rig.state.reason == Reason::kSilent, standby_ms >= 46) << standby_ms;
  }
}

// Silence through the settling ticks, and a standby that is reckoned to need the whole tick: the
// first tick after them is the standby's from its start, not held once more.
TEST(TandemMachine,
     a_lead_silent_while_it_settled_is_not_asked_when_the_standby_needs_the_whole_tick) {
  Rig rig;
  rig.take_over();  // its first tick was answered
  for (int64_t led = 2; led <= rig.limits.settling_ticks; ++led) {
    rig.state.standby_ns = 60 * kMs;
    ASSERT_TRUE(rig.begin().has(act::kAskLead)) << led;
    EXPECT_TRUE(rig.silence().has(act::kPublishHeld)) << led;
    rig.next();
  }
  EXPECT_TRUE(rig.begin().has(act::kRunStandby)) << "held once more for nothing";
  EXPECT_EQ(rig.state.reason, Reason::kSilent);
}

TEST(TandemMachine, with_silent_holds_1_the_first_silent_tick_is_the_standbys) {
  Rig rig;
  rig.limits.silent_holds = 1;
  rig.lead_proven();
  rig.begin();
  EXPECT_EQ(rig.last.wait_until_ns, rig.state.start_ns + 46 * kMs - rig.state.standby_ns);
  EXPECT_TRUE(rig.silence().has(act::kRunStandby));
  EXPECT_EQ(rig.state.reason, Reason::kSilent);
}

TEST(TandemMachine, silence_in_the_settling_ticks_is_held_to_the_last_of_them) {
  Rig rig;
  rig.take_over();
  for (int64_t led = 2; led <= 3; ++led) {
    ASSERT_TRUE(rig.begin().has(act::kAskLead));
    ASSERT_EQ(rig.state.led_ticks, led);
    EXPECT_EQ(rig.last.wait_until_ns, rig.state.start_ns + 46 * kMs) << "settling tick " << led;
    ASSERT_TRUE(rig.silence().has(act::kPublishHeld));
    rig.next();
  }
  rig.begin();
  EXPECT_TRUE(rig.silence().has(act::kRunStandby)) << "the fourth tick is no settling one";
}

// A loop that wakes up late has lost that time itself; the tick is held when it would have been.
TEST(TandemMachine, R9_the_hold_point_counts_from_when_a_tick_was_due) {
  for (const int64_t late_ms : {0, 1, 20, 45, 46, 47, 50}) {
    Rig rig;
    rig.lead_proven();
    const int64_t due_ns = rig.now;
    rig.after_ms(static_cast<double>(late_ms));
    EXPECT_TRUE(rig.begin(false, 0, late_ms * kMs).has(act::kAskLead)) << late_ms;
    EXPECT_EQ(rig.state.start_ns, due_ns) << late_ms;
    EXPECT_EQ(rig.last.wait_until_ns, due_ns + 46 * kMs) << late_ms;
    EXPECT_EQ(rig.state.oldest_asked_ns, due_ns) << late_ms;
    EXPECT_TRUE(rig.silence().has(act::kPublishHeld)) << late_ms;
    EXPECT_EQ(rig.now, due_ns + std::max<int64_t>(46, late_ms) * kMs) << "at once when it is past";
  }
}

// A tick that was due before the last one, or is not due yet, is one nobody can have meant.
TEST(TandemMachine, a_tick_is_at_most_a_period_late_and_never_early) {
  for (const auto& [late_ns, counted_ns] :
       {std::pair{50 * kMs + 1, 50 * kMs}, {INT64_MAX, 50 * kMs}, {-1l, 0l}, {INT64_MIN, 0l}}) {
    Rig rig;
    rig.begin(false, 0, late_ns);
    EXPECT_EQ(rig.state.start_ns, rig.now - counted_ns) << late_ns;
  }
}

TEST(TandemMachine, the_time_a_late_tick_lost_is_missing_to_the_standby_beside_the_lead) {
  for (const int64_t more_ns : {0, 1}) {
    Rig rig;
    rig.limits.standby_every_ticks = 1;
    rig.limits.silent_holds = 0;
    rig.lead_proven();
    rig.state.standby_ns = 10 * kMs;
    EXPECT_EQ(rig.begin(false, 0, 36 * kMs + more_ns).has(act::kCover), more_ns == 0);
  }
}

TEST(TandemMachine, a_loss_in_a_late_tick_is_held_when_the_standby_would_miss_the_period) {
  for (const int64_t more_ns : {0, 1}) {
    Rig rig;
    rig.lead_proven();
    rig.state.standby_ns = 10 * kMs;
    rig.begin(false, 0, 40 * kMs + more_ns);
    EXPECT_EQ(rig.failed().has(act::kRunStandby), more_ns == 0);
    EXPECT_EQ(rig.last.has(act::kPublishHeld), more_ns == 1);
  }
}

TEST(TandemMachine, a_wait_ends_at_the_deadline_of_the_oldest_question) {
  Rig rig;
  rig.limits.silent_holds = 0;
  rig.limits.deadline_ns = 180 * kMs;
  rig.lead_proven();
  const int64_t first_ns = rig.now;
  for (int i = 0; i < 3; ++i) {
    rig.begin();
    EXPECT_EQ(rig.last.wait_until_ns, rig.state.start_ns + 46 * kMs) << i;
    rig.silence();
    rig.next();
  }
  rig.begin();
  EXPECT_EQ(rig.last.wait_until_ns, first_ns + 180 * kMs) << "not the 196 ms of the hold point";
  EXPECT_TRUE(rig.silence().has(act::kRunStandby));
  EXPECT_EQ(rig.state.reason, Reason::kDeadline);
}

TEST(TandemMachine, a_late_answer_leaves_the_newer_question_as_the_oldest) {
  Rig rig;
  rig.limits.silent_holds = 0;
  rig.limits.deadline_ns = 90 * kMs;
  rig.lead_proven();
  rig.begin();
  rig.silence();
  const int64_t late = rig.tick;
  rig.next();
  rig.begin();
  EXPECT_EQ(rig.last.wait_until_ns, rig.state.start_ns + 40 * kMs) << "90 ms after the first";
  rig.after_ms(3);
  EXPECT_TRUE(rig.late_answer(late, 53).has(act::kKeepLate));
  EXPECT_EQ(rig.last.wait_until_ns, rig.state.start_ns + 46 * kMs);
  EXPECT_EQ(rig.state.oldest_asked_ns, rig.state.start_ns);
  EXPECT_EQ(rig.state.counts.late_answers, 1);
}

TEST(TandemMachine, what_changes_nothing_still_says_how_long_to_wait) {
  Rig rig;
  rig.limits.standby_every_ticks = 1;
  rig.lead_proven();
  rig.begin();
  const int64_t until_ns = rig.last.wait_until_ns;
  const auto still_waits = [&](const Actions& a, const char* what) {
    EXPECT_TRUE(a.has(act::kWait)) << what;
    EXPECT_EQ(a.wait_until_ns, until_ns) << what;
  };
  still_waits(rig.standby(true, 1), "the standby ran beside it");
  EXPECT_EQ(rig.state.counts.covered, 1);
  still_waits(rig.late_answer(rig.tick - 5), "an answer from before");
  still_waits(rig.send({.kind = EventKind::kAnswer, .tick = rig.tick, .epoch = 1}),
              "another epoch");
  still_waits(rig.send({.kind = EventKind::kPoint}), "too early");
  rig.answer(30);
  for (const EventKind kind : {EventKind::kPoint, EventKind::kStandby}) {
    const State before = rig.state;
    EXPECT_EQ(rig.send({.kind = kind}).bits, 0u);
    EXPECT_EQ(rig.state, before) << "nobody waits any more: " << static_cast<int>(kind);
  }
  EXPECT_EQ(rig.late_answer(rig.tick - 5).bits, act::kDropAnswer) << "and nothing to wait for";
}

TEST(TandemMachine, the_standby_runs_beside_the_lead_only_if_it_fits_before_the_hold_point) {
  for (const int64_t more_ns : {0, 1}) {
    Rig rig;
    rig.limits.standby_every_ticks = 1;
    rig.limits.silent_holds = 0;
    rig.lead_proven();
    rig.state.standby_ns = rig.limits.hold_ns + more_ns;
    EXPECT_EQ(rig.begin().has(act::kCover), more_ns == 0);
  }
}

TEST(TandemMachine, answers_of_settling_ticks_are_no_part_of_the_trend) {
  Rig rig;
  rig.take_over();
  EXPECT_EQ(rig.state.lag.n, 0);
  rig.lead_tick();
  rig.lead_tick();
  EXPECT_EQ(rig.state.led_ticks, 3);
  EXPECT_EQ(rig.state.lag.n, 0);
  rig.lead_tick();
  EXPECT_EQ(rig.state.lag.n, 1);
}

TEST(TandemMachine, the_standbys_time_rises_at_once_and_falls_slowly) {
  Rig rig;
  const auto run = [&](double ms) {
    rig.begin(true);
    rig.standby(true, ms);
    rig.next();
    return rig.state.standby_ns;
  };
  EXPECT_EQ(run(10), 10 * kMs);
  EXPECT_EQ(run(2), 10 * kMs - 8 * kMs / 16);
  EXPECT_EQ(run(20), 20 * kMs);
  EXPECT_EQ(run(20), 20 * kMs);
}

TEST(TandemMachine, every_way_a_tick_ends_is_counted) {
  Rig rig;
  rig.begin();
  rig.standby(false);  // refused: nothing to hold
  rig.next();
  EXPECT_FALSE(rig.state.published);
  rig.standby_tick();
  EXPECT_TRUE(rig.state.published);
  rig.begin();
  rig.standby(false);  // held
  rig.next();
  rig.lead_proven();
  const int64_t by_lead = rig.state.counts.led_lead;
  rig.lead_tick();
  EXPECT_EQ(rig.state.counts.led_lead, by_lead + 1);
  EXPECT_EQ(rig.state.counts.refused, 1);
  EXPECT_EQ(rig.state.counts.held, 1);
  EXPECT_EQ(rig.state.counts.led_lead + rig.state.counts.led_standby + 2, rig.state.n_ticks);
  EXPECT_EQ(rig.state.counts.takeovers, 1);
  EXPECT_EQ(rig.state.counts.handbacks, 0);
  rig.begin();
  rig.failed();
  EXPECT_EQ(rig.state.counts.handbacks, 1);
  EXPECT_EQ(rig.state.counts.losses, 1);
  EXPECT_EQ(rig.state.counts.forecasts, 0);
  EXPECT_EQ(rig.state.counts.connects, 1);
}

// ---- a change of leader begins anew -------------------------------------------------------------

TEST(TandemMachine, a_new_leader_inherits_nothing) {
  Rig rig;
  rig.limits.drop_first_ticks = 0;
  rig.lead_proven();
  for (int i = 0; i < 12; ++i) rig.lead_tick();
  for (int i = 0; i < 4; ++i) {
    rig.begin(false, i == 0 ? 1 : 0);
    rig.silence();
    rig.after_ms(1);
    rig.late_answer(rig.tick);
    rig.next();
  }
  rig.begin();
  rig.silence();
  rig.after_ms(1);
  rig.late_answer(rig.tick);
  rig.next();
  ASSERT_TRUE(rig.begin().has(act::kRunStandby));
  const auto nothing_left = [&](int64_t led) {
    const State& s = rig.state;
    EXPECT_EQ(s.led_ticks, led);
    EXPECT_EQ(s.holds_row, 0);
    EXPECT_EQ(s.silent, 0);
    EXPECT_EQ(s.n_holds, 0);
    EXPECT_EQ(s.drops.x, 0);
    EXPECT_EQ(s.lag.n, 0);
    EXPECT_EQ(s.pending, Reason::kNone);
    EXPECT_EQ(s.answered_tick, rig.tick - 1);
    EXPECT_EQ(s.asked_tick, rig.tick - 1 + led);
  };
  nothing_left(0);
  EXPECT_EQ(rig.state.standby_ran, 0) << "its history was reset";
  EXPECT_EQ(rig.state.failures, 1);
  rig.standby();
  rig.now = rig.state.retry_at_ns;
  while (!rig.begin().has(act::kAskLead)) {
    if (rig.last.has(act::kFollowLead)) rig.shadow();
    rig.standby();
    rig.next();
  }
  nothing_left(1);
  EXPECT_GE(rig.state.standby_ran, rig.limits.standby_first_ticks);
}

TEST(TandemMachine, a_standby_kept_warm_keeps_what_it_ran) {
  Rig rig;
  rig.limits.standby_every_ticks = 3;
  rig.lead_proven();
  const int64_t ran = rig.state.standby_ran;
  rig.begin();
  EXPECT_FALSE(rig.failed().has(act::kResetStandby));
  EXPECT_EQ(rig.state.standby_ran, ran);
}

TEST(TandemMachine, a_loss_is_the_standbys_if_it_still_ends_within_the_period) {
  for (const int64_t more_ns : {0, 1}) {
    Rig rig;
    rig.lead_proven();
    rig.state.standby_ns = 10 * kMs;
    rig.begin(true);
    rig.now = rig.state.start_ns + 40 * kMs + more_ns;
    EXPECT_EQ(rig.failed().has(act::kRunStandby), more_ns == 0);
    EXPECT_EQ(leads(rig.state), more_ns == 1) << "then with the next tick";
    EXPECT_EQ(rig.state.phase, more_ns == 1 ? kHolding : kRetrying);
  }
}

TEST(TandemMachine, a_loss_between_two_ticks_asks_nobody) {
  Rig rig;
  rig.lead_proven();
  rig.begin();
  rig.answer(30);
  const Actions a = rig.failed();
  EXPECT_FALSE(a.has(act::kRunStandby));
  EXPECT_FALSE(a.has(act::kPublishHeld));
  EXPECT_TRUE(a.has(act::kCloseLead));
  EXPECT_FALSE(leads(rig.state));
  rig.next();
  EXPECT_TRUE(rig.begin().has(act::kRunStandby));
}

// ---- the guest ----------------------------------------------------------------------------------

TEST(TandemMachine, a_streak_ends_after_more_than_a_good_minute) {
  for (const int64_t more_ns : {0, 1}) {
    Rig rig;
    rig.limits.retry_quick_count = 0;
    rig.standby_tick();
    rig.failed();  // 5 s
    rig.send({.kind = EventKind::kReplugged});
    EXPECT_TRUE(rig.state.replug_used);
    rig.begin();
    rig.joined();
    rig.standby();
    rig.now = rig.state.good_since_ns + rig.limits.streak_ns + more_ns;
    rig.failed();
    EXPECT_EQ(rig.state.retry_at_ns - rig.now, (more_ns == 1 ? 5000 : 10000) * kMs);
    EXPECT_EQ(rig.state.replug_used, more_ns == 0) << "a new streak may skip a wait again";
  }
}

TEST(TandemMachine, the_return_time_itself_is_in_time) {
  for (const int64_t more_ns : {0, 1}) {
    Rig rig;
    rig.standby_tick();
    rig.joined();
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(rig.begin().has(act::kFollowLead));
      rig.send({.kind = EventKind::kShadow,
                .tick = rig.tick,
                .link = rig.state.link,
                .caught_up = true,
                .took_ns = rig.limits.return_ns + more_ns});
      rig.standby();
      rig.next();
    }
    EXPECT_EQ(rig.state.good_returns, more_ns == 0 ? 3 : 0);
  }
}

TEST(TandemMachine, an_answer_that_was_not_compared_neither_proves_nor_disproves) {
  Rig rig;
  rig.limits.agree_ticks = 100;
  rig.standby_tick(true);
  rig.joined();
  int64_t expected = 0;
  for (const Agreement a :
       {Agreement::kWithin, Agreement::kWithin, Agreement::kNotCompared, Agreement::kWithin}) {
    rig.begin(true);
    rig.shadow(true, 30, a);
    expected += a == Agreement::kWithin;
    EXPECT_EQ(rig.state.agreed, expected);
    rig.standby();
    rig.next();
  }
}

TEST(TandemMachine, shadow_work_may_take_its_time_and_no_longer) {
  for (const int64_t more_ns : {0, 1}) {
    Rig rig;
    rig.standby_tick();
    rig.joined();
    ASSERT_TRUE(rig.begin().has(act::kFollowLead));
    const int64_t asked_ns = rig.now;
    rig.standby();
    rig.now = asked_ns + rig.limits.ping_ns + more_ns;
    rig.begin();
    EXPECT_EQ(rig.state.phase, more_ns == 1 ? kRetrying : kReady);
  }
}

TEST(TandemMachine, a_guest_that_joins_begins_to_wait_and_to_count_anew) {
  Rig rig;
  rig.limits.shadow_every_ticks = 4;
  rig.standby_tick(true);
  rig.joined();
  for (int i = 0; i < 3; ++i) rig.standby_tick(true);
  EXPECT_EQ(rig.state.waited_ticks, 3);
  rig.failed();
  rig.now = rig.state.retry_at_ns;
  ASSERT_TRUE(rig.begin(true).has(act::kConnect));
  rig.after_ms(5);
  rig.joined();
  EXPECT_EQ(rig.state.waited_ticks, 0);
  EXPECT_EQ(rig.state.contact_ns, rig.now);
  EXPECT_EQ(rig.state.good_since_ns, rig.now);
  EXPECT_FALSE(rig.state.connecting);
  rig.standby();
  rig.next();
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(rig.begin(true).has(act::kShadowLead), i == 4) << i;
    rig.standby();
    rig.next();
  }
}

TEST(TandemMachine, proofs_of_a_guest_that_failed_are_worth_nothing) {
  Rig rig;
  rig.limits.agree_ticks = 100;
  rig.standby_tick(true);
  rig.joined();
  rig.begin(true);
  rig.shadow(true, 30, Agreement::kWithin);
  EXPECT_EQ(rig.state.good_returns, 1);
  EXPECT_EQ(rig.state.caught_up_tick, rig.tick);
  rig.shadow(true, 30, Agreement::kWithin, false);
  EXPECT_EQ(rig.state.good_returns, 0);
  EXPECT_EQ(rig.state.agreed, 0);
  EXPECT_EQ(rig.state.caught_up_tick, -1);
  EXPECT_FALSE(rig.state.lead_busy);
}

TEST(TandemMachine, what_does_not_fit_the_phase_changes_nothing) {
  const auto unchanged = [](Rig& rig, EventKind kind, const char* what) {
    State before = rig.state;
    before.now_ns = std::max(before.now_ns, rig.now);  // the clock goes on
    EXPECT_EQ(rig.send({.kind = kind, .link = rig.state.link}).bits, 0u) << what;
    EXPECT_EQ(rig.state, before) << what;
  };
  Rig ready;
  ready.standby_tick();
  ready.joined();
  unchanged(ready, EventKind::kJoined, "joined twice");
  unchanged(ready, EventKind::kMismatch, "its ports were right");
  unchanged(ready, EventKind::kReplugged, "it is there");
  Rig leading;
  leading.lead_proven();
  leading.begin();
  unchanged(leading, EventKind::kJoined, "it leads");
  unchanged(leading, EventKind::kMismatch, "it leads");
  unchanged(leading, EventKind::kShadow, "shadows of a leader");
  unchanged(leading, EventKind::kPong, "nobody asked");
  unchanged(leading, EventKind::kReplugged, "it is there");
  Rig gone;
  gone.standby_tick();
  gone.send({.kind = EventKind::kStop});
  for (const EventKind kind : {EventKind::kJoined, EventKind::kFailed, EventKind::kMismatch,
                               EventKind::kShadow, EventKind::kPong, EventKind::kReplugged,
                               EventKind::kStop, EventKind::kPoint, EventKind::kCount})
    unchanged(gone, kind, "unavailable");
  // A lead that was behind keeps its connection through the wait: what it says of itself counts.
  Rig behind;
  behind.lead_proven();
  behind.begin();
  behind.answer(30);
  behind.state.pending = Reason::kRowHolds;
  behind.next();
  behind.standby_tick();
  ASSERT_EQ(behind.state.phase, kRetrying);
  ASSERT_TRUE(behind.state.joined);
  unchanged(behind, EventKind::kJoined, "it has not left");
  unchanged(behind, EventKind::kShadow, "it works for nobody");
  EXPECT_TRUE(behind.failed().has(act::kCloseLead)) << "its link died in the wait";
  EXPECT_FALSE(behind.state.joined);
  EXPECT_EQ(behind.state.failures, 2);
}

TEST(TandemMachine, stop_and_mismatch_close_what_is_open_and_name_the_reason) {
  Rig rig;
  rig.standby_tick();
  rig.joined();
  const uint32_t link = rig.state.link;
  rig.begin();
  ASSERT_TRUE(rig.state.lead_busy);
  EXPECT_TRUE(rig.send({.kind = EventKind::kStop}).has(act::kCloseLead));
  EXPECT_EQ(rig.state.reason, Reason::kStopped);
  EXPECT_NE(rig.state.link, link);
  EXPECT_FALSE(rig.state.lead_busy) << "it works for nobody any more";
  Rig leading;
  leading.lead_proven();
  leading.begin();
  leading.answer(30);
  EXPECT_TRUE(leading.send({.kind = EventKind::kStop}).has(act::kCloseLead));
  EXPECT_EQ(leading.state.reason, Reason::kStopped);
  EXPECT_EQ(leading.state.phase, kUnavailable);
  EXPECT_EQ(leading.state.counts.losses, 0) << "it was not its fault";
}

// ---- numbers that are reached exactly -----------------------------------------------------------

TEST(TandemMachine, the_standby_has_to_run_well_as_often_as_the_limit_says) {
  Rig rig;
  rig.limits.standby_first_ticks = 8;
  rig.limits.return_ticks = 0;
  rig.begin();
  rig.joined();
  rig.standby();
  EXPECT_EQ(rig.state.standby_ran, 1);
  rig.next();
  rig.begin();
  rig.shadow();
  rig.standby(false);
  EXPECT_EQ(rig.state.standby_ran, 0) << "in a row";
  rig.next();
  for (int64_t ran = 0; ran < 8; ++ran) {
    ASSERT_FALSE(rig.begin().has(act::kAskLead)) << ran;
    rig.shadow();
    rig.standby();
    EXPECT_EQ(rig.state.standby_ran, ran + 1);
    rig.next();
  }
  EXPECT_TRUE(rig.begin().has(act::kAskLead)) << "eight are eight";
}

TEST(TandemMachine, the_lead_has_to_be_in_time_as_often_as_the_limit_says) {
  Rig rig;
  rig.limits.return_ticks = 6;
  rig.standby_tick();
  rig.joined();
  for (int64_t good = 0; good < 6; ++good) {
    ASSERT_FALSE(rig.begin().has(act::kAskLead)) << good;
    rig.shadow();
    rig.standby();
    rig.next();
  }
  EXPECT_TRUE(rig.begin().has(act::kAskLead)) << "six are six";
}

TEST(TandemMachine, limits_of_one_are_limits) {
  Rig agree;
  agree.limits.agree_ticks = 1;
  agree.limits.return_ticks = 0;
  agree.standby_tick(true);
  agree.joined();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(agree.begin(true).has(act::kFollowLead)) << "follows while engaged " << i;
    agree.shadow(true, 30, i == 2 ? Agreement::kWithin : Agreement::kNotCompared);
    agree.standby();
    agree.next();
  }
  EXPECT_TRUE(agree.begin(true).has(act::kAskLead)) << "one tick of agreement is the proof";

  Rig shadows;
  shadows.limits.shadow_every_ticks = 1;
  shadows.standby_tick(true);
  shadows.joined();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(shadows.begin(true).has(act::kShadowLead)) << i;
    shadows.shadow(false);
    shadows.standby();
    shadows.next();
  }

  Rig once;
  once.limits.max_handbacks = 1;
  once.lead_proven();
  once.begin();
  once.failed();
  EXPECT_EQ(once.state.phase, kUnavailable);
  EXPECT_EQ(once.state.reason, Reason::kGaveUp);
}

TEST(TandemMachine, every_attempt_to_connect_has_a_link_of_its_own) {
  Rig rig;
  rig.standby_tick();
  rig.joined();
  const uint32_t first = rig.state.link;
  rig.failed();
  EXPECT_EQ(rig.state.link, first + 1);
  State before = rig.state;
  rig.failed();
  EXPECT_EQ(rig.state, before) << "nothing is open that could fail";
  rig.now = rig.state.retry_at_ns;
  ASSERT_TRUE(rig.begin().has(act::kConnect));
  EXPECT_EQ(rig.state.link, first + 2);
  before = rig.state;
  for (const uint32_t link : {first, first + 1}) {
    rig.send({.kind = EventKind::kFailed, .link = link});
    EXPECT_EQ(rig.state, before) << "an older attempt's";
    rig.send({.kind = EventKind::kJoined, .link = link});
    EXPECT_EQ(rig.state, before) << "an older attempt's";
  }
  rig.joined();
  EXPECT_EQ(rig.state.phase, kReady);
}

TEST(TandemMachine, a_lead_that_fails_before_the_first_tick_is_tried_again) {
  Rig rig;
  rig.failed();
  EXPECT_EQ(rig.state.phase, kRetrying);
  EXPECT_EQ(rig.state.failures, 1);
}

}  // namespace
}  // namespace outrider::tandem::test
