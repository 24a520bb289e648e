// Whatever happens, in whatever order: the promises hold. Seeds are printed; one replays exactly.
// OUTRIDER_LONG_TESTS=1 runs fifty times as many events.
#include <cstdlib>

#include "base/rng.h"
#include "tandem/rig.h"

namespace outrider::tandem::test {
namespace {

int64_t budget(int64_t normal) {
  return std::getenv("OUTRIDER_LONG_TESTS") != nullptr ? normal * 50 : normal;
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : stream_(seed) {}
  uint64_t next() { return stream_.bits(n_++); }
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  bool chance(int64_t percent) { return below(100) < percent; }

 private:
  UniformStream stream_;
  uint64_t n_ = 0;
};

Limits random_limits(Dice& dice) {
  Limits l = preset_limits(dice.chance(50) ? "driving20" : "arm").value();
  if (dice.chance(50)) {
    l.silent_holds = dice.below(4);
    l.standby_every_ticks = dice.below(3);
    l.settling_ticks = dice.below(4);
    l.proving_ticks = l.settling_ticks + dice.below(5);
    l.row_holds = 1 + dice.below(5);
    l.window_holds = dice.below(8);
    l.predict_ticks = dice.below(4);
    l.return_ticks = dice.below(4);
    l.max_handbacks = dice.below(4);
    l.stop_holds = dice.below(4);
    l.agree_ticks = dice.below(4);
    l.shadow_every_ticks = dice.below(5);
    l.standby_first_ticks = 1 + dice.below(4);
  }
  return l;
}

// Any event at all, mostly with fields that fit the state, sometimes with ones that do not.
Event any_event(Dice& dice, const State& s, int64_t& tick) {
  Event e;
  e.kind = static_cast<EventKind>(dice.below(static_cast<int64_t>(EventKind::kCount)));
  if (e.kind == EventKind::kStop && dice.chance(95)) e.kind = EventKind::kTick;
  if (e.kind == EventKind::kMismatch && dice.chance(95)) e.kind = EventKind::kShadow;
  if (e.kind == EventKind::kTick && s.turn != Turn::kIdle && dice.chance(90))
    e.kind = s.turn == Turn::kAwaitStandby ? EventKind::kStandby : EventKind::kPoint;
  if (e.kind == EventKind::kTick && s.turn == Turn::kIdle) ++tick;
  e.tick = e.kind == EventKind::kTick ? tick : dice.chance(80) ? tick : tick - dice.below(6) + 2;
  e.epoch = dice.chance(85) ? s.epoch : s.epoch - static_cast<uint32_t>(dice.below(3)) + 1;
  e.link = dice.chance(85) ? s.link : s.link - 1;
  e.engaged = dice.chance(40);
  e.sound = dice.chance(92);
  e.caught_up = dice.chance(80);
  e.agreement = static_cast<Agreement>(dice.below(3));
  e.dropped = dice.chance(95) ? 0 : dice.below(20);
  e.took_ns = dice.below(60) * kMs;
  return e;
}

TEST(TandemRandom, any_order_of_any_events_keeps_the_promises) {
  const int64_t n_seeds = budget(200), n_events = 10000;
  for (int64_t seed = 0; seed < n_seeds; ++seed) {
    Dice dice(static_cast<uint64_t>(seed));
    const Limits limits = random_limits(dice);
    State state;
    int64_t now = 0, tick = 0;
    for (int64_t i = 0; i < n_events; ++i) {
      now += dice.chance(30) ? 0 : dice.below(30) * kMs;
      if (dice.chance(1)) now += dice.below(70000) * kMs;
      const State before = state;
      const Event e = any_event(dice, before, tick);
      const Step next = step(limits, before, e, now);
      state = next.state;
      const std::string broken = broken_promise(before, e, state, next.actions);
      ASSERT_EQ(broken, "") << "seed " << seed << " event " << i << " kind "
                            << static_cast<int>(e.kind);
      const bool took_over = before.leader != Leader::kLead && leads(state);
      if (took_over) {
        const bool proven = limits.agree_ticks > 0 && before.agreed >= limits.agree_ticks;
        ASSERT_TRUE(!e.engaged || proven) << "G3: never while in control. seed " << seed;
        ASSERT_GE(before.standby_ran, limits.standby_first_ticks) << "seed " << seed;
        ASSERT_GE(before.good_returns, limits.return_ticks) << "seed " << seed;
        ASSERT_EQ(before.caught_up_tick, e.tick - 1) << "seed " << seed;
      }
    }
  }
}

// The same decisions for the same history: the state is all there is.
TEST(TandemRandom, a_seed_replays_exactly) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    State ends[2];
    for (State& state : ends) {
      Dice dice(seed);
      const Limits limits = random_limits(dice);
      int64_t now = 0, tick = 0;
      for (int i = 0; i < 5000; ++i) {
        now += dice.below(30) * kMs;
        const Event e = any_event(dice, state, tick);
        state = step(limits, state, e, now).state;
      }
    }
    EXPECT_EQ(ends[0], ends[1]) << "seed " << seed;
  }
}

// A lead that fails at once after every take-over, forever: leaders change at most twice for
// each retry that the backoff allows.
TEST(TandemRandom, flapping_is_bounded_by_the_backoff) {
  for (int kind = 0; kind < 3; ++kind) {
    Rig rig;
    rig.standby_tick();
    rig.joined();
    const int64_t begin = rig.now;
    while (rig.now - begin < 600000 * kMs) {
      const Actions a = rig.begin();
      if (a.has(act::kConnect)) rig.joined();
      if (a.has(act::kFollowLead)) rig.shadow();
      if (a.has(act::kAskLead)) {
        if (kind == 0) rig.failed(), rig.standby();
        if (kind == 1) rig.answer(20, false), rig.standby();
        if (kind == 2) {
          rig.answer(20);
          rig.state.pending = Reason::kRowHolds;
        }
      } else {
        rig.standby();
      }
      rig.next();
    }
    // Ten minutes: 3 quick ones, then 5 10 20 40 s and one a minute (and what the proof takes).
    EXPECT_LE(rig.state.counts.takeovers, 3 + 4 + 9) << kind;
    EXPECT_GE(rig.state.counts.takeovers, 10) << kind << ": it does come back";
  }
}

}  // namespace
}  // namespace outrider::tandem::test
