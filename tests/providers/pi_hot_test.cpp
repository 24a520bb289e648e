// Inside a tick: no heap, no lock, no write. And after it: memory stays where it was.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>

#include "providers/pi_fixture.h"
#include "support/hot_counter.h"

namespace outrider::test {
namespace {

class HotPath : public testing::TestWithParam<PiFamily> {};
INSTANTIATE_TEST_SUITE_P(Families, HotPath, testing::Values(PiFamily::kPi0, PiFamily::kPi05),
                         [](const auto& param) {
                           return param.param == PiFamily::kPi0 ? "pi0" : "pi05";
                         });

TEST_P(HotPath, a_tick_takes_no_heap_no_lock_and_writes_nothing) {
  if (!hot_counter::available()) GTEST_SKIP() << "sanitizers stand in the place of the counter";
  const PiPair& pair = tiny_pair(GetParam());
  for (const bool resize : {false, true}) {
    ConfigSpec spec{.pair = pair, .extra = R"("n_threads":2,"reuse":")"};
    spec.extra += resize ? "on\"" : "off\"";  // with reuse some ticks are spared in part
    Request request = make_request(pair);
    if (resize) {
      spec.image_width = 80;
      spec.image_height = 48;
      for (size_t i = 0; i < 2; ++i) {
        request.pictures[i] = noise_rgb(80, 48, i);
        request.views[i] = rgb_view(request.pictures[i], 80, 48);
      }
    }
    const PiProvider provider(config_json(spec));
    ASSERT_TRUE(provider.ok());
    const frt_generic_stage_plan_ext_v1* plan = provider.plan();
    std::vector<float> actions(provider.action_values());
    uint64_t written = 0;
    const auto& verbs = provider->verbs;
    void* self = provider->self;
    int worst = 0;
    hot_counter::arm();
    for (int tick = 0; tick < 20; ++tick) {
      // Every kind of tick is counted, the first one too; refusals are ticks as well.
      request.state[0] = static_cast<float>(tick % 7) / 7;
      worst = std::min(
          worst, verbs.set_input(self, 0, request.views.data(), 2 * sizeof(frt_image_view), -1));
      worst = std::min(worst,
                       verbs.set_input(self, 1, request.prompt.data(), request.prompt.size(), -1));
      worst = std::min(worst, verbs.set_input(self, 2, request.state.data(),
                                              request.state.size() * sizeof(float), -1));
      if (tick % 2 == 0) {
        worst = std::min(worst, verbs.step(self));
      } else {
        worst = std::min(worst, plan->run_opaque(plan->stage_self, 4));
        worst = std::min(worst, plan->run_opaque(plan->stage_self, 91));
      }
      worst = std::min(worst, verbs.get_output(self, 3, actions.data(),
                                               actions.size() * sizeof(float), &written, -1));
      const float nan = NAN;
      verbs.set_input(self, 2, &nan, sizeof nan, -1);
      verbs.step(self);
    }
    const HotCounts counts = hot_counter::disarm();
    EXPECT_EQ(worst, 0) << provider.error();
    EXPECT_EQ(counts.total(), 0u) << hot_counter::describe(counts);
  }
}

TEST_P(HotPath, fifty_ticks_after_the_warm_up_touch_no_new_page) {
  if (!hot_counter::available()) GTEST_SKIP() << "sanitizers touch pages of their own";
  const PiPair& pair = tiny_pair(GetParam());
  for (const char* precision : {"f32", "bf16", "int8"}) {
    const PiProvider provider(config_json(
        {.pair = pair, .extra = R"("n_threads":2,"precision":")" + std::string(precision) + '"'}));
    ASSERT_TRUE(provider.ok());
    Request request = make_request(pair);
    std::vector<float> actions(provider.action_values());
    const auto& verbs = provider->verbs;
    void* self = provider->self;
    uint64_t written = 0;
    int worst = 0;
    const auto ticks = [&](int n) {
      for (int tick = 0; tick < n; ++tick) {
        request.state[0] = static_cast<float>(tick % 7) / 7;
        worst = std::min(
            {worst, verbs.set_input(self, 0, request.views.data(), 2 * sizeof(frt_image_view), -1),
             verbs.set_input(self, 1, request.prompt.data(), request.prompt.size(), -1),
             verbs.set_input(self, 2, request.state.data(), request.state.size() * sizeof(float),
                             -1),
             verbs.step(self),
             verbs.get_output(self, 3, actions.data(), actions.size() * sizeof(float), &written,
                              -1)});
      }
    };
    ticks(2);  // the code itself is mapped from a file, page by page
    rusage before = {}, after = {};
    getrusage(RUSAGE_SELF, &before);
    ticks(50);
    getrusage(RUSAGE_SELF, &after);
    EXPECT_EQ(worst, 0) << provider.error();
    EXPECT_EQ(after.ru_minflt - before.ru_minflt, 0) << precision;
    EXPECT_EQ(after.ru_majflt - before.ru_majflt, 0) << precision;
  }
}

// RssAnon + VmSwap in kilobytes.
int64_t anonymous_kb() {
  std::ifstream in("/proc/self/status");
  int64_t sum = 0;
  for (std::string word; in >> word;) {
    int64_t value = 0;
    if (word == "RssAnon:" || word == "VmSwap:") {
      in >> value;
      sum += value;
    }
  }
  return sum;
}

TEST_P(HotPath, FC32_memory_is_flat_over_two_thousand_requests) {
  const PiPair& pair = tiny_pair(GetParam());
  const PiProvider provider(config_json({.pair = pair, .extra = R"("n_threads":1)"}));
  const Request request = make_request(pair);
  std::vector<float> actions;
  int64_t after_warm_up = 0;
  for (int i = 0; i < 2000; ++i) {
    stage_all(provider, request);
    if (i % 3 == 0) {
      EXPECT_LT(provider.set_state({INFINITY}), 0);
      EXPECT_LT(provider.step(), 0);
      stage_all(provider, request);
    }
    if (i % 5 != 0) {
      EXPECT_EQ(provider.step(), 0);
      provider.read(actions);
    } else {
      EXPECT_EQ(provider.context(), 0);  // given up half way
    }
    if (i == 100) after_warm_up = anonymous_kb();
  }
  EXPECT_LT(anonymous_kb() - after_warm_up, 1900) << "more than 1 kB a request";
}

// One good life and one refused open.
void open_tick_close() {
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const PiProvider provider(config_json({.pair = pair}));
  run_request(provider, make_request(pair));
  const PiProvider refused(config_json({.pair = pair, .extra = R"("precision":"fp8")"}));
  EXPECT_FALSE(refused.ok());
}

TEST(Lifecycle, FC32_opening_and_closing_leaves_memory_as_it_was) {
  if (!hot_counter::available()) GTEST_SKIP() << "sanitizers keep freed memory";
  for (int i = 0; i < 5; ++i) open_tick_close();
  // The allocator and huge pages may move once by megabytes; a leak grows in every round.
  int64_t least_growth_kb = INT64_MAX;
  for (int round = 0; round < 3; ++round) {
    const int64_t before_kb = anonymous_kb();
    for (int i = 0; i < 15; ++i) open_tick_close();
    least_growth_kb = std::min(least_growth_kb, anonymous_kb() - before_kb);
  }
  EXPECT_LT(least_growth_kb, 2000);
}

TEST(Lifecycle, FC32_opening_and_closing_leaves_descriptors_as_they_were) {
  const auto n_open = [] {
    int n = 0;
    for (int fd = 0; fd < 256; ++fd)
      n += std::ifstream("/proc/self/fd/" + std::to_string(fd)).good();
    return n;
  };
  for (int i = 0; i < 2; ++i) open_tick_close();
  const int before = n_open();
  for (int i = 0; i < 10; ++i) open_tick_close();
  EXPECT_EQ(n_open(), before);
}

TEST(Lifecycle, FC33_the_warm_up_is_done_at_open_and_reported) {
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const PiProvider provider(config_json({.pair = pair}));
  EXPECT_EQ(provider.counter("warm_ups"), 1);
  EXPECT_EQ(provider.counter("runs"), 0) << "the warm-up is no run";
  std::vector<float> actions;
  EXPECT_EQ(provider.read(actions), FRT_ERR_NOT_READY) << "and leaves no output";
}

}  // namespace
}  // namespace outrider::test
