// Loops around the fake. How punctual this machine is decides how many ticks are late: the tests
// ask that the sums agree, that each tick has one action, and that scripted lateness has its
// consequence.
#include "loop/runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <numeric>
#include <set>

#include "hot_counter.h"
#include "support.h"
#include "support/own_time.h"

namespace outrider::loop {
namespace {

int64_t begun(const Totals& t) {
  return std::accumulate(t.by_reason.begin(), t.by_reason.end(), int64_t{0});
}

TEST(LoopRunner, every_tick_is_accounted_for) {
  Bench b("", at(200, 60));
  b.observe(0.5f);
  const Totals& t = b.run();
  EXPECT_EQ(t.n_ticks, 60);
  EXPECT_EQ(begun(t) + t.n_skipped, 60);
  EXPECT_EQ(t.wake.n(), begun(t));
  EXPECT_GT(t.by_reason[OUTRIDER_LOOP_OK], 0);
  EXPECT_EQ(t.n_observations, 1);
  EXPECT_EQ(t.first_failure_tick, -1);
}

TEST(LoopRunner, an_answer_is_the_models_and_names_its_observation) {
  Bench b("", at(50, 5));
  for (int i = 0; i < 3; ++i) b.observe(0.25f * static_cast<float>(i));
  b.run();
  bool any = false;
  for (uint64_t tick = 0; tick < 5; ++tick) {
    const Bench::Action a = b.action(tick);
    if (!a.there || a.frame.origin != OUTRIDER_LOOP_MODEL) continue;
    any = true;
    EXPECT_EQ(a.frame.answers, 2u) << "the newest of three";
    EXPECT_EQ(a.frame.reason, OUTRIDER_LOOP_OK);
    EXPECT_GE(a.values[1], 1.5f) << "state 0.5 + place 1 + a hash";
  }
  EXPECT_TRUE(any);
}

TEST(LoopRunner, before_the_first_observation_the_action_is_the_safe_one) {
  Options o = at(100, 5);
  o.n_hold = 100;  // there is nothing to hold
  const std::vector<float> stop(12, 7.5f);
  o.safe.resize(48);
  std::memcpy(o.safe.data(), stop.data(), 48);
  Bench b("", o);
  const Totals& t = b.run();
  EXPECT_EQ(t.by_reason[OUTRIDER_LOOP_OK], 0);
  EXPECT_GT(t.by_reason[OUTRIDER_LOOP_WAITING], 0);
  EXPECT_EQ(t.n_held, 0);
  const Bench::Action a = b.action(0);
  if (a.there) {
    EXPECT_EQ(a.frame.origin, OUTRIDER_LOOP_SAFE);
    EXPECT_EQ(a.values, stop);
  }
  const Bench::Action end = b.action(5);
  ASSERT_TRUE(end.there) << "the last frame says that nothing follows";
  EXPECT_EQ(end.frame.reason, OUTRIDER_LOOP_ENDED);
  EXPECT_EQ(end.values, stop);
}

TEST(LoopRunner, the_watchdog_answers_while_the_tick_still_runs) {
  Options o = at(50, 12);
  o.deadline_ns = 10000000;
  Bench b("\"stall_at\":3,\"stall_ms\":70", o);
  b.observe(1);
  b.runner->start();
  std::thread loop([&] { b.runner->run(b.stop); });
  // The action of a tick that takes 70 ms is there long before it ends.
  const int64_t end_ns = b.runner->timetable().due_ns(2) + 60000000;
  bool seen = false;
  while (!seen && MonotonicClock().now_ns() < end_ns) {
    const Bench::Action a = b.action(2);
    seen = a.there && a.frame.reason == OUTRIDER_LOOP_LATE;
    ::usleep(500);
  }
  loop.join();
  b.runner->finish();
  EXPECT_TRUE(seen);
  const Totals& t = b.runner->totals();
  EXPECT_GE(t.by_reason[OUTRIDER_LOOP_LATE], 1);
  EXPECT_GE(t.n_skipped, 2) << "ticks 3 and 4 at least were never begun";
  EXPECT_GE(t.n_safe, 3);
}

TEST(LoopRunner, FC35_a_stall_of_three_periods_is_skipped_and_counted_not_replayed) {
  Bench b("\"stall_at\":10,\"stall_ms\":62", at(50, 50));
  b.observe(1);
  timespec wall_before = {};
  clock_gettime(CLOCK_REALTIME, &wall_before);
  const int64_t begin = MonotonicClock().now_ns();
  const Totals& t = b.run();
  const double seconds = static_cast<double>(MonotonicClock().now_ns() - begin) * 1e-9;
  EXPECT_EQ(t.n_ticks, 50) << "duration times rate";
  EXPECT_NEAR(seconds, 1.0, 0.1);
  EXPECT_EQ(begun(t) + t.n_skipped, 50);
  EXPECT_GE(t.n_skipped, 2);
  EXPECT_GE(t.by_reason[OUTRIDER_LOOP_LATE], 1);
  // No burst: begins of two ticks are a deadline's rest apart at the least.
  const std::vector<Sample> samples = b.runner->samples();
  for (size_t i = 1; i < samples.size(); ++i) {
    EXPECT_GT(samples[i].tick, samples[i - 1].tick);
    EXPECT_GE(samples[i].wake_ns, 0) << "no tick begins before it is due";
  }
}

TEST(LoopRunner, a_late_answer_is_never_sent) {
  Options o = at(100, 20);
  o.deadline_ns = 5000000;
  Bench b("\"sleep_ms\":7", o);
  b.observe(1);
  const Totals& t = b.run();
  EXPECT_EQ(t.by_reason[OUTRIDER_LOOP_OK], 0);
  EXPECT_EQ(t.n_overruns(), 20);
  for (uint64_t tick = 0; tick < 20; ++tick) {
    const Bench::Action a = b.action(tick);
    if (a.there) {
      EXPECT_EQ(a.frame.origin, OUTRIDER_LOOP_SAFE) << tick;
    }
  }
}

TEST(LoopRunner, the_last_answer_is_held_for_so_many_ticks_and_then_the_safe_one) {
  Options o = at(50, 8);
  o.n_hold = 2;
  Bench b("\"fail_at\":3", o);  // the fake fails once; then the observation is bad
  b.observe(1);
  b.runner->start();
  std::thread loop([&] { b.runner->run(b.stop); });
  while (MonotonicClock().now_ns() < b.runner->timetable().due_ns(2) + 3000000) ::usleep(200);
  b.observe(NAN);
  loop.join();
  b.runner->finish();
  const Totals& t = b.runner->totals();
  EXPECT_EQ(begun(t) + t.n_skipped, 8);
  EXPECT_LE(t.n_held, 4);
  // A row of ticks without an answer: at most two held, all later ones safe.
  int64_t misses = 0;
  bool answered = false;
  for (uint64_t tick = 0; tick < 8; ++tick) {
    const Bench::Action a = b.action(tick);
    if (!a.there) continue;
    misses = a.frame.origin == OUTRIDER_LOOP_MODEL ? 0 : misses + 1;
    answered = answered || misses == 0;
    if (a.frame.origin == OUTRIDER_LOOP_HELD) {
      EXPECT_TRUE(answered);
      EXPECT_LE(misses, 2) << tick;
      EXPECT_NE(a.values[1], 0.0f);
    }
  }
  EXPECT_EQ(b.action(7).frame.origin, OUTRIDER_LOOP_SAFE);
}

TEST(LoopRunner, a_failed_tick_is_told_and_the_next_one_works) {
  Bench b("\"fail_at\":2", at(50, 6));
  b.observe(1);
  const Totals& t = b.run();
  EXPECT_EQ(t.by_reason[OUTRIDER_LOOP_FAILED] + t.by_reason[OUTRIDER_LOOP_LATE] + t.n_skipped,
            6 - t.by_reason[OUTRIDER_LOOP_OK]);
  ASSERT_GE(t.first_failure_tick, 0);
  EXPECT_EQ(t.first_failure_code, -8);
  EXPECT_NE(std::string(b.runner->first_failure()).find("scripted failure"), std::string::npos);
  EXPECT_GT(t.by_reason[OUTRIDER_LOOP_OK], 0);
}

TEST(LoopRunner, an_output_with_a_nan_is_a_failed_tick) {
  Bench b("\"nan_at\":2", at(50, 4));
  b.observe(1);
  const Totals& t = b.run();
  EXPECT_GE(t.first_failure_tick, 0);
  for (uint64_t tick = 0; tick < 5; ++tick)
    for (const float value : b.action(tick).values) EXPECT_TRUE(std::isfinite(value));
}

TEST(LoopRunner, bad_stale_and_future_observations_give_no_action_of_the_model) {
  struct Row {
    float state;
    int64_t age_ns;
    int reason;
  };
  const Row rows[] = {{NAN, 0, OUTRIDER_LOOP_BAD},
                      {INFINITY, 0, OUTRIDER_LOOP_BAD},
                      {1, 1000000000, OUTRIDER_LOOP_STALE},
                      {1, -60000000000, OUTRIDER_LOOP_BAD}};
  for (const Row& row : rows) {
    Options o = at(100, 4);
    o.max_age_ns = 500000000;
    Bench b("", o);
    b.observe(row.state, MonotonicClock().now_ns() - row.age_ns);
    const Totals& t = b.run();
    EXPECT_EQ(t.by_reason[OUTRIDER_LOOP_OK], 0) << row.state << " " << row.age_ns;
    EXPECT_GT(t.by_reason[static_cast<size_t>(row.reason)], 0) << row.state << " " << row.age_ns;
  }
}

TEST(LoopRunner, a_stop_ends_a_loop_without_end) {
  Bench b("", at(2, 0));
  b.observe(1);
  b.runner->start();
  std::thread loop([&] { b.runner->run(b.stop); });
  ::usleep(20000);
  test::OwnTime own;
  b.stop.store(true);
  loop.join();
  b.runner->finish();
  EXPECT_LT(own.ns(), 2000000000) << "it does not wait for the next tick";
}

TEST(LoopRunner, refuses_rates_deadlines_and_safe_actions_that_do_not_fit) {
  const Bench b("", at(10, 1));
  const auto refused = [&](Options o) {
    o.text = "go";
    return Runner::make(b.session.get(), b.inputs, b.outputs, *b.segment, std::move(o)).code();
  };
  EXPECT_EQ(refused(at(0, 1)), Code::kInvalid);
  EXPECT_EQ(refused(at(-1, 1)), Code::kInvalid);
  EXPECT_EQ(refused(at(NAN, 1)), Code::kInvalid);
  EXPECT_EQ(refused(at(INFINITY, 1)), Code::kInvalid);
  Options o = at(1000, 1);
  o.deadline_ns = 1000001;
  EXPECT_EQ(refused(o), Code::kInvalid);
  o.deadline_ns = 1000000;
  EXPECT_EQ(refused(o), Code::kOk);
  o.safe.resize(47);
  EXPECT_EQ(refused(o), Code::kShape);
}

TEST(LoopRunner, ticks_take_no_heap_no_lock_and_write_nothing) {
  if (!test::hot_counter::available()) GTEST_SKIP() << "a sanitizer stands where the counter would";
  // Answers, late ticks, bad observations: every way through a tick.
  Options o = at(200, 40);
  o.n_hold = 1;
  o.deadline_ns = 3000000;
  Bench b("\"stall_at\":5,\"stall_ms\":12", o);
  b.observe(1);
  std::vector<std::byte> bad = b.observation(NAN);
  b.runner->start();
  ::usleep(1000);  // the watchdog is up
  test::hot_counter::arm();
  b.runner->run(b.stop);
  const test::HotCounts counts = test::hot_counter::disarm();
  b.runner->finish();
  EXPECT_EQ(counts.total(), 0u) << test::hot_counter::describe(counts);
  EXPECT_GT(b.runner->totals().n_overruns(), 0);
}

TEST(LoopRunner, the_counter_would_see_a_runtime_that_allocates) {
  if (!test::hot_counter::available()) GTEST_SKIP() << "a sanitizer stands where the counter would";
  Bench b("\"alloc_in_tick\":1", at(100, 3));
  b.observe(1);
  b.runner->start();
  test::hot_counter::arm();
  b.runner->run(b.stop);
  const test::HotCounts counts = test::hot_counter::disarm();
  b.runner->finish();
  EXPECT_GT(counts.allocations, 0u);
}

}  // namespace
}  // namespace outrider::loop
