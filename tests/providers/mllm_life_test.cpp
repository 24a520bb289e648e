// A model that sees, over time: sessions side by side, cancelling, memory, what a tick may do.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "providers/mllm_fixture.h"
#include "support/hot_counter.h"

namespace outrider::test {
namespace {

using P = MllmProvider;
constexpr VlmKind kKinds[] = {VlmKind::kGemma3, VlmKind::kQwen25Vl, VlmKind::kIdefics3};

TEST(MllmLife, FC28_conversations_of_one_pair_do_not_mix) {
  MllmSpec spec = tiny_mllm(VlmKind::kQwen25Vl, R"("reuse":"on")");
  std::vector<std::vector<int32_t>> wanted;
  std::vector<std::unique_ptr<P>> sessions;
  const auto stage = [](const P& p, uint32_t i) {
    ASSERT_EQ(p.images({Picture::make(60, 40 + int32_t(i) * 20, i)}), 0);
    ASSERT_EQ(p.prompt(i % 2 ? "pick up the cup" : "open the drawer"), 0);
  };
  for (uint32_t i = 0; i < 4; ++i) {
    const P alone(spec);
    stage(alone, i);
    wanted.push_back(alone.generate(3));
    sessions.push_back(std::make_unique<P>(spec));
  }
  for (int round = 0; round < 30; ++round) {
    for (uint32_t i = 0; i < 4; ++i) stage(*sessions[i], i);
    std::vector<std::vector<int32_t>> got(4);
    for (uint32_t i = 0; i < 4; ++i) ASSERT_EQ(sessions[(i + uint32_t(round)) % 4]->prefill(), 0);
    for (int step = 0; step < 3; ++step)
      for (size_t i = 0; i < 4; ++i) {
        ASSERT_EQ(sessions[i]->decode(), 0) << sessions[i]->error();
        got[i].push_back(sessions[i]->integer(P::kNextToken));
      }
    ASSERT_EQ(got, wanted) << "round " << round;
  }
}

TEST(MllmLife, FC28_two_sessions_on_two_threads_give_what_they_give_alone) {
  for (const VlmKind kind : kKinds) {
    const auto talk = [&](uint32_t i, int rounds) {
      const P session(tiny_mllm(kind));
      std::vector<int32_t> ids;
      for (int round = 0; round < rounds; ++round) {
        session.images({Picture::make(70, 50, i)});
        session.prompt("what is this");
        const auto now = session.generate(4);
        if (round > 0 && now != ids) return std::vector<int32_t>{-1};
        ids = now;
      }
      return ids;
    };
    const std::vector<int32_t> wanted[] = {talk(0, 1), talk(1, 1)};
    std::vector<int32_t> got[2];
    std::thread other([&] { got[1] = talk(1, 4); });
    got[0] = talk(0, 4);
    other.join();
    for (int i = 0; i < 2; ++i) EXPECT_EQ(got[i], wanted[i]) << vlm_kind_name(kind);
  }
}

TEST(MllmLife, FC29_a_cancelled_picture_ends_within_a_layer_and_the_next_run_is_whole) {
  MllmSpec spec = tiny_mllm(VlmKind::kQwen25Vl);
  spec.n_ctx = 4096;
  const P p(spec);
  const outrider_cancel_v1& cancel = p.cancel();
  const std::vector<Picture> large = {Picture::make(1200, 1000)};
  ASSERT_EQ(p.prompt("what is this"), 0);
  ASSERT_EQ(p.images(large), 0) << p.error();
  cancel.set(cancel.self, 1);
  EXPECT_EQ(p.prefill(), -8);
  EXPECT_EQ(p.counter("encoded_frames"), 0) << "nothing was computed";
  cancel.set(cancel.self, 0);
  std::chrono::steady_clock::time_point raised;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    raised = std::chrono::steady_clock::now();
    cancel.set(cancel.self, 1);
  });
  const int code = p.prefill();
  const auto done = std::chrono::steady_clock::now();
  canceller.join();
  EXPECT_EQ(code, -8);
  EXPECT_LT(std::chrono::duration<double>(done - raised).count(), 2.0)
      << "one layer of 6,000 patches, on a loaded machine";
  EXPECT_NE(p.error().find("cancelled"), std::string::npos);
  EXPECT_EQ(p.read(P::kLogits), FRT_ERR_NOT_READY);
  cancel.set(cancel.self, 0);
  const P fresh(spec);
  for (const P* one : {&p, &fresh}) {
    ASSERT_EQ(one->images({Picture::make(60, 60)}), 0);
    ASSERT_EQ(one->prompt("what is this"), 0);
    ASSERT_EQ(one->prefill(), 0) << one->error();
  }
  EXPECT_EQ(p.logits(), fresh.logits());
}

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

TEST(MllmLife, FC32_memory_is_flat_over_two_thousand_requests) {
  MllmSpec spec = tiny_mllm(VlmKind::kGemma3);
  spec.n_ctx = 64;
  spec.max_tokens = 1;
  const P p(spec);
  const outrider_cancel_v1& cancel = p.cancel();
  const std::vector<Picture> pictures[] = {{Picture::make(24, 30)}, {Picture::make(50, 20)}};
  const std::vector<Picture> many(40, Picture::make(20, 20));
  int64_t after_warm_up = 0;
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(p.prompt(i % 2 ? "pick up the cup" : "open the left drawer"), 0);
    // Mostly words: a picture costs more than the rest of a request.
    if (i % 10 == 0) {
      ASSERT_EQ(p.images(pictures[i / 10 % 2]), 0);
    } else {
      ASSERT_EQ(p.set(P::kImages, nullptr, 0), 0);
    }
    if (i % 10 == 5) {
      EXPECT_EQ(p.images(many), FRT_ERR_SHAPE);
      ASSERT_EQ(p.set(P::kImages, nullptr, 0), 0);
    }
    if (i % 20 == 10) cancel.set(cancel.self, 1);
    EXPECT_EQ(p.step() == 0, i % 20 != 10) << p.error();
    cancel.set(cancel.self, 0);
    p.read(P::kText, &text);
    if (i == 200) after_warm_up = anonymous_kb();
  }
  EXPECT_LT(anonymous_kb() - after_warm_up, 512);
}

TEST(MllmLife, a_request_takes_no_heap_no_lock_and_writes_nothing) {
  if (!hot_counter::available()) GTEST_SKIP() << "sanitizers stand in the place of the counter";
  for (const VlmKind kind : kKinds) {
    MllmSpec spec = tiny_mllm(
        kind, R"("reuse":"on","image_sizes":"any","tokens_port":"on","numerics":"jetson-pi")");
    spec.n_threads = 2;
    spec.temp = 0.8;
    spec.top_k = 40;
    spec.top_p = 0.9;
    const P p(spec);
    ASSERT_TRUE(p.ok());
    const auto* plan = p.plan();
    const auto& verbs = p->verbs;
    void* self = p->self;
    const Picture a = Picture::make(60, 40), b = Picture::make(60, 40, 2),
                  c = Picture::make(33, 71);
    const frt_image_view views[][2] = {{a.view(), b.view()}, {a.view(), c.view()}};
    frt_image_view broken[] = {a.view(), b.view()};
    broken[1].bytes = 5;
    const std::string prompts[] = {"pick up the red block",
                                   "first <__media__> then <__media__> go"};
    const int32_t ids[] = {2, 300, -1, 301, -1, 302};
    std::vector<char> out(1 << 16);
    uint64_t written = 0;
    int worst = 0;
    hot_counter::arm();
    for (int tick = 0; tick < 8; ++tick) {
      const std::string& prompt = prompts[tick % 2];
      worst = std::min(worst,
                       verbs.set_input(self, P::kImages, views[tick / 2 % 2], sizeof views[0], -1));
      worst = std::min(worst, verbs.set_input(self, P::kPrompt, prompt.data(), prompt.size(), -1));
      if (tick % 3 == 0)
        worst = std::min(worst, verbs.set_input(self, P::kTokens, ids, sizeof ids, -1));
      for (const uint32_t stage : {4u, 91u, 113u, 113u})
        worst = std::min(worst, plan->run_opaque(plan->stage_self, stage));
      for (const uint32_t port : {P::kText, P::kNextToken, P::kLogits, P::kIsEog})
        verbs.get_output(self, port, out.data(), out.size(), &written, -1);
      worst = std::min(worst, verbs.step(self));
      verbs.set_input(self, P::kImages, broken, sizeof broken, -1);  // refusals are ticks as well
      verbs.step(self);
    }
    const HotCounts counts = hot_counter::disarm();
    EXPECT_EQ(worst, 0) << vlm_kind_name(kind) << " " << p.error();
    EXPECT_EQ(counts.total(), 0u) << vlm_kind_name(kind) << hot_counter::describe(counts);
  }
}

}  // namespace
}  // namespace outrider::test
