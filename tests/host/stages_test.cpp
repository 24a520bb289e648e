#include "host/stages.h"

#include <algorithm>

#include "base/clock.h"
#include "fake_provider.h"

namespace outrider::test {
namespace {

using host::Stage;
using host::StageOrder;

TEST(StageOrder, nothing_may_run_before_what_it_waits_for) {
  StageOrder order({Stage{"top", 0, {}}, Stage{"left", 0, {0}}, Stage{"right", 0, {0}},
                    Stage{"bottom", 0, {1, 2}}});
  EXPECT_EQ(order.first_missing(0), -1);
  EXPECT_EQ(order.first_missing(1), 0);
  EXPECT_EQ(order.first_missing(3), 1);
  order.finished(0), order.finished(1);
  EXPECT_EQ(order.first_missing(3), 2);
  order.finished(2);
  EXPECT_EQ(order.first_missing(3), -1);
}

TEST(StageOrder, running_a_stage_again_makes_all_that_follows_it_stale) {
  StageOrder order(
      {Stage{"a", 0, {}}, Stage{"b", 0, {0}}, Stage{"c", 0, {1}}, Stage{"free", 0, {}}});
  for (uint64_t i = 0; i < 4; ++i) order.finished(i);
  order.started(0);
  EXPECT_EQ(order.first_missing(2), 1) << "two steps downstream";
  order.finished(0);
  EXPECT_EQ(order.first_missing(1), -1);
  EXPECT_EQ(order.first_missing(2), 1);
}

TEST(HostStages, a_tick_runs_the_published_references_in_declared_order) {
  const std::pair<const char*, const char*> expected[] = {{"infer", "37 37 "},
                                                          {"split", "4 91 4 91 "},
                                                          {"diamond", "50 71 23 64 50 71 23 64 "},
                                                          {"step", "37 37 "}};
  for (const auto& [plan, trace] : expected) {
    CSession s(fake_config({{"plan", plan}, {"require_inputs", "0"}}));
    ASSERT_EQ(s.code, 0) << plan << ": " << s.reason;
    EXPECT_EQ(outrider_tick(s), 0) << s.error();
    EXPECT_EQ(outrider_tick(s), 0) << s.error();
    EXPECT_EQ(read_text(s, 6), trace) << plan;
  }
}

TEST(HostStages, a_stage_out_of_order_is_refused_before_the_runtime_hears_of_it) {
  CSession s(fake_config({{"plan", "diamond"}, {"require_inputs", "0"}}));
  ASSERT_EQ(s.code, 0) << s.reason;
  EXPECT_EQ(outrider_run_stage(s, 3), -1);
  EXPECT_HAS(s.error(), "stage bottom waits for stage left");
  EXPECT_EQ(outrider_run_stage(s, 0), 0);
  EXPECT_EQ(outrider_run_stage(s, 2), 0);
  EXPECT_EQ(outrider_run_stage(s, 3), -1);
  EXPECT_EQ(outrider_run_stage(s, 1), 0);
  EXPECT_EQ(outrider_run_stage(s, 3), 0) << s.error();
  EXPECT_EQ(read_text(s, 6), "50 23 71 64 ");
}

TEST(HostStages, a_failed_stage_ends_the_tick_and_does_not_count_as_run) {
  CSession s(fake_config(
      {{"plan", "split"}, {"require_inputs", "0"}, {"fail_at", "1"}, {"fail_code", "-6"}}));
  EXPECT_EQ(outrider_tick(s), -6);
  EXPECT_HAS(s.error(), "stage context: code -6");
  EXPECT_EQ(read_text(s, 6), "4 ") << "action ran after a failed context";
  EXPECT_EQ(outrider_run_stage(s, 1), -1);
  EXPECT_EQ(outrider_run_stage(s, 0), 0);
  EXPECT_EQ(outrider_run_stage(s, 1), 0);
}

TEST(HostStages, a_stage_without_predecessors_may_be_repeated) {
  CSession s(fake_config({{"plan", "split"}, {"require_inputs", "0"}}));
  EXPECT_EQ(outrider_tick(s), 0);
  EXPECT_EQ(outrider_run_stage(s, 1), -7) << "the runtime's own answer: the context is used up";
  EXPECT_EQ(outrider_run_stage(s, 0), 0);
  EXPECT_EQ(outrider_run_stage(s, 0), 0);
  EXPECT_EQ(outrider_run_stage(s, 1), 0);
}

TEST(HostStages, a_whole_step_leaves_no_stage_half_way) {
  CSession s(fake_config({{"plan", "split"}, {"require_inputs", "0"}}));
  EXPECT_EQ(outrider_run_stage(s, 0), 0);
  EXPECT_EQ(outrider_step(s), 0) << s.error();
  EXPECT_EQ(outrider_run_stage(s, 1), -1);
  EXPECT_HAS(s.error(), "waits for stage context");
}

TEST(HostStages, whole_and_split_execution_give_the_same_bytes) {
  float chunk[3][12];
  for (int way = 0; way < 3; ++way) {
    CSession s(fake_config({{"plan", "split"}}));
    Inputs().stage(s);
    const int code = way == 0   ? outrider_tick(s)
                     : way == 1 ? outrider_step(s)
                                : outrider_run_stage(s, 0) + outrider_run_stage(s, 1);
    ASSERT_EQ(code, 0) << s.error();
    uint64_t written = 0;
    ASSERT_EQ(outrider_get_output(s, 3, chunk[way], sizeof chunk[way], &written), 0);
  }
  EXPECT_EQ(0, memcmp(chunk[0], chunk[1], sizeof chunk[0]));
  EXPECT_EQ(0, memcmp(chunk[0], chunk[2], sizeof chunk[0]));
}

TEST(HostStages, each_stage_is_timed) {
  CSession s(fake_config({{"plan", "split"}, {"require_inputs", "0"}, {"sleep_ms", "5"}}));
  EXPECT_EQ(outrider_stage_ns(s, 0), 0);
  EXPECT_EQ(outrider_tick(s), 0);
  EXPECT_GE(outrider_stage_ns(s, 0), 5'000'000);
  EXPECT_GE(outrider_stage_ns(s, 1), 5'000'000);
  EXPECT_EQ(outrider_stage_ns(s, 2), 0);
}

// Moves by 7 ns whenever it is read.
class TickingClock final : public Clock {
 public:
  int64_t now_ns() const noexcept override { return now_ns_ += 7; }

 private:
  mutable int64_t now_ns_ = 0;
};

TEST(HostStages, time_comes_from_the_clock_that_was_handed_in) {
  const TickingClock clock;
  auto s = host::Session::open(fake_path(),
                               fake_config({{"plan", "diamond"}, {"require_inputs", "0"}}), clock);
  ASSERT_TRUE(s) << s.error().text;
  ASSERT_TRUE(s.value().tick());
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(s.value().stage_ns(i), 7);
}

}  // namespace
}  // namespace outrider::test
