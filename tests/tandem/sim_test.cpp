// Seeds against runner and machine alone, with a lead whose answers are lost and repeated as no
// link does it. The whole with the link in between: tests/sim. OUTRIDER_LONG_TESTS=1: 2,000 seeds,
// a million ticks.
#include "tandem/sim.h"

#include <cstdlib>

namespace outrider::tandem::test {
namespace {

struct Weather {
  uint64_t seed;
  std::string trace;
};

// What happens to the cable before this tick; returns how long the device stalls after it.
int64_t change(Sim& sim, Weather& w, uint64_t i) {
  const UniformStream dice(w.seed * 7919 + 17);
  const uint64_t roll = dice.bits(i) % 1000;
  Cable& cable = sim.lead->cable;
  const auto note = [&](const char* what) {
    w.trace += "tick " + std::to_string(sim.n_ticks + 1) + " " + what + "\n";
  };
  if (roll < 4) {
    note("host dies");
    sim.lead->die();
  } else if (roll < 12) {
    note("host is (re)born");
    cable.alive = true;
    cable.silent = cable.unsound = false;
  } else if (roll < 16) {
    note("one-way cut");
    cable.silent = true;
  } else if (roll < 24) {
    note("cable whole");
    cable.silent = false;
  } else if (roll < 26) {
    note("NaN");
    cable.unsound = true;
  } else if (roll < 34) {
    note("model sound");
    cable.unsound = false;
  } else if (roll < 44) {
    cable.delay_ns = static_cast<int64_t>(15 + dice.bits(i + 1000000) % 50) * kSimMs;
    note(("delay " + std::to_string(cable.delay_ns / kSimMs) + " ms").c_str());
  } else if (roll < 54) {
    cable.delay_ns = 25 * kSimMs;
    note("delay 25 ms");
  } else if (roll < 60) {
    cable.jitter_ns = static_cast<int64_t>(dice.bits(i + 2000000) % 15) * kSimMs;
    cable.loss = static_cast<double>(dice.bits(i + 3000000) % 10) * 0.01;
    cable.repeat = 0.05;
    note("jitter, loss, repeats");
  } else if (roll < 64) {
    note("device stalls");
    return static_cast<int64_t>(dice.bits(i + 4000000) % 900) * kSimMs;
  }
  return 0;
}

TEST(TandemSim, FC36_no_tick_unanswered_no_double_authority_no_stale_epoch) {
  const bool full = std::getenv("OUTRIDER_LONG_TESTS") != nullptr;
  const uint64_t n_seeds = full ? 2000 : 100;
  int64_t ticks = 0, handovers = 0, lead_ticks = 0;
  for (uint64_t seed = 0; seed < n_seeds; ++seed) {
    Limits limits = preset_limits("driving20").value();
    limits.standby_every_ticks = static_cast<int64_t>(seed % 3);
    Sim sim(seed, limits);
    Weather weather{seed, {}};
    bool engaged = false;
    for (uint64_t i = 0; i < 500; ++i) {
      if (UniformStream(seed).bits(i) % 40 == 0) engaged = !engaged;
      const int64_t stall_ns = change(sim, weather, i);
      sim.tick(engaged, stall_ns);
    }
    ASSERT_EQ(sim.unanswered, 0) << "seed " << seed << "\n" << weather.trace;
    ASSERT_EQ(sim.double_authority, 0) << "seed " << seed << "\n" << weather.trace;
    ASSERT_EQ(sim.stale, 0) << "seed " << seed << "\n" << weather.trace;
    ASSERT_LE(sim.worst_ns, 50 * kSimMs) << "seed " << seed << "\n" << weather.trace;
    // What acts is never older than the deadline of a question and the tick it is held in, plus
    // what the device itself stood still.
    ASSERT_LE(sim.worst_age_ns, limits.deadline_ns + limits.period_ns + sim.worst_stall_ns)
        << "seed " << seed << "\n"
        << weather.trace;
    // The end: whatever was, without a host the standby has every tick.
    sim.lead->die();
    sim.run(10, true);
    ASSERT_EQ(sim.runner->state().leader, Leader::kStandby) << "seed " << seed;
    ticks += sim.n_ticks;
    lead_ticks += sim.lead_ticks;
    handovers += sim.runner->state().counts.handovers;
  }
  EXPECT_GT(lead_ticks, ticks / 10) << "the weather leaves no room for the lead: proves nothing";
  EXPECT_GT(handovers, static_cast<int64_t>(n_seeds));
  RecordProperty("ticks", std::to_string(ticks));
  RecordProperty("handovers", std::to_string(handovers));
}

TEST(TandemSim, a_seed_replays_exactly) {
  std::vector<int64_t> runs[2];
  for (auto& run : runs) {
    Sim sim(42);
    Weather weather{42, {}};
    for (uint64_t i = 0; i < 500; ++i) {
      const int64_t stall_ns = change(sim, weather, i);
      const Sim::Seen seen = sim.tick(i % 100 > 60, stall_ns);
      run.insert(run.end(), std::begin(seen.origin), std::end(seen.origin));
    }
  }
  EXPECT_EQ(runs[0], runs[1]);
}

// The decision to fall back never comes later than the hold point plus a millisecond.
// The host dies, or falls silent, at every millisecond of a tick that waits for it: the decision is
// there one millisecond after the hold point at the latest, and the tick within its period.
TEST(TandemSim, FC36_the_fall_back_is_decided_by_the_hold_point_whenever_the_host_dies) {
  const int64_t hold_ns = preset_limits("driving20").value().hold_ns;
  int by_standby = 0, held = 0;
  for (int64_t at_ms = 0; at_ms < 45; ++at_ms)
    for (const bool silent : {false, true}) {
      Sim sim(5);
      sim.settle();
      sim.lead->cable.delay_ns = 45 * kSimMs;
      sim.lead->cable.silent = silent;  // its death is not told either
      if (!silent) sim.lead->die_at_ns = sim.clock.now_ns() + at_ms * kSimMs;
      const Sim::Seen seen = sim.tick(true);
      ASSERT_EQ(seen.code, 0) << at_ms << silent;
      by_standby += seen.leader() == 1;
      held += seen.held();
      const int64_t decided_ns = seen.took_ns - (seen.leader() == 1 ? 10 * kSimMs : 0);
      EXPECT_LE(decided_ns, hold_ns + kSimMs) << at_ms << silent;
      EXPECT_LE(seen.took_ns, 50 * kSimMs) << at_ms << silent;
      EXPECT_EQ(sim.unanswered + sim.double_authority + sim.stale, 0) << at_ms << silent;
    }
  EXPECT_GE(by_standby, 30) << "a death that is told leaves the standby its time";
  EXPECT_GE(held, 45) << "a silence is held once";
}

}  // namespace
}  // namespace outrider::tandem::test
