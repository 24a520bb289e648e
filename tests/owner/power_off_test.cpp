// The far end is asked on a real shutdown only, for 30 s at most, withdrawn then. R42, R43.
#include "owner/power_off.h"

#include <gtest/gtest.h>

#include "owner/rig.h"

namespace outrider::owner::test {
namespace {

constexpr const char* kRequest = "/run/power-off.json";

TEST(OwnerPowerOff, R42_shutdown_alone_asks_and_only_with_a_link_and_a_far_end) {
  for (int bits = 0; bits < 64; ++bits) {
    const ShutdownFlags flags{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    const PowerOffView view{(bits & 8) != 0, (bits & 16) != 0, (bits & 32) != 0};
    const bool wanted = bits == (1 | 8 | 32);
    FakeSystem system;
    EXPECT_EQ(wants_power_off(flags, view), wanted) << bits;
    EXPECT_EQ(request_power_off(system, kRequest, flags, view, "low battery"), wanted) << bits;
    EXPECT_EQ(system.has(kRequest), wanted) << bits;
    EXPECT_EQ(power_off_pending(system, kRequest), wanted) << bits;
  }
}

// The manager's loop: ask, then wait until it is not pending. Seconds that it waited.
double wait_for(Rig& rig, bool owner_lives) {
  const PowerOffView view{true, false, rig.here};
  const int64_t start = rig.system.now;
  request_power_off(rig.system, kRequest, {true, false, false}, view, "low battery");
  while (power_off_pending(rig.system, kRequest)) {
    rig.system.now += 100 * kMs;
    if (owner_lives && (rig.system.now - start) % kStepNs == 0) rig.owner->step();
    if (rig.system.now - start > 100 * kSec) break;
  }
  return double(rig.system.now - start) * 1e-9;
}

Rig& ready(Rig& rig, bool here) {
  rig.config.provision.clear();
  rig.far_end(here);
  rig.start();
  rig.far_end(here);
  rig.run(2 * kPresenceNs);
  return rig;
}

TEST(OwnerPowerOff, R43_a_far_end_that_never_answers_costs_30_s_and_the_request_is_withdrawn) {
  Rig rig;
  ready(rig, true);
  EXPECT_DOUBLE_EQ(wait_for(rig, true), 30.0);
  EXPECT_FALSE(rig.system.has(kRequest));
  EXPECT_EQ(rig.system.spawned.size(), 1u);  // one child that never came back
  rig.owner->step();
  EXPECT_EQ(rig.system.signals.back(), std::pair(rig.system.last_child, SIGKILL));
  EXPECT_TRUE(rig.system.children.empty());
  rig.run(60 * kSec);
  EXPECT_EQ(rig.system.spawned.size(), 1u) << "asked after it was withdrawn";
}

TEST(OwnerPowerOff, R43_a_dead_owner_costs_30_s_and_one_that_starts_later_asks_nobody) {
  Rig rig;
  rig.config.provision.clear();
  rig.far_end(true);
  EXPECT_DOUBLE_EQ(wait_for(rig, false), 30.0);
  EXPECT_FALSE(rig.system.has(kRequest));
  // The asker died too: the file is still there long after.
  request_power_off(rig.system, kRequest, {true, false, false}, {true, false, true}, "x");
  rig.system.now += 31 * kSec;
  rig.start();
  rig.run(5 * kSec);
  EXPECT_TRUE(rig.system.spawned.empty());
  EXPECT_FALSE(rig.system.has(kRequest));
}

TEST(OwnerPowerOff, R43_with_no_far_end_nobody_waits) {
  Rig rig;
  ready(rig, false);
  EXPECT_DOUBLE_EQ(wait_for(rig, true), 0.0);
  EXPECT_TRUE(rig.system.spawned.empty());
}

TEST(OwnerPowerOff, a_far_end_that_left_ends_the_wait_with_the_next_step) {
  Rig rig;
  ready(rig, true);
  request_power_off(rig.system, kRequest, {true, false, false}, {true, false, true}, "x");
  rig.far_end(false);
  rig.run(kStepNs);
  EXPECT_FALSE(power_off_pending(rig.system, kRequest));
  EXPECT_TRUE(rig.system.spawned.empty());
}

TEST(OwnerPowerOff, an_answer_ends_the_wait_and_a_failure_is_tried_again) {
  Rig rig;
  ready(rig, true);
  request_power_off(rig.system, kRequest, {true, false, false}, {true, false, true}, "x");
  rig.run(kStepNs);
  ASSERT_EQ(rig.system.spawned.size(), 1u);
  EXPECT_EQ(rig.system.spawned[0], std::vector<std::string>{"power-it-off"});
  EXPECT_TRUE(rig.owner->status().power_off);
  rig.system.children[rig.system.last_child] = 3;
  rig.run(kStepNs);
  EXPECT_EQ(rig.system.spawned.size(), 1u);
  rig.run(kPowerOffRetryNs);
  ASSERT_EQ(rig.system.spawned.size(), 2u);
  EXPECT_TRUE(power_off_pending(rig.system, kRequest));
  rig.system.children[rig.system.last_child] = 0;
  rig.run(kStepNs);
  EXPECT_FALSE(rig.system.has(kRequest));
  EXPECT_FALSE(rig.owner->status().power_off);
}

TEST(OwnerPowerOff, without_a_command_and_with_one_that_cannot_start_nobody_hangs) {
  for (const bool configured : {false, true}) {
    Rig rig;
    if (!configured) rig.config.power_off.clear();
    rig.system.spawn_fails = true;
    ready(rig, true);
    const double waited = wait_for(rig, true);
    EXPECT_DOUBLE_EQ(waited, configured ? 30.0 : 0.5);
    EXPECT_LE(rig.system.spawned.size(), 31u);
  }
}

TEST(OwnerPowerOff, it_comes_before_provisioning_and_before_borrowers) {
  Rig rig;
  rig.far_end(true);
  rig.start();
  rig.far_end(true);
  rig.owner->step();
  ASSERT_EQ(rig.system.spawned.size(), 1u);  // the provisioning run
  request_power_off(rig.system, kRequest, {true, false, false}, {true, false, true}, "x");
  rig.run(kStepNs);
  ASSERT_EQ(rig.system.spawned.size(), 2u);
  EXPECT_EQ(rig.system.spawned[1][0], "power-it-off");
  EXPECT_EQ(rig.system.signals[0], std::pair(int64_t{101}, SIGTERM));
}

TEST(OwnerPowerOff, a_request_is_believed_only_whole_and_of_this_boot) {
  FakeSystem system;
  request_power_off(system, kRequest, {true, false, false}, {true, false, true},
                    "low \"battery\"\n");
  const std::string good = system.get(kRequest);
  const auto read = [&](const std::string& text) {
    return read_power_off(text, system.boot, system.now);
  };
  ASSERT_TRUE(read(good)) << good;
  EXPECT_EQ(read(good).value().reason, "low \"battery\"?");
  EXPECT_EQ(read(good).value().deadline_ns, system.now + kPowerOffNs);
  EXPECT_FALSE(read_power_off(good, "another boot", system.now));
  EXPECT_FALSE(read_power_off(good, system.boot, system.now - 1)) << "asked in the future";
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(read(good.substr(0, n))) << n;
  const auto with = [&](int64_t asked, int64_t until) {
    return R"({"version":1,"boot_id":")" + system.boot + R"(","asked_ns":)" +
           std::to_string(asked) + R"(,"deadline_ns":)" + std::to_string(until) + "}";
  };
  EXPECT_TRUE(read(with(5, 5 + kPowerOffNs)));
  EXPECT_FALSE(read(with(5, 6 + kPowerOffNs)));
  EXPECT_FALSE(read(with(5, 4)));
  EXPECT_FALSE(read(with(-1, 4)));
  EXPECT_FALSE(read(with(-INT64_MAX, INT64_MAX)));
}

}  // namespace
}  // namespace outrider::owner::test
