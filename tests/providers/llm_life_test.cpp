// A language model over time: several sessions, cancelling, memory, what a tick may do.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "providers/llm_fixture.h"
#include "support/hot_counter.h"
#include "support/own_time.h"

namespace outrider::test {
namespace {

using P = LlmProvider;
using Clock = std::chrono::steady_clock;

LlmSpec tiny(std::string extra = {}) {
  LlmSpec spec;
  spec.model = tiny_llm();
  spec.extra = std::move(extra);
  return spec;
}

// ---- FC-28 --------------------------------------------------------------------------------------

TEST(LlmLife, FC28_four_conversations_of_one_file_do_not_mix) {
  LlmSpec spec = tiny(R"("reuse":"on")");
  spec.n_ctx = 32;
  std::vector<std::vector<int32_t>> prompts, wanted;
  std::vector<std::unique_ptr<LlmProvider>> sessions;
  for (uint32_t i = 0; i < 4; ++i) {
    prompts.push_back(some_ids(4 + i, i + 1));
    const LlmProvider alone(spec);
    ASSERT_EQ(alone.tokens(prompts[i]), 0);
    wanted.push_back(alone.generate(3));
    sessions.push_back(std::make_unique<LlmProvider>(spec));
  }
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::vector<int32_t>> got(4);
    for (size_t i = 0; i < 4; ++i) ASSERT_EQ(sessions[i]->tokens(prompts[i]), 0);
    for (size_t i = 0; i < 4; ++i) ASSERT_EQ(sessions[(i + size_t(round)) % 4]->prefill(), 0);
    const size_t cancelled = round % 3 == 0 ? size_t(round / 3 % 4) : 4;
    for (int step = 0; step < 3; ++step) {
      for (size_t i = 0; i < 4; ++i) {
        if (i == cancelled && step >= 1) {
          const outrider_cancel_v1& cancel = sessions[i]->cancel();
          cancel.set(cancel.self, 1);
          ASSERT_LT(sessions[i]->decode(), 0);
          cancel.set(cancel.self, 0);
          continue;
        }
        ASSERT_EQ(sessions[i]->decode(), 0) << sessions[i]->error();
        got[i].push_back(sessions[i]->integer(P::kNextToken));
      }
      if (round % 7 == 0) {
        ASSERT_EQ(sessions[cancelled % 4]->reset(), 0);
      }
      if (round % 7 == 0) break;
    }
    for (size_t i = 0; i < 4; ++i)
      for (size_t k = 0; k < got[i].size(); ++k)
        ASSERT_EQ(got[i][k], wanted[i][k]) << "round " << round << " session " << i;
  }
}

TEST(LlmLife, FC28_two_sessions_on_two_threads_give_what_they_give_alone) {
  std::vector<std::vector<int32_t>> wanted;
  for (uint32_t i = 0; i < 2; ++i) {
    const LlmProvider alone(tiny());
    ASSERT_EQ(alone.tokens(some_ids(20, i)), 0);
    wanted.push_back(alone.generate(8));
  }
  bool same[2] = {true, true};
  const auto talk = [&](uint32_t i) {
    const LlmProvider session(tiny());
    for (int round = 0; round < 20; ++round) {
      session.tokens(some_ids(20, i));
      same[i] = same[i] && session.generate(8) == wanted[i];
    }
  };
  std::thread other(talk, 1);
  talk(0);
  other.join();
  EXPECT_TRUE(same[0] && same[1]);
}

TEST(LlmLife, sessions_of_one_file_share_their_weights) {
  const LlmProvider first(tiny());
  const auto packed = [](const LlmProvider& p) { return std::string(p->exp->manifest_json); };
  const LlmProvider second(tiny());
  EXPECT_EQ(packed(first), packed(second));
  EXPECT_EQ(first->exp->fingerprint, second->exp->fingerprint);
}

// ---- FC-29 --------------------------------------------------------------------------------------

class Cancelled : public testing::Test {
 protected:
  static LlmSpec large() {
    LlmSpec spec = tiny();
    spec.n_ctx = 4096;
    spec.max_tokens = 4096;
    return spec;
  }
  void raise(bool on) const {
    const outrider_cancel_v1& cancel = provider_.cancel();
    cancel.set(cancel.self, on ? 1 : 0);
  }
  // Whoever cancelled: the next request is answered as ever.
  void expect_reusable() const {
    raise(false);
    ASSERT_EQ(provider_.tokens(some_ids(6)), 0);
    const auto ids = provider_.generate(4);
    const LlmProvider fresh(tiny());
    ASSERT_EQ(fresh.tokens(some_ids(6)), 0);
    EXPECT_EQ(ids, fresh.generate(4));
  }
  // Runs `verb` and raises the flag some ms later. The answer, and ms from flag to answer.
  template <class F>
  std::pair<int, double> cancel_during(const F& verb, int after_ms) const {
    Clock::time_point raised;
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
      raised = Clock::now();
      raise(true);
    });
    const int code = verb();
    const auto done = Clock::now();
    canceller.join();
    return {code, std::chrono::duration<double, std::milli>(done - raised).count()};
  }
  LlmProvider provider_{large()};
};

TEST_F(Cancelled, FC29_before_the_start_nothing_is_computed) {
  ASSERT_EQ(provider_.tokens(some_ids(4000)), 0);
  raise(true);
  test::OwnTime own;
  EXPECT_EQ(provider_.prefill(), -8);
  EXPECT_LT(own.ns(), 50'000'000);
  EXPECT_NE(provider_.error().find("cancelled"), std::string::npos);
  EXPECT_EQ(provider_.step(), -8);
  EXPECT_EQ(provider_.counter("cancelled_runs"), 2);
  expect_reusable();
}

TEST_F(Cancelled, FC29_during_a_prefill_of_four_thousand_tokens) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(provider_.tokens(some_ids(4000)), 0);
    const auto [code, ms] = cancel_during([&] { return provider_.prefill(); }, 5);
    EXPECT_EQ(code, -8);
    EXPECT_LT(ms, 250) << "a layer of 512 tokens of the tiny model, on a loaded machine";
    EXPECT_EQ(provider_.read(P::kLogits), FRT_ERR_NOT_READY);
    expect_reusable();
  }
}

TEST_F(Cancelled, FC29_during_a_generation_twice_and_after_the_end) {
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(provider_.tokens(some_ids(6)), 0);
    const auto [code, ms] = cancel_during([&] { return provider_.step(); }, 20);
    EXPECT_EQ(code, -8);
    EXPECT_LT(ms, 250);
    EXPECT_EQ(provider_.read(P::kText), FRT_ERR_NOT_READY);
    expect_reusable();
  }
  raise(true);
  raise(true);
  expect_reusable();
}

// ---- FC-32, hot path ----------------------------------------------------------------------------

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

TEST(LlmLife, FC32_memory_is_flat_over_two_thousand_requests) {
  LlmSpec spec = tiny();
  spec.n_ctx = 32;
  spec.max_tokens = 2;
  const LlmProvider provider(spec);
  const outrider_cancel_v1& cancel = provider.cancel();
  int64_t after_warm_up = 0;
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(provider.prompt(i % 2 ? "pick up the cup" : "open the left drawer"), 0);
    if (i % 5 == 0) {
      EXPECT_LT(provider.set(P::kTokens, "abc", 3), 0);
    }
    if (i % 5 == 1) cancel.set(cancel.self, 1);
    const int code = provider.step();
    EXPECT_EQ(code == 0, i % 5 > 1) << provider.error();
    if (i % 5 == 1) cancel.set(cancel.self, 0);
    if (i % 7 == 0) {
      EXPECT_EQ(provider.tokens(some_ids(33)), 0);
      EXPECT_LT(provider.prefill(), 0);
    }
    provider.read(P::kText, &text);
    if (i == 200) after_warm_up = anonymous_kb();
  }
  EXPECT_LT(anonymous_kb() - after_warm_up, 512);
}

TEST(LlmLife, a_request_takes_no_heap_no_lock_and_writes_nothing) {
  if (!hot_counter::available()) GTEST_SKIP() << "sanitizers stand in the place of the counter";
  for (const LlmArch arch : {LlmArch::kLlama, LlmArch::kGemma2, LlmArch::kQwen3}) {
    LlmSpec spec = tiny(R"("reuse":"on")");
    spec.model = tiny_llm({.arch = arch});
    spec.n_threads = 2;
    spec.temp = 0.8;
    spec.top_k = 40;
    spec.top_p = 0.9;
    const LlmProvider provider(spec);
    ASSERT_TRUE(provider.ok());
    const auto* plan = provider.plan();
    const auto& verbs = provider->verbs;
    void* self = provider->self;
    const std::string prompts[] = {"pick up the red block", "open the drawer \xc3\xa9 slowly"};
    const auto ids = some_ids(60);
    std::vector<char> out(1 << 16);
    uint64_t written = 0;
    int worst = 0;
    hot_counter::arm();
    for (int tick = 0; tick < 12; ++tick) {
      const std::string& prompt = prompts[tick % 2];
      worst = std::min(worst, verbs.set_input(self, 0, prompt.data(), prompt.size(), -1));
      if (tick % 3 == 0)
        worst = std::min(worst, verbs.set_input(self, 5, ids.data(), ids.size() * 4, -1));
      for (const uint32_t stage : {4u, 91u, 113u, 113u, 113u})
        worst = std::min(worst, plan->run_opaque(plan->stage_self, stage));
      for (const uint32_t port : {1u, 2u, 3u, 4u})
        verbs.get_output(self, port, out.data(), out.size(), &written, -1);
      worst = std::min(worst, verbs.step(self));
      verbs.set_input(self, 5, "abc", 3, -1);  // refusals are ticks as well
      verbs.step(self);
    }
    const HotCounts counts = hot_counter::disarm();
    EXPECT_EQ(worst, 0) << provider.error();
    EXPECT_EQ(counts.total(), 0u) << hot_counter::describe(counts);
  }
}

TEST(LlmLife, fifty_tokens_after_the_warm_up_touch_no_new_page) {
  if (!hot_counter::available()) GTEST_SKIP() << "sanitizers touch pages of their own";
  LlmSpec spec = tiny();
  spec.max_tokens = 100;
  spec.n_threads = 2;
  const LlmProvider provider(spec);
  const auto* plan = provider.plan();
  ASSERT_EQ(provider.tokens(some_ids(20)), 0);
  const auto decode = [&](int n) {
    int worst = 0;
    for (int i = 0; i < n; ++i) worst = std::min(worst, plan->run_opaque(plan->stage_self, 113));
    return worst;
  };
  ASSERT_EQ(provider.prefill(), 0);
  ASSERT_EQ(decode(3), 0);
  rusage before = {}, after = {};
  getrusage(RUSAGE_SELF, &before);
  const int worst = decode(50);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_EQ(worst, 0) << provider.error();
  EXPECT_EQ(after.ru_minflt - before.ru_minflt, 0);
}

}  // namespace
}  // namespace outrider::test
