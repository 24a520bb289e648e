#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "fixture.h"

namespace outrider::abi::test {
namespace {

TEST(Reference, the_last_release_frees_the_owner_once) {
  Model m;
  auto* r = plan_model(&m);
  EXPECT_EQ(m.retained, 1);
  r->retain(r->owner);
  r->release(r->owner);
  EXPECT_EQ(m.released, 0);
  r->release(r->owner);
  EXPECT_EQ(m.released, 1);
  EXPECT_EQ(m.retained, 1);
}

TEST(Reference, the_export_of_a_model_keeps_the_model_alive) {
  Model m;
  auto* r = plan_model(&m);
  const auto* exp = r->exp;
  exp->retain(exp->owner);
  r->release(r->owner);
  EXPECT_EQ(m.released, 0);
  EXPECT_EQ(r->n_ports, 2u) << "still readable";
  exp->release(exp->owner);
  EXPECT_EQ(m.released, 1);
}

TEST(Reference, null_owner_and_null_callbacks_are_harmless) {
  Model m;
  Builder b = Builder::metadata();
  b.port("in");
  const auto verbs = all_verbs();
  auto* r = frt_runtime_builder_finish_model(b, &verbs, &m, nullptr, nullptr, nullptr);
  ASSERT_NE(r, nullptr);
  b.forget();
  r->retain(nullptr);
  r->release(nullptr);
  r->release(r->owner);
}

TEST(Reference, a_release_callback_that_throws_does_not_escape_and_does_not_leak) {
  Model m, base_m;
  auto* base = plan_model(&base_m);
  const auto verbs = all_verbs();
  auto* r = frt_model_runtime_override_verbs(base, &verbs, &m, &m, nullptr, [](void*) { throw 1; });
  base->release(base->owner);
  r->release(r->owner);
  EXPECT_EQ(base_m.released, 1);
}

// Each thread leaves a trace in plain memory before it releases; the callback reads all of them.
// A release that did not order these would show in a thread sanitizer.
TEST(Reference, release_from_many_threads_orders_their_work_before_the_callback) {
  constexpr int kThreads = 8;
  struct Owner {
    int traces[kThreads] = {};
    int sum = 0, calls = 0;
  };
  for (int round = 0; round < 50; ++round) {
    Owner owner;
    Model m;
    Builder b = Builder::metadata();
    b.port("in");
    const auto verbs = all_verbs();
    auto* r = frt_runtime_builder_finish_model(b, &verbs, &m, &owner, nullptr, [](void* o) {
      auto* own = static_cast<Owner*>(o);
      for (int trace : own->traces) own->sum += trace;
      ++own->calls;
    });
    b.forget();
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      r->retain(r->owner);
      threads.emplace_back([&, t] {
        ++ready;
        while (ready < kThreads) std::this_thread::yield();
        for (int i = 0; i < 100; ++i) {
          r->retain(r->owner);
          r->release(r->owner);
        }
        owner.traces[t] = t + 1;
        r->release(r->owner);
      });
    }
    r->release(r->owner);
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(owner.calls, 1);
    EXPECT_EQ(owner.sum, kThreads * (kThreads + 1) / 2);
  }
}

}  // namespace
}  // namespace outrider::abi::test
