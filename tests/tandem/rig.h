// A machine under test: time is a number, every step is checked against the three promises.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "tandem/machine.h"

namespace outrider::tandem::test {

inline constexpr int64_t kMs = 1000000;

inline Limits driving() {
  return preset_limits("driving20").value();
}

// What must hold between two states, whatever happened in between. "" when all is well.
inline std::string broken_promise(const State& before, const Event& e, const State& after,
                                  const Actions& a) {
  const bool lead_phase = after.phase == Phase::kLeading || after.phase == Phase::kHolding;
  if ((after.leader == Leader::kLead) != lead_phase) return "phase and leader disagree";
  if (after.leader == Leader::kNobody) return "nobody leads";
  const uint32_t rise = after.epoch - before.epoch;
  const bool changed = before.leader != after.leader;
  // A tick may take authority away and, no earlier than a retry allows, never give it at once.
  if (rise != (changed ? 1u : 0u)) return "epoch did not rise by one with each change of leader";
  if (after.counts.handovers - before.counts.handovers != static_cast<int64_t>(rise))
    return "a hand-over was not counted";
  if (changed && after.leader == Leader::kLead && e.kind != EventKind::kTick)
    return "the lead took over in the middle of a tick";
  const uint32_t ends = a.bits & act::kEnds;
  if (std::popcount(ends) > 1) return "one tick ended twice";
  if (ends != 0 && after.turn != Turn::kIdle) return "ended and still waits";
  const bool began = e.kind == EventKind::kTick && before.turn == Turn::kIdle;
  if (!began && before.turn == Turn::kIdle && ends != 0) return "ended without a tick";
  if (!began && before.turn != Turn::kIdle && after.turn == Turn::kIdle && ends == 0)
    return "a tick vanished";
  if (began && after.turn == Turn::kIdle) return "a tick began and nobody works on it";
  if (after.turn == Turn::kAwaitLead && !a.has(act::kWait) && began) return "waits for ever";
  if (a.has(act::kPublishLead) &&
      (e.kind != EventKind::kAnswer || e.epoch != before.epoch || e.tick != before.tick ||
       !e.sound || before.leader != Leader::kLead))
    return "an answer of another epoch or tick, or an unsound one, was published";
  if (a.has(act::kKeepLate) && (e.epoch != before.epoch || !e.sound))
    return "an answer of another epoch was kept";
  if (a.has(act::kPublishHeld) && !before.published) return "held what never was";
  if (a.has(act::kAskLead) && after.leader != Leader::kLead) return "asked a lead that leads not";
  if (a.has(act::kAskLead) && a.has(act::kRunStandby)) return "two runtimes for one tick";
  const uint32_t guest = a.bits & (act::kFollowLead | act::kShadowLead | act::kPingLead);
  if (std::popcount(guest) > 1) return "a guest was given two things to do";
  if (guest != 0 && (after.phase != Phase::kReady || !after.lead_busy || before.lead_busy))
    return "work for a guest that is none, or is busy";
  if (a.has(act::kWait) && after.turn != Turn::kAwaitLead) return "waits for nothing";
  if (after.joined && after.phase == Phase::kUnavailable) return "unavailable and joined";
  return {};
}

struct Rig {
  Limits limits = driving();
  State state;
  int64_t now = 1000 * kMs;
  int64_t tick = 0;
  Actions last;

  Actions send(Event e) {
    const State before = state;
    const Step next = step(limits, before, e, now);
    state = next.state;
    last = next.actions;
    EXPECT_EQ(broken_promise(before, e, state, last), "")
        << "event " << static_cast<int>(e.kind) << " tick " << e.tick << " phase "
        << phase_name(before.phase) << " -> " << phase_name(state.phase);
    return last;
  }
  void after_ms(double ms) { now += static_cast<int64_t>(ms * kMs); }

  Actions begin(bool engaged = false, int64_t dropped = 0, int64_t late_ns = 0) {
    return send({.kind = EventKind::kTick,
                 .tick = ++tick,
                 .engaged = engaged,
                 .dropped = dropped,
                 .late_ns = late_ns});
  }
  Actions standby(bool sound = true, double took_ms = 10) {
    after_ms(took_ms);
    return send({.kind = EventKind::kStandby,
                 .tick = tick,
                 .sound = sound,
                 .took_ns = static_cast<int64_t>(took_ms * kMs)});
  }
  // The lead answers this tick `ms` after it was due.
  Actions answer(double ms, bool sound = true) {
    now = state.start_ns + static_cast<int64_t>(ms * kMs);
    return send({.kind = EventKind::kAnswer,
                 .tick = tick,
                 .epoch = state.epoch,
                 .sound = sound,
                 .took_ns = now - state.start_ns});
  }
  Actions late_answer(int64_t of_tick, double took_ms = 60) {
    return send({.kind = EventKind::kAnswer,
                 .tick = of_tick,
                 .epoch = state.epoch,
                 .took_ns = static_cast<int64_t>(took_ms * kMs)});
  }
  // Nothing came: to the point the machine asked for.
  Actions silence() {
    now = std::max(now, last.wait_until_ns);
    return send({.kind = EventKind::kPoint});
  }
  Actions shadow(bool caught_up = true, double took_ms = 30,
                 Agreement agreement = Agreement::kNotCompared, bool sound = true) {
    return send({.kind = EventKind::kShadow,
                 .tick = tick,
                 .link = state.link,
                 .sound = sound,
                 .caught_up = caught_up,
                 .agreement = agreement,
                 .took_ns = static_cast<int64_t>(took_ms * kMs)});
  }
  Actions pong(bool there = true) {
    return send({.kind = EventKind::kPong, .link = state.link, .sound = there});
  }
  Actions joined() { return send({.kind = EventKind::kJoined, .link = state.link}); }
  Actions failed() { return send({.kind = EventKind::kFailed, .link = state.link}); }
  void next() { now = state.start_ns + limits.period_ns; }

  // One whole tick that the standby answers, with the lead's shadow work done beside it.
  void standby_tick(bool engaged = false) {
    const Actions a = begin(engaged);
    ASSERT_TRUE(a.has(act::kRunStandby));
    if (a.has(act::kFollowLead) || a.has(act::kShadowLead)) shadow(a.has(act::kFollowLead));
    ASSERT_TRUE(standby().has(act::kPublishStandby));
    next();
  }
  void lead_tick(double ms = 30, bool engaged = false) {
    ASSERT_TRUE(begin(engaged).has(act::kAskLead));
    ASSERT_TRUE(answer(ms).has(act::kPublishLead));
    next();
  }
  // From nothing to a lead that has just taken over; the tick that did it is answered.
  void take_over() {
    begin();
    joined();
    standby();
    next();
    for (int i = 0; i < 200 && state.phase != Phase::kLeading; ++i) {
      const Actions a = begin();
      if (a.has(act::kAskLead)) break;
      if (a.has(act::kFollowLead)) shadow();
      standby();
      next();
    }
    ASSERT_EQ(state.phase, Phase::kLeading);
    answer(30);
    next();
  }
  // ... and is out of its proving time.
  void lead_proven() {
    take_over();
    while (state.led_ticks < limits.proving_ticks) lead_tick();
  }
};

}  // namespace outrider::tandem::test
