// The rules of the tandem one by one. Numbers: link.md 10.2, 10.4, driving.md d.
#include <set>

#include "base/rng.h"
#include "tandem/rig.h"

namespace outrider::tandem::test {
namespace {

using enum Phase;

TEST(TandemMachine, starts_with_the_standby_and_opens_the_lead_beside_it) {
  Rig rig;
  const Actions a = rig.begin();
  EXPECT_TRUE(a.has(act::kRunStandby));
  EXPECT_TRUE(a.has(act::kConnect));
  EXPECT_EQ(rig.state.phase, kJoining);
  EXPECT_TRUE(rig.standby().has(act::kPublishStandby));
  rig.next();
  EXPECT_FALSE(rig.begin().has(act::kConnect)) << "one attempt at a time";
  rig.joined();
  EXPECT_EQ(rig.state.phase, kReady);
}

TEST(TandemMachine, takes_over_only_when_everything_is_fulfilled) {
  Rig rig;
  rig.begin();
  rig.joined();
  rig.standby();
  rig.next();
  int ticks = 1;
  while (!rig.begin().has(act::kAskLead)) {
    ASSERT_TRUE(rig.last.has(act::kFollowLead)) << "the history is filled before the take-over";
    rig.shadow();
    rig.standby();
    rig.next();
    ASSERT_LT(++ticks, 100);
  }
  EXPECT_GE(ticks, rig.limits.standby_first_ticks);
  EXPECT_GE(rig.state.good_returns, rig.limits.return_ticks);
  EXPECT_EQ(rig.state.reason, Reason::kTakeOver);
  EXPECT_EQ(rig.state.epoch, 2u);
}

// Each condition alone keeps the standby in the lead.
TEST(TandemMachine, every_single_missing_condition_keeps_the_standby) {
  struct Case {
    const char* what;
    bool engaged, follows, caught_up, standby_sound;
    double took_ms;
  };
  const Case cases[] = {{"engaged", true, true, true, true, 30},
                        {"lead silent", false, false, true, true, 30},
                        {"history with a gap", false, true, false, true, 30},
                        {"standby fails", false, true, true, false, 30},
                        {"lead too slow", false, true, true, true, 43}};
  for (const Case& c : cases) {
    Rig rig;
    rig.standby_tick();
    rig.joined();
    for (int i = 0; i < 30; ++i) {
      const Actions a = rig.begin(c.engaged);
      ASSERT_FALSE(a.has(act::kAskLead)) << c.what;
      if (a.has(act::kFollowLead) && c.follows) rig.shadow(c.caught_up, c.took_ms);
      rig.standby(c.standby_sound);
      rig.next();
    }
  }
}

TEST(TandemMachine, a_proof_of_agreement_allows_the_take_over_while_engaged) {
  Rig rig;
  rig.limits.agree_ticks = 10;
  rig.standby_tick(true);
  rig.joined();
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(rig.begin(true).has(act::kFollowLead));
    rig.shadow(true, 30, Agreement::kWithin);
    rig.standby();
    rig.next();
  }
  ASSERT_TRUE(rig.begin(true).has(act::kRunStandby)) << "nine are not ten";
  rig.shadow(true, 30, Agreement::kBeyond);
  rig.standby();
  rig.next();
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(rig.begin(true).has(act::kRunStandby)) << "one beyond starts over: " << i;
    rig.shadow(true, 30, Agreement::kWithin);
    rig.standby();
    rig.next();
  }
  EXPECT_TRUE(rig.begin(true).has(act::kAskLead));
  EXPECT_EQ(rig.state.reason, Reason::kTakeOverProof);
}

// S5c / R9: an answer at 45 ms is fresh, at 47 ms the previous output is given at 46.
TEST(TandemMachine, R9_fresh_up_to_the_hold_point_and_held_at_it) {
  Rig rig;
  rig.lead_proven();
  rig.begin();
  EXPECT_TRUE(rig.answer(45).has(act::kPublishLead));
  rig.next();
  rig.begin();
  EXPECT_EQ(rig.last.wait_until_ns, rig.state.start_ns + 46 * kMs);
  EXPECT_TRUE(rig.silence().has(act::kPublishHeld));
  EXPECT_EQ(rig.now, rig.state.start_ns + 46 * kMs);
  EXPECT_EQ(rig.state.phase, kHolding);
  rig.after_ms(1);
  EXPECT_TRUE(rig.late_answer(rig.tick, 47).has(act::kKeepLate)) << "G9: refreshes what is held";
  rig.next();
  rig.lead_tick();
  EXPECT_EQ(rig.state.phase, kLeading);
  EXPECT_EQ(rig.state.counts.held, 1);
}

TEST(TandemMachine, the_first_three_ticks_forgive_a_hold_and_the_proving_ones_do_not) {
  for (int64_t late = 1; late <= 22; ++late) {
    Rig rig;
    rig.take_over();  // tick 1 is answered
    while (rig.state.led_ticks < late - 1) rig.lead_tick();
    if (late > 1) {
      rig.begin();
      ASSERT_TRUE(rig.silence().has(act::kPublishHeld)) << late;
      rig.after_ms(1);
      rig.late_answer(rig.tick);
      rig.next();
    }
    const bool handed_back = rig.begin().has(act::kRunStandby);
    EXPECT_EQ(handed_back, late >= 4 && late <= 20) << "held tick " << late;
    if (handed_back) {
      EXPECT_EQ(rig.state.reason, Reason::kProving);
    }
  }
}

TEST(TandemMachine, five_holds_in_a_row_hand_back_with_the_next_tick) {
  Rig rig;
  rig.lead_proven();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(rig.begin().has(act::kAskLead)) << i;
    ASSERT_TRUE(rig.silence().has(act::kPublishHeld)) << "the deciding tick is given as it came";
    rig.after_ms(1);
    rig.late_answer(rig.tick);
    rig.next();
  }
  EXPECT_TRUE(rig.begin().has(act::kRunStandby));
  EXPECT_EQ(rig.state.reason, Reason::kRowHolds);
  EXPECT_TRUE(rig.last.has(act::kResetStandby));
  EXPECT_FALSE(rig.last.has(act::kCloseLead)) << "a lead that is behind keeps its connection";
}

TEST(TandemMachine, an_answer_in_time_breaks_the_row) {
  Rig rig;
  rig.lead_proven();
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(rig.begin().has(act::kAskLead)) << i;
    if (i % 4 == 3) {
      rig.answer(30);
    } else {
      rig.silence();
      rig.after_ms(1);
      rig.late_answer(rig.tick, 30);
    }
    rig.next();
  }
  EXPECT_EQ(rig.state.phase, kLeading);
}

TEST(TandemMachine, more_than_twenty_holds_in_ten_seconds_hand_back) {
  for (const int gap : {2, 9, 10}) {  // every third tick, every tenth, every eleventh
    Rig rig;
    rig.limits.predict_ticks = 0;
    rig.lead_proven();
    int holds = 0;
    for (int i = 0; i < 400 && leads(rig.state); ++i) {
      if (rig.begin().has(act::kRunStandby)) break;
      if (i % (gap + 1) == 0) {
        rig.silence();
        ++holds;
        rig.after_ms(1);
        rig.late_answer(rig.tick, 47);
      } else {
        rig.answer(30);
      }
      rig.next();
    }
    // 21 holds ten ticks apart span exactly 10 s, eleven apart span 11.
    EXPECT_EQ(leads(rig.state), gap == 10) << gap;
    if (gap < 10) {
      EXPECT_EQ(holds, 21) << gap;
      EXPECT_EQ(rig.state.reason, Reason::kWindowHolds);
    }
  }
}

TEST(TandemMachine, a_silent_lead_is_lost_at_the_second_tick_not_after_200_ms) {
  Rig rig;
  rig.lead_proven();
  rig.begin(true);
  ASSERT_TRUE(rig.silence().has(act::kPublishHeld));
  rig.next();
  rig.begin(true);
  const int64_t standby_ns = rig.state.standby_ns;
  EXPECT_EQ(rig.last.wait_until_ns, rig.state.start_ns + 46 * kMs - standby_ns)
      << "waits only as long as the standby can still answer in time";
  const Actions a = rig.silence();
  EXPECT_TRUE(a.has(act::kRunStandby)) << "the same tick, engaged or not";
  EXPECT_TRUE(a.has(act::kResetStandby));
  EXPECT_TRUE(a.has(act::kCloseLead));
  EXPECT_TRUE(rig.standby(true, 10).has(act::kPublishStandby));
  EXPECT_LE(rig.now, rig.state.start_ns + 46 * kMs);
  EXPECT_EQ(rig.state.reason, Reason::kSilent);
}

TEST(TandemMachine, a_late_answer_clears_the_suspicion) {
  Rig rig;
  rig.lead_proven();
  rig.begin();
  rig.silence();
  const int64_t late = rig.tick;
  rig.next();
  rig.begin();
  rig.after_ms(3);
  EXPECT_TRUE(rig.late_answer(late, 53).has(act::kKeepLate));
  EXPECT_EQ(rig.last.wait_until_ns, rig.state.start_ns + 46 * kMs) << "the whole wait again";
  EXPECT_TRUE(rig.answer(40).has(act::kPublishLead));
}

TEST(TandemMachine, a_question_open_for_the_deadline_loses_the_lead) {
  Rig rig;
  rig.limits.silent_holds = 0;
  rig.lead_proven();
  int held = 0;
  while (rig.begin().has(act::kAskLead)) {
    const Actions a = rig.silence();
    if (a.has(act::kRunStandby)) break;
    ++held;
    rig.next();
    ASSERT_LT(held, 10);
  }
  EXPECT_EQ(held, 4) << "200 ms are four periods";
  EXPECT_EQ(rig.state.reason, Reason::kDeadline);
}

TEST(TandemMachine, G8_a_loss_in_the_middle_of_a_tick_is_answered_by_the_standby_in_that_tick) {
  for (const bool engaged : {false, true}) {
    for (const double at_ms : {0.0, 5.0, 35.0, 39.9}) {
      Rig rig;
      rig.lead_proven();
      rig.begin(engaged);
      rig.after_ms(at_ms);
      const Actions a = rig.failed();
      EXPECT_TRUE(a.has(act::kRunStandby)) << at_ms;
      EXPECT_TRUE(a.has(act::kCloseLead));
      EXPECT_EQ(rig.state.reason, Reason::kLost);
      EXPECT_TRUE(rig.standby().has(act::kPublishStandby));
      EXPECT_LE(rig.now, rig.state.start_ns + 50 * kMs);
    }
  }
}

TEST(TandemMachine, a_loss_too_late_for_the_standby_holds_and_changes_with_the_next_tick) {
  Rig rig;
  rig.lead_proven();
  rig.begin(true);
  rig.after_ms(41);
  EXPECT_TRUE(rig.failed().has(act::kPublishHeld));
  EXPECT_TRUE(leads(rig.state));
  rig.next();
  const Actions a = rig.begin(true);
  EXPECT_TRUE(a.has(act::kRunStandby));
  EXPECT_TRUE(a.has(act::kCloseLead));
  EXPECT_EQ(rig.state.reason, Reason::kLost);
}

TEST(TandemMachine, an_unsound_answer_is_a_loss_and_is_never_given) {
  Rig rig;
  rig.lead_proven();
  rig.begin(true);
  const Actions a = rig.answer(20, false);
  EXPECT_TRUE(a.has(act::kRunStandby));
  EXPECT_EQ(rig.state.reason, Reason::kUnsound);
}

TEST(TandemMachine, FC40_answers_of_another_epoch_and_repeated_ones_are_dropped_and_counted) {
  Rig rig;
  rig.lead_proven();
  const uint32_t old_epoch = rig.state.epoch;
  rig.begin();
  rig.after_ms(5);
  rig.failed();
  const Actions a = rig.send({.kind = EventKind::kAnswer, .tick = rig.tick, .epoch = old_epoch});
  EXPECT_TRUE(a.has(act::kDropAnswer));
  EXPECT_EQ(rig.state.counts.stale_answers, 1);
  rig.standby();

  Rig other;
  other.lead_proven();
  other.begin();
  other.answer(20);
  EXPECT_TRUE(other.answer(21).has(act::kDropAnswer)) << "the same once more";
  EXPECT_TRUE(other.late_answer(other.tick - 5).has(act::kDropAnswer)) << "an older one";
  EXPECT_TRUE(other.late_answer(other.tick + 5).has(act::kDropAnswer)) << "one nobody asked for";
  EXPECT_EQ(other.state.counts.repeated_answers, 3);
}

TEST(TandemMachine, G10_missed_periods_hand_back_with_the_drop_filter_of_the_driving_stack) {
  struct Case {
    int64_t dropped;
    bool back;
  };
  for (const Case c : {Case{0, false}, Case{1, false}, Case{2, true}, Case{50, true}}) {
    Rig rig;
    rig.lead_proven();
    rig.begin(false, c.dropped);
    EXPECT_EQ(rig.last.has(act::kRunStandby), c.back) << c.dropped;
    if (c.back) {
      EXPECT_EQ(rig.state.reason, Reason::kDrops);
    }
  }
  // A second one within about 6.5 s likewise; later it is forgiven.
  for (const int64_t apart : {20, 120, 140}) {
    Rig rig;
    rig.lead_proven();
    rig.begin(false, 1);
    rig.answer(30);
    rig.next();
    for (int64_t i = 1; i < apart; ++i) rig.lead_tick();
    rig.begin(false, 1);
    EXPECT_EQ(rig.last.has(act::kRunStandby), apart <= 130) << apart;
  }
}

TEST(TandemMachine, a_take_over_forgives_its_own_stall) {
  Rig rig;
  rig.take_over();
  rig.begin(false, 8);
  EXPECT_TRUE(rig.last.has(act::kAskLead));
}

TEST(TandemMachine, rising_answer_times_hand_back_before_a_tick_is_late) {
  Rig rig;
  rig.lead_proven();
  double ms = 24;
  while (rig.begin().has(act::kAskLead)) {
    ASSERT_LT(ms, 46) << "a tick was late first";
    rig.answer(ms);
    rig.next();
    ms += 1.0;
  }
  EXPECT_EQ(rig.state.reason, Reason::kForecast);
  EXPECT_EQ(rig.state.counts.forecasts, 1);
  EXPECT_EQ(rig.state.counts.held, 0);
  EXPECT_FALSE(rig.last.has(act::kCloseLead));
}

TEST(TandemMachine, a_step_to_another_steady_time_makes_no_forecast) {
  for (const double to_ms : {30.0, 35.0, 40.0, 44.0, 45.9}) {
    Rig rig;
    rig.lead_proven();
    for (int i = 0; i < 20; ++i) rig.lead_tick(25);
    for (int i = 0; i < 50; ++i) rig.lead_tick(to_ms);
    EXPECT_EQ(rig.state.phase, kLeading) << to_ms;
  }
}

TEST(TandemMachine, noise_and_single_peaks_make_no_forecast) {
  Rig rig;
  rig.lead_proven();
  const UniformStream noise(7);
  for (uint64_t i = 0; i < 20000; ++i) {
    const double peak = i % 97 == 0 ? 10 : 0;
    rig.lead_tick(31 + 2 * static_cast<double>(noise.symmetric(i)) + peak);
    ASSERT_EQ(rig.state.phase, kLeading) << i;
  }
}

TEST(TandemMachine, G11_retries_follow_the_backoff_and_a_good_minute_begins_a_new_streak) {
  Rig rig;
  rig.standby_tick();
  const int64_t expected_ms[] = {1000, 1000, 1000, 5000, 10000, 20000, 40000, 60000, 60000};
  for (const int64_t ms : expected_ms) {
    rig.failed();
    ASSERT_EQ(rig.state.phase, kRetrying);
    EXPECT_EQ(rig.state.retry_at_ns - rig.now, ms * kMs);
    rig.now = rig.state.retry_at_ns - kMs;
    ASSERT_FALSE(rig.begin().has(act::kConnect)) << "not before it is due";
    rig.standby(true, 1);
    rig.now = rig.state.retry_at_ns;
    ASSERT_TRUE(rig.begin().has(act::kConnect));
    rig.standby();
  }
  rig.joined();
  rig.after_ms(60001);
  rig.failed();
  EXPECT_EQ(rig.state.retry_at_ns - rig.now, 1000 * kMs);
}

TEST(TandemMachine, a_replug_skips_one_wait_of_a_streak) {
  Rig rig;
  rig.standby_tick();
  rig.failed();
  rig.send({.kind = EventKind::kReplugged});
  EXPECT_TRUE(rig.begin().has(act::kConnect));
  rig.standby();
  rig.failed();
  rig.send({.kind = EventKind::kReplugged});
  rig.next();
  EXPECT_FALSE(rig.begin().has(act::kConnect));
}

TEST(TandemMachine, a_lead_that_was_behind_comes_back_over_the_live_link_with_proof) {
  Rig rig;
  rig.lead_proven();
  for (int i = 0; i < 5; ++i) {
    rig.begin();
    rig.silence();
    rig.after_ms(1);
    rig.late_answer(rig.tick);
    rig.next();
  }
  rig.standby_tick();
  ASSERT_EQ(rig.state.phase, kRetrying);
  rig.now = rig.state.retry_at_ns;
  EXPECT_FALSE(rig.begin().has(act::kConnect));
  ASSERT_EQ(rig.state.phase, kReady);
  rig.shadow();
  rig.standby();
  rig.next();
  int ticks = 0;
  while (!rig.begin().has(act::kAskLead)) {
    rig.shadow();
    rig.standby();
    rig.next();
    ASSERT_LT(++ticks, 20);
  }
  EXPECT_GE(ticks, rig.limits.return_ticks - 2);
}

TEST(TandemMachine, a_slow_lead_never_flaps_it_stays_a_guest) {
  Rig rig;
  rig.standby_tick();
  rig.joined();
  for (int i = 0; i < 20 * 600; ++i) {
    if (rig.begin().has(act::kFollowLead)) rig.shadow(true, 44);
    rig.standby();
    rig.next();
  }
  EXPECT_EQ(rig.state.counts.handovers, 0);
  EXPECT_EQ(rig.state.phase, kReady);
}

TEST(TandemMachine, G12_after_max_handbacks_the_standby_stays) {
  Rig rig;
  rig.limits.max_handbacks = 2;
  rig.lead_proven();
  rig.begin();
  rig.failed();
  rig.standby();
  rig.next();
  ASSERT_EQ(rig.state.phase, kRetrying);
  rig.now = rig.state.retry_at_ns;
  rig.begin();
  rig.joined();
  rig.standby();
  rig.next();
  while (!rig.begin().has(act::kAskLead)) {
    rig.shadow();
    rig.standby();
    rig.next();
  }
  rig.failed();
  EXPECT_EQ(rig.state.phase, kUnavailable);
  EXPECT_EQ(rig.state.reason, Reason::kGaveUp);
  EXPECT_TRUE(rig.standby().has(act::kPublishStandby));
  rig.after_ms(1e7);
  EXPECT_FALSE(rig.begin().has(act::kConnect));
}

TEST(TandemMachine, a_failing_standby_is_held_then_refused_and_never_replaced_by_the_lead) {
  Rig rig;
  rig.standby_tick();
  rig.joined();
  for (int i = 0; i < 6; ++i) {
    const Actions a = rig.begin();
    ASSERT_TRUE(a.has(act::kRunStandby));
    if (a.has(act::kFollowLead)) rig.shadow();
    const Actions b = rig.standby(false);
    EXPECT_TRUE(b.has(i < 3 ? act::kPublishHeld : act::kRefuse)) << i;
    rig.next();
  }
  rig.standby_tick();
  EXPECT_EQ(rig.state.counts.refused, 3);
}

TEST(TandemMachine, a_standby_that_fails_first_has_nothing_to_hold) {
  Rig rig;
  rig.begin();
  EXPECT_TRUE(rig.standby(false).has(act::kRefuse));
}

// Ticks while engaged until the guest is given something to do; the time that took.
int64_t until_work(Rig& rig, uint32_t work) {
  const int64_t begin_ns = rig.now;
  while (!rig.begin(true).has(work)) {
    EXPECT_FALSE(rig.last.has(act::kFollowLead | act::kShadowLead | act::kPingLead));
    rig.standby();
    rig.next();
    if (rig.now - begin_ns > 20000 * kMs) return -1;
  }
  return rig.now - begin_ns;
}

TEST(TandemMachine, a_guest_is_asked_whether_it_is_there_and_lost_when_it_does_not_answer) {
  Rig rig;
  rig.standby_tick(true);
  rig.joined();
  EXPECT_EQ(until_work(rig, act::kPingLead), 10000 * kMs);
  const State before = rig.state;
  rig.pong();
  EXPECT_FALSE(rig.state.lead_busy);
  EXPECT_EQ(rig.state.counts.shadows, before.counts.shadows) << "a word is no answer";
  EXPECT_EQ(rig.state.good_returns, before.good_returns);
  rig.standby();
  rig.next();
  EXPECT_EQ(until_work(rig, act::kPingLead), 10000 * kMs - 50 * kMs) << "from the last word on";
  rig.standby();
  rig.next();
  const int64_t asked_ns = rig.state.busy_since_ns;
  while (rig.state.phase == kReady) {
    rig.begin(true);
    if (rig.state.phase == kReady) {
      ASSERT_LE(rig.now - asked_ns, 2000 * kMs);
    }
    rig.standby();
    rig.next();
  }
  EXPECT_EQ(rig.state.phase, kRetrying);
  EXPECT_EQ(rig.state.counts.losses, 1);
}

TEST(TandemMachine, a_guest_that_says_it_is_gone_is_lost_at_once) {
  Rig rig;
  rig.standby_tick(true);
  rig.joined();
  const State waiting = rig.state;
  rig.pong(false);
  EXPECT_EQ(rig.state, waiting) << "nobody asked";
  until_work(rig, act::kPingLead);
  rig.send({.kind = EventKind::kPong, .link = rig.state.link - 1, .sound = false});
  EXPECT_EQ(rig.state.phase, kReady) << "another link's";
  EXPECT_TRUE(rig.pong(false).has(act::kCloseLead));
  EXPECT_EQ(rig.state.phase, kRetrying);
  EXPECT_EQ(rig.state.counts.losses, 1);
  const State gone = rig.state;
  rig.pong();
  EXPECT_EQ(rig.state, gone);
}

TEST(TandemMachine, questions_whether_it_is_there_do_not_delay_shadows) {
  Rig rig;
  rig.limits.shadow_every_ticks = 5;
  rig.limits.keepalive_ns = 100 * kMs;
  rig.standby_tick(true);
  rig.joined();
  std::string work;
  for (int i = 0; i < 20; ++i) {
    const Actions a = rig.begin(true);
    work += a.has(act::kShadowLead) ? 's' : a.has(act::kPingLead) ? 'p' : '.';
    if (a.has(act::kShadowLead)) rig.shadow(false);
    if (a.has(act::kPingLead)) rig.pong();
    rig.standby();
    rig.next();
  }
  for (size_t i = 0; i < work.size(); ++i) EXPECT_EQ(work[i] == 's', i % 5 == 4) << work;
  EXPECT_NE(work.find('p'), std::string::npos);
}

TEST(TandemMachine, decimated_shadows_come_every_so_many_ticks) {
  Rig rig;
  rig.limits.shadow_every_ticks = 7;
  rig.standby_tick(true);
  rig.joined();
  int n = 0;
  for (int i = 0; i < 70; ++i) {
    if (rig.begin(true).has(act::kShadowLead)) ++n, rig.shadow(false);
    rig.standby();
    rig.next();
  }
  EXPECT_EQ(n, 10);
  EXPECT_EQ(rig.state.counts.shadows, 10);
  EXPECT_EQ(rig.state.caught_up_tick, -1) << "it saw single ticks";
}

TEST(TandemMachine, a_shadow_answer_shows_that_the_lead_is_there) {
  Rig rig;
  rig.limits.shadow_every_ticks = 5;
  rig.limits.keepalive_ns = 300 * kMs;
  rig.standby_tick(true);
  rig.joined();
  for (int i = 0; i < 40; ++i) {
    rig.begin(true);
    ASSERT_FALSE(rig.last.has(act::kPingLead)) << i;
    if (rig.last.has(act::kShadowLead)) rig.shadow(false);
    rig.standby();
    rig.next();
  }
}

TEST(TandemMachine, a_standby_kept_warm_covers_the_tick_and_needs_no_reset) {
  Rig rig;
  rig.limits.standby_every_ticks = 1;
  rig.lead_proven();
  ASSERT_TRUE(rig.begin(true).has(act::kCover));
  EXPECT_TRUE(rig.standby(true, 20).has(act::kWait));
  rig.after_ms(22);
  const Actions a = rig.failed();
  EXPECT_TRUE(a.has(act::kPublishStandby)) << "its answer is there already";
  EXPECT_FALSE(a.has(act::kResetStandby));
}

TEST(TandemMachine, stop_ends_it_from_every_state_and_the_standby_still_answers) {
  for (int where = 0; where < 5; ++where) {
    Rig rig;
    if (where == 1) rig.standby_tick();
    if (where == 2) rig.standby_tick(), rig.joined();
    if (where == 3) rig.lead_proven();
    if (where == 4) rig.lead_proven(), rig.begin(), rig.after_ms(45);
    rig.send({.kind = EventKind::kStop});
    rig.next();
    ASSERT_TRUE(rig.begin().has(act::kRunStandby)) << where;
    EXPECT_EQ(rig.state.phase, kUnavailable) << where;
    EXPECT_TRUE(rig.standby().has(act::kPublishStandby));
  }
}

TEST(TandemMachine, a_tick_that_begins_before_the_last_one_ended_changes_nothing) {
  for (const bool lead : {false, true}) {
    Rig rig;
    if (lead) rig.lead_proven();
    rig.begin();
    const State before = rig.state;
    const Actions a = rig.begin(true, 5);
    EXPECT_EQ(a.bits, 0u);
    EXPECT_EQ(rig.state, before);
  }
}

TEST(TandemMachine, a_lead_with_other_ports_is_never_used) {
  Rig rig;
  rig.standby_tick();
  EXPECT_TRUE(
      rig.send({.kind = EventKind::kMismatch, .link = rig.state.link}).has(act::kCloseLead));
  EXPECT_EQ(rig.state.phase, kUnavailable);
  EXPECT_EQ(rig.state.reason, Reason::kMismatch);
}

TEST(TandemMachine, what_a_closed_lead_still_says_is_ignored) {
  Rig rig;
  rig.standby_tick();
  rig.joined();
  const uint32_t old_link = rig.state.link;
  rig.failed();
  const State before = rig.state;
  for (const EventKind kind : {EventKind::kJoined, EventKind::kFailed, EventKind::kShadow,
                               EventKind::kMismatch, EventKind::kPong}) {
    rig.send({.kind = kind, .link = old_link});
    EXPECT_EQ(rig.state, before) << static_cast<int>(kind);
  }
}

TEST(TandemMachine, time_never_runs_backwards) {
  Rig rig;
  rig.lead_proven();
  rig.begin();
  rig.now -= 5000 * kMs;
  rig.send({.kind = EventKind::kPoint});
  EXPECT_TRUE(rig.last.has(act::kWait));
  EXPECT_EQ(rig.state.turn, Turn::kAwaitLead);
}

TEST(TandemMachine, every_name_is_another_one) {
  std::set<std::string> names;
  for (size_t i = 0; i < static_cast<size_t>(Reason::kCount); ++i)
    names.insert(reason_name(static_cast<Reason>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(Reason::kCount));
  EXPECT_STREQ(phase_name(Phase::kUnavailable), "unavailable");
  EXPECT_STREQ(leader_name(Leader::kLead), "lead");
  EXPECT_STREQ(reason_name(static_cast<Reason>(200)), "unknown");
}

}  // namespace
}  // namespace outrider::tandem::test
