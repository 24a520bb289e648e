// Seeds against the whole: device, cable, host, and everything that happens to them. A failing seed
// prints its event trace and how to run it again alone.
// OUTRIDER_SIM_SEED=n runs that one and prints all of it; OUTRIDER_LONG_TESTS=1: 2,000 seeds, a
// million ticks.
#include "sim/sim.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace outrider::sim {
namespace {

using tandem::Leader;

constexpr int kTicks = 500;

// A run of one seed: limits, weather and moments are all drawn from it.
class Drive {
 public:
  explicit Drive(uint64_t seed) : draw_(seed * 7919 + 17), sim_(options_of(seed)) {}

  // False: a promise broke, see sim().story().
  bool play() {
    bool engaged = false;
    sim_.delay(kUsual, kMs);
    for (int i = 0; i < kTicks && sim_.broken().empty(); ++i) {
      if (draw_.below(engaged ? 15 : 60) == 0) engaged = !engaged;
      if (draw_.below(1000) < 25) strike();
      sim_.wake_late(draw_.below(8) == 0 ? static_cast<int64_t>(draw_.below(30)) * kMs : 0);
      sim_.tick(engaged);
    }
    end();
    return sim_.broken().empty();
  }
  Sim& sim() { return sim_; }

 private:
  static SimOptions options_of(uint64_t seed) {
    SimOptions o;
    o.seed = seed;
    o.limits.standby_every_ticks = static_cast<int64_t>(seed % 3);
    o.limits.return_ticks = seed % 2 == 0 ? 2 : 5;
    o.limits.retry_quick_ns = 300 * kMs;
    o.limits.retry_ns = 1000 * kMs;
    o.limits.retry_max_ns = 2000 * kMs;
    if (seed % 5 == 4) o.limits.agree_ticks = 20, o.agree_distance = 1e9;
    o.standby_ns = static_cast<int64_t>(3 + seed % 12) * kMs;
    return o;
  }
  // Trouble somewhere in the coming period (between two ticks, before the answer, after the hold
  // point), and when it is over.
  void strike() {
    const int64_t at_ns = sim_.world.now_ns + static_cast<int64_t>(draw_.below(50'000)) * 1000;
    const int64_t over_ns = at_ns + static_cast<int64_t>(30 + draw_.below(1200)) * kMs;
    const uint64_t what = draw_.below(100);
    const auto ms = static_cast<int64_t>(draw_.below(60));
    const auto trouble = [&](auto begin, auto end) {
      sim_.baton.strike_at(at_ns, begin);
      sim_.baton.strike_at(over_ns, end);
    };
    Sim* s = &sim_;
    if (what < 14)
      trouble([s] { s->kill_host(); }, [s] { s->start_host(); });
    else if (what < 32)
      trouble([s, what] { s->cut(what % 3 != 0, what % 3 != 1); }, [s] { s->mend(); });
    else if (what < 42)
      sim_.baton.strike_at(at_ns, [s] { s->tear(); });
    else if (what < 60)
      trouble([s, ms] { s->delay((5 + ms) * kMs, ms / 8 * kMs); }, [s] { s->delay(kUsual, kMs); });
    else if (what < 75)
      sim_.baton.strike_at(at_ns, [s, ms] { s->step_host_clock((ms - 30) * 400 * kMs); });
    else if (what < 90)
      sim_.baton.strike_at(at_ns, [s, ms] { s->stall(ms * 15 * kMs); });
    else
      trouble([s] { s->set_nan(true); }, [s] { s->set_nan(false); });
  }
  static constexpr int64_t kUsual = 15 * kMs;  // what the host's model takes
  // Without a host the standby has every tick; if that fails too, the loop is told to stop, and
  // nobody else begins to act.
  void end() {
    if (!sim_.broken().empty()) return;
    sim_.kill_host();
    sim_.run(10, true);
    EXPECT_EQ(sim_.state().leader, Leader::kStandby) << sim_.story();
    if (sim_.o.seed % 4 != 3) return;
    sim_.may_refuse = true;
    sim_.standby.now.code = FRT_ERR_FAILED;
    sim_.run(12, false);
    EXPECT_EQ(sim_.refused, 12 - sim_.o.limits.stop_holds) << sim_.story();
    EXPECT_EQ(sim_.state().leader, Leader::kStandby) << sim_.story();
  }

  link::wire::Draw draw_;
  Sim sim_;
};

TEST(Sim, FC36_no_tick_unanswered_no_double_authority_no_stale_epoch) {
  const char* only = std::getenv("OUTRIDER_SIM_SEED");
  const uint64_t first = only != nullptr ? std::strtoull(only, nullptr, 10) : 0;
  const bool full = std::getenv("OUTRIDER_LONG_TESTS") != nullptr;
  const uint64_t n_seeds = only != nullptr ? 1 : full ? 2000 : 100;
  int64_t ticks = 0, lead_ticks = 0, handovers = 0, held = 0, worst_tick_ns = 0, worst_age_ns = 0,
          worst_gap_ns = 0, worst_decision_ns = 0, clock_steps = 0, stalls_ns = 0;
  for (uint64_t seed = first; seed < first + n_seeds; ++seed) {
    Drive run(seed);
    ASSERT_TRUE(run.play()) << run.sim().story();
    const Sim& sim = run.sim();
    if (only != nullptr) std::printf("%s", sim.story(SIZE_MAX).c_str());
    ticks += sim.n_ticks;
    lead_ticks += sim.lead_ticks;
    held += sim.held_ticks;
    handovers += sim.state().counts.handovers;
    worst_tick_ns = std::max(worst_tick_ns, sim.worst_tick_ns);
    worst_age_ns = std::max(worst_age_ns, sim.worst_age_ns);
    worst_gap_ns = std::max(worst_gap_ns, sim.worst_gap_ns);
    worst_decision_ns = std::max(worst_decision_ns, sim.worst_decision_ns);
    clock_steps += sim.clock_steps;
    stalls_ns += sim.baton.stalled_ns;
  }
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  std::printf(
      "   %lld ticks, %lld by the lead, %lld held, %lld hand-overs; longest tick %.3f ms, "
      "fall-back "
      "decided by %.3f ms, longest time between outputs %.3f ms, oldest answer that acted %.3f "
      "ms\n",
      static_cast<long long>(ticks), static_cast<long long>(lead_ticks),
      static_cast<long long>(held), static_cast<long long>(handovers), ms(worst_tick_ns),
      ms(worst_decision_ns), ms(worst_gap_ns), ms(worst_age_ns));
  if (only != nullptr) return;
  EXPECT_GT(lead_ticks, ticks / 10) << "the weather leaves no room for the lead: proves nothing";
  EXPECT_GT(handovers, static_cast<int64_t>(2 * n_seeds));
  EXPECT_GT(clock_steps, 0);
  EXPECT_GT(stalls_ns, 0);
  EXPECT_GE(worst_decision_ns, 46 * kMs);
}

// What every run is held to is reached: the bounds are no wider than need be.
TEST(Sim, the_oldest_answer_that_acts_is_held_through_the_settling_ticks) {
  int64_t worst_age_ns = 0;
  for (int silent_from = 1; silent_from < 40; ++silent_from) {
    Sim sim({.seed = static_cast<uint64_t>(silent_from)});
    sim.delay(kMs, 0);
    sim.run(silent_from);
    sim.cut(true, true);
    ASSERT_TRUE(sim.run(8)) << sim.story();
    worst_age_ns = std::max(worst_age_ns, sim.worst_age_ns);
  }
  EXPECT_EQ(worst_age_ns, 3 * 50 * kMs + 46 * kMs);
}

// A loop that wakes up late loses that time once, not twice: a host that falls silent or dies is
// replaced by the hold point of the time the tick was due.
TEST(Sim, R9_the_hold_point_counts_from_when_a_tick_was_due) {
  for (int64_t late_ms = 0; late_ms <= 48; late_ms += 4)
    for (const bool dies : {false, true}) {
      Sim sim({.seed = static_cast<uint64_t>(late_ms)});
      sim.delay(kMs, 0);
      ASSERT_TRUE(sim.settle()) << sim.story();
      sim.baton.strike_at(sim.next_due_ns() + 2 * kMs,
                          [&] { dies ? sim.kill_host() : sim.cut(true, true); });
      sim.wake_late(late_ms * kMs);
      const Sim::Seen first = sim.tick(true);
      ASSERT_EQ(sim.broken(), "") << sim.story();
      EXPECT_EQ(first.late_ns, late_ms * kMs);
      if (!dies) {
        EXPECT_TRUE(first.held()) << late_ms << sim.story();
        EXPECT_EQ(first.decided_ns, std::max<int64_t>(late_ms, 46) * kMs) << sim.story();
      } else {
        EXPECT_EQ(first.leader(), first.held() ? 2 : 1) << sim.story();
        EXPECT_LE(first.decided_ns, std::max<int64_t>(late_ms + 4, 46) * kMs) << sim.story();
      }
      ASSERT_TRUE(sim.run(8, true)) << late_ms << sim.story();
      EXPECT_EQ(sim.state().leader, Leader::kStandby) << sim.story();
      EXPECT_EQ(sim.refused, 0);
    }
}

// FC-36: in every phase of the tandem, at every moment of a tick.
TEST(Sim, FC36_five_hundred_deaths_of_the_host_in_every_phase_at_every_moment) {
  struct Case {
    Phase phase;
    bool (*bring)(Sim&);
  };
  const Case cases[] = {
      {Phase::kJoining,
       [](Sim& s) { return s.run(2, true) && s.state().phase == Phase::kJoining; }},
      {Phase::kReady, [](Sim& s) { return s.until(Phase::kReady, true); }},
      {Phase::kLeading, [](Sim& s) { return s.settle(); }},
      {Phase::kHolding,
       [](Sim& s) {
         if (!s.settle()) return false;
         s.delay(52 * kMs, 0);
         return s.until(Phase::kHolding, false);
       }},
      {Phase::kRetrying,
       [](Sim& s) {
         if (!s.settle()) return false;
         s.tear();
         return s.until(Phase::kRetrying, false);
       }},
      {Phase::kUnavailable,
       [](Sim& s) {
         if (!s.settle()) return false;
         s.tear();
         return s.until(Phase::kUnavailable, false);
       }},
  };
  int64_t worst_tick_ns = 0, n_deaths = 0;
  for (const Case& c : cases) {
    for (int64_t moment_us = 0; moment_us < 50'000; moment_us += 600) {
      SimOptions o;
      o.seed = static_cast<uint64_t>(moment_us);
      o.limits.max_handbacks = c.phase == Phase::kUnavailable ? 1 : 0;
      if (c.phase == Phase::kJoining) o.cable_ns = 100 * kMs;  // the dial takes its time
      Sim sim(o);
      sim.delay(36 * kMs, 0);  // most of the tick is spent waiting
      ASSERT_TRUE(c.bring(sim)) << tandem::phase_name(c.phase) << "\n" << sim.story();
      Phase at_death = Phase::kJoining;
      sim.baton.strike_at(sim.next_due_ns() + moment_us * 1000, [&] {
        at_death = sim.state().phase;
        sim.kill_host();
      });
      ASSERT_TRUE(sim.run(8, true)) << sim.story();
      EXPECT_EQ(sim.state().leader, Leader::kStandby) << sim.story();
      EXPECT_EQ(at_death, c.phase) << moment_us << sim.story();
      worst_tick_ns = std::max(worst_tick_ns, sim.worst_tick_ns);
      ++n_deaths;
    }
  }
  EXPECT_GE(n_deaths, 500);
  // A loss that still lets the standby finish is the standby's, to the end of the period.
  EXPECT_GE(worst_tick_ns, 49 * kMs);
}

TEST(Sim, a_seed_replays_exactly) {
  for (const uint64_t seed : {3u, 4u, 42u}) {
    std::string stories[2];
    for (std::string& story : stories) {
      Drive drive(seed);
      drive.play();
      story = drive.sim().story(SIZE_MAX);
    }
    EXPECT_GT(stories[0].size(), 10000u);
    ASSERT_EQ(stories[0], stories[1]) << "seed " << seed;
  }
}

// What watches the promises does ring, and tells seed, tick and what happened before.
TEST(Sim, a_broken_promise_ends_the_run_with_its_trace) {
  struct Case {
    const char* what;
    void (*spoil)(SimOptions&);
    void (*spoil_later)(Sim&);
  };
  const Case cases[] = {
      {"a tick outlived its period", [](SimOptions& o) { o.standby_ns = 51 * kMs; }, [](Sim&) {}},
      {"two authorities", [](SimOptions& o) { o.lead_who = 1; }, [](Sim&) {}},
      {"a tick without an answer", [](SimOptions&) {},
       [](Sim& s) {
         s.kill_host();
         s.standby.now.code = FRT_ERR_FAILED;
       }},
  };
  for (const Case& c : cases) {
    SimOptions o;
    o.seed = 77;
    c.spoil(o);
    Sim sim(o);
    if (sim.run(20)) c.spoil_later(sim);
    EXPECT_FALSE(sim.run(400)) << c.what;
    const std::string story = sim.story(40);
    EXPECT_EQ(story.find("seed 77: tick "), 0u) << story;
    EXPECT_NE(story.find(c.what), std::string::npos) << story;
    EXPECT_NE(story.find("tick begins engaged 0"), std::string::npos) << story;
    EXPECT_NE(story.find("again: OUTRIDER_SIM_SEED=77"), std::string::npos) << story;
  }
}

// The device's monotonic clock cannot step; the host's may, and the wall clock is read by nobody
// who decides.
TEST(Sim, a_step_of_the_hosts_clock_costs_nothing_and_the_wall_clock_is_not_read) {
  Sim sim({.seed = 8});
  ASSERT_TRUE(sim.settle()) << sim.story();
  const int64_t handovers = sim.state().counts.handovers;
  for (const int64_t by_ms : {5'000, -20'000, 9'000, -3'600'000, 1})
    for (int moment_ms = 0; moment_ms < 50; moment_ms += 10) {
      sim.baton.strike_at(sim.next_due_ns() + moment_ms * kMs,
                          [&sim, by_ms] { sim.step_host_clock(by_ms * kMs); });
      ASSERT_TRUE(sim.run(3)) << sim.story();
    }
  EXPECT_EQ(sim.state().counts.handovers, handovers) << sim.story();
  EXPECT_EQ(sim.held_ticks, 0) << sim.story();
  // An hour forward is an hour of silence to the host: it hangs up, and no tick is lost by that.
  sim.step_host_clock(3'600'000 * kMs);
  ASSERT_TRUE(sim.run(60)) << sim.story();
  for (const char* folder : {"tandem", "link/client", "providers/tandem", "adapter", "loop"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             std::filesystem::path(OUTRIDER_SOURCE_DIR) / "src" / folder)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream in(entry.path());
      std::stringstream text;
      text << in.rdbuf();
      for (const char* wall : {"CLOCK_REALTIME", "system_clock", "gettimeofday", "time(nullptr)"})
        EXPECT_EQ(text.str().find(wall), std::string::npos) << entry.path() << " reads " << wall;
    }
}

// A lead that needs 42 of 50 ms gains 8 ms a tick while it follows: it must catch up all the same.
TEST(Sim, a_lead_that_is_in_time_takes_over_however_little_time_it_leaves) {
  for (int64_t answer_ms = 6; answer_ms <= 46; answer_ms += 2) {
    SimOptions o;
    o.standby_ns = 3 * kMs;
    Sim sim(o);
    sim.delay(answer_ms * kMs - 4 * o.cable_ns, 0);  // question and answer, and an output is asked
    const bool in_time = answer_ms * kMs <= o.limits.return_ns;
    EXPECT_EQ(sim.until(Phase::kLeading, false, 200), in_time) << answer_ms << " ms\n"
                                                               << sim.story();
    if (in_time) {
      EXPECT_TRUE(sim.settle()) << answer_ms << " ms\n" << sim.story();
    }
    EXPECT_EQ(sim.broken(), "");
  }
}

// One way only: the question arrives and the answer does not, or the other way round.
TEST(Sim, a_one_way_cut_is_silence_and_the_second_silent_tick_is_the_standbys) {
  for (const bool to_host : {true, false})
    for (int64_t moment_ms = 0; moment_ms < 50; moment_ms += 3) {
      Sim sim({.seed = static_cast<uint64_t>(moment_ms)});
      sim.delay(15 * kMs, 0);
      ASSERT_TRUE(sim.settle()) << sim.story();
      sim.baton.strike_at(sim.next_due_ns() + moment_ms * kMs, [&] { sim.cut(to_host, !to_host); });
      ASSERT_TRUE(sim.run(4, true)) << sim.story();
      EXPECT_EQ(sim.state().leader, Leader::kStandby) << sim.story();
      EXPECT_LE(sim.held_ticks, 1) << sim.story();
      EXPECT_EQ(sim.state().reason, tandem::Reason::kSilent) << sim.story();
    }
}

// The device itself stands still, at every moment of a tick: not the lead's fault.
TEST(Sim, a_stall_of_the_device_ends_and_the_next_tick_is_answered) {
  for (int64_t moment_ms = 0; moment_ms < 50; moment_ms += 2)
    for (const int64_t stall_ms : {5, 60, 400}) {
      Sim sim({.seed = static_cast<uint64_t>(moment_ms)});
      sim.delay(15 * kMs, 0);
      ASSERT_TRUE(sim.settle()) << sim.story();
      sim.baton.strike_at(sim.next_due_ns() + moment_ms * kMs, [&] { sim.stall(stall_ms * kMs); });
      ASSERT_TRUE(sim.run(30)) << sim.story();
      EXPECT_EQ(sim.refused, 0);
    }
}

}  // namespace
}  // namespace outrider::sim
