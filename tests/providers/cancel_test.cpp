// Cancelling a tick from another thread. FC-29.
#include "outrider/ext/cancel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "providers/policy_fixture.h"
#include "support/fast_folder.h"

namespace outrider::test {
namespace {

const outrider_cancel_v1* cancel_of(const PiProvider& provider) {
  const void* table = nullptr;
  EXPECT_EQ(provider->query_extension(provider.get(), OUTRIDER_EXT_CANCEL, 1, &table), 0);
  return static_cast<const outrider_cancel_v1*>(table);
}

TEST(Cancel, FC29_between_the_stages_it_ends_the_stage_that_follows) {
  const TempDir dir;
  const PiPair& fast_pair = tiny_pair(PiFamily::kPi05);
  write_fast_folder(dir.path(), fast_pair.policy, fast_pair.vision);
  const RobotFolder pi0({.family = PiFamily::kPi0}), pi05({.family = PiFamily::kPi05});
  const std::string fast = R"({"model_family":"pi0","policy_dir":")" + dir.path() +
                           R"(","backend":"cpu","precision":"f32","n_threads":1,"reuse":"on"})";
  for (const std::string& config : {pi0.config(R"(,"reuse":"on")"), pi05.config(), fast}) {
    const PolicyProvider provider(config);
    ASSERT_TRUE(provider.ok()) << config;
    const auto* cancel = cancel_of(provider);
    stage_robot(provider, config == pi0.config(R"(,"reuse":"on")") ? pi0.pair() : fast_pair);
    const auto wanted = provider.tick();
    cancel->set(cancel->self, 1);
    EXPECT_EQ(provider.context(), -8) << "before it begins";
    EXPECT_EQ(provider.step(), -8);
    cancel->set(cancel->self, 0);
    EXPECT_EQ(provider.tick(), wanted) << "inputs are still staged";
    EXPECT_EQ(provider.context(), 0);
    cancel->set(cancel->self, 1);
    EXPECT_EQ(provider.action(), -8);
    cancel->set(cancel->self, 0);
    EXPECT_NE(provider.error().find("cancelled"), std::string::npos) << provider.error();
    EXPECT_TRUE(provider.actions().empty());
    EXPECT_EQ(provider.counter("cancelled_runs"), 3);
    EXPECT_EQ(provider.tick(), wanted) << "inputs are still staged";
  }
}

// Wishes from another thread at any moment: a tick is whole or refused, and the next one is right.
TEST(Cancel, FC29_at_any_moment_leaves_whole_answers_or_none) {
  const RobotFolder folder({.family = PiFamily::kPi05});
  const PolicyProvider provider(folder.config(R"(,"reuse":"on")"));
  ASSERT_TRUE(provider.ok());
  const auto* cancel = cancel_of(provider);
  const int64_t s = folder.pair().image_size;
  stage_robot(provider, folder.pair());
  const auto wanted = provider.tick();
  std::atomic<bool> end{false};
  std::thread other([&] {
    for (int i = 0; !end.load(); ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(37 * (i % 23)));
      cancel->set(cancel->self, 1);
      std::this_thread::sleep_for(std::chrono::microseconds(20 + 40 * (i % 11)));
      cancel->set(cancel->self, 0);
    }
  });
  int whole = 0, cancelled = 0;
  for (int i = 0; i < 400; ++i) {
    // The wrist comes and goes, so that kept pictures are dropped and computed again.
    ASSERT_EQ(provider.set_camera("top", noise_rgb(s, s, i % 2 != 0 ? 100u : 55u), s, s), 0);
    provider.step();
    ASSERT_EQ(provider.set_camera("top", noise_rgb(s, s, 100), s, s), 0);
    const int code = provider.step();
    if (code == 0) {
      ASSERT_EQ(provider.actions(), wanted) << i;
      ++whole;
    } else {
      ASSERT_EQ(code, -8) << provider.error();
      ++cancelled;
    }
  }
  end = true;
  other.join();
  EXPECT_EQ(provider.tick(), wanted);
  EXPECT_GT(whole + cancelled, 0);
  EXPECT_GT(provider.counter("cancelled_runs"), 0);
}

}  // namespace
}  // namespace outrider::test
