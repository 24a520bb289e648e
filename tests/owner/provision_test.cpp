// The provisioning run: what it asks for (R39), when it starts, when it is stopped.
#include "owner/provision.h"

#include <gtest/gtest.h>

#include "owner/rig.h"

namespace outrider::owner::test {
namespace {

TEST(OwnerProvision, R39_with_both_keys_empty_the_pinned_default_is_asked_for_by_its_hash) {
  const PinnedModel pinned{"/models/default.gguf", std::string(64, 'd')};
  const std::string picked(64, 'a');
  const Choice choice = pinned_choice("", "", picked, pinned);
  EXPECT_EQ(choice.sha256, pinned.sha256);
  EXPECT_FALSE(choice.offers_choice);
  EXPECT_FALSE(pinned_choice("", "Catalog", picked, pinned).offers_choice);
  EXPECT_FALSE(pinned_choice("Slot", "", picked, pinned).offers_choice);
  EXPECT_TRUE(pinned_choice("Slot", "Catalog", picked, pinned).offers_choice);
  EXPECT_EQ(pinned_choice("Slot", "Catalog", picked, pinned).sha256, picked);
  EXPECT_EQ(pinned_choice("Slot", "Catalog", "nonsense", pinned).sha256, pinned.sha256);
  EXPECT_EQ(pinned_choice("", "", "", {}).sha256, "");
}

TEST(OwnerProvision, R39_the_hash_reaches_the_program_that_asks_the_host) {
  Rig rig;
  rig.far_end(true);
  rig.system.put("/params/JetlinkBigModel", std::string(64, 'a'));  // an old slot: not looked at
  rig.start();
  const std::vector<std::string> wanted = {"provision-it", std::string(64, 'd'),
                                           "/models/default.gguf"};
  ASSERT_EQ(rig.system.spawned.size(), 1u);
  EXPECT_EQ(rig.system.spawned[0], wanted);
  EXPECT_TRUE(rig.owner->status().worker);
}

struct Sim {
  Provision machine;
  Provision::Input in;
  Sim() {
    in.now_ns = 1000 * kSec;
    in.link_on = in.parked = in.far_end_here = true;
  }
  Provision::Do step(int64_t later_ns = 0) {
    in.now_ns += later_ns;
    const auto todo = machine.step(in);
    if (todo == Provision::Do::kStart) in.running = true;
    in.exit_status = -1;
    return todo;
  }
  Provision::Do ends(int status) {
    in.running = false;
    in.exit_status = status;
    return step();
  }
};
using Do = Provision::Do;

TEST(OwnerProvision, starts_only_while_parked_with_a_link_and_somebody_there) {
  for (int bits = 0; bits < 32; ++bits) {
    Sim sim;
    sim.in.parked = bits & 1;
    sim.in.link_on = bits & 2;
    sim.in.far_end_here = bits & 4;
    sim.in.lent = bits & 8;
    sim.in.power_off = bits & 16;
    EXPECT_EQ(sim.step() == Do::kStart, bits == 7) << bits;
  }
}

TEST(OwnerProvision, a_run_that_left_nothing_comes_again_for_news_only) {
  Sim sim;
  ASSERT_EQ(sim.step(), Do::kStart);
  EXPECT_EQ(sim.step(60 * kSec), Do::kNothing);
  EXPECT_EQ(sim.ends(0), Do::kNothing);
  EXPECT_FALSE(sim.machine.unfinished());
  EXPECT_EQ(sim.step(3600 * kSec), Do::kNothing);
  // Another model is wanted.
  sim.in.wanted_hash = 5;
  EXPECT_EQ(sim.step(), Do::kStart);
  sim.ends(0);
  EXPECT_EQ(sim.step(3600 * kSec), Do::kNothing);
  // A host turns up.
  sim.in.far_end_here = false;
  EXPECT_EQ(sim.step(kSec), Do::kNothing);
  sim.in.far_end_here = true;
  EXPECT_EQ(sim.step(kSec), Do::kStart);
}

TEST(OwnerProvision, what_is_wanted_may_change_while_a_run_runs) {
  Sim sim;
  ASSERT_EQ(sim.step(), Do::kStart);
  sim.in.wanted_hash = 9;
  EXPECT_EQ(sim.step(), Do::kNothing);
  EXPECT_EQ(sim.ends(0), Do::kStart);
}

TEST(OwnerProvision, the_turn_on_the_bus_that_a_run_ends_with_is_no_news) {
  Sim sim;
  ASSERT_EQ(sim.step(), Do::kStart);
  sim.ends(0);
  for (int i = 0; i < 20; ++i) {
    sim.in.far_end_here = false;
    EXPECT_EQ(sim.step(kSec), Do::kNothing);
    sim.in.far_end_here = true;
    EXPECT_EQ(sim.step(kSec), Do::kNothing) << i;
  }
}

TEST(OwnerProvision, work_that_was_left_is_tried_again_after_300_s) {
  Sim sim;
  ASSERT_EQ(sim.step(), Do::kStart);
  EXPECT_EQ(sim.ends(1), Do::kNothing);
  EXPECT_TRUE(sim.machine.unfinished());
  EXPECT_EQ(sim.step(kLeftWorkNs - 1), Do::kNothing);
  EXPECT_EQ(sim.step(1), Do::kStart);
  sim.ends(0);
  EXPECT_FALSE(sim.machine.unfinished());
}

TEST(OwnerProvision, ignition_stops_it_by_term_then_after_10_s_by_kill) {
  Sim sim;
  ASSERT_EQ(sim.step(), Do::kStart);
  sim.in.parked = false;
  EXPECT_EQ(sim.step(), Do::kTerminate);
  EXPECT_TRUE(sim.machine.stopping());
  EXPECT_EQ(sim.step(kTermNs - 1), Do::kNothing);
  EXPECT_EQ(sim.step(1), Do::kKill);
  EXPECT_EQ(sim.step(kSec), Do::kNothing);
  EXPECT_EQ(sim.ends(137), Do::kNothing);
  EXPECT_EQ(sim.step(3600 * kSec), Do::kNothing);
  sim.in.parked = true;  // parked again: the rest is due
  EXPECT_EQ(sim.step(), Do::kStart);
}

TEST(OwnerProvision, a_run_that_is_parked_again_while_it_stops_is_still_stopped) {
  Sim sim;
  ASSERT_EQ(sim.step(), Do::kStart);
  sim.in.parked = false;
  ASSERT_EQ(sim.step(), Do::kTerminate);
  sim.in.parked = true;
  EXPECT_EQ(sim.step(kTermNs), Do::kKill);
}

TEST(OwnerProvision, it_waits_4_s_after_a_borrower_let_go) {
  Sim sim;
  sim.in.lent = true;
  EXPECT_EQ(sim.step(), Do::kNothing);
  sim.in.lent = false;
  EXPECT_EQ(sim.step(), Do::kNothing);
  EXPECT_EQ(sim.step(kAfterBorrowerNs - 1), Do::kNothing);
  EXPECT_EQ(sim.step(1), Do::kStart);
}

TEST(OwnerProvision, a_program_that_cannot_start_is_not_started_every_step) {
  Rig rig;
  rig.system.spawn_fails = true;
  rig.far_end(true);
  rig.start();
  rig.run(299 * kSec);
  EXPECT_EQ(rig.system.spawned.size(), 1u);
  EXPECT_TRUE(rig.owner->status().unfinished);
  rig.run(3 * kSec);
  EXPECT_EQ(rig.system.spawned.size(), 2u);
}

TEST(OwnerProvision, the_owner_stops_its_run_at_ignition_and_at_its_own_end) {
  Rig rig;
  rig.far_end(true);
  rig.system.obeys = false;
  rig.start();
  ASSERT_EQ(rig.system.spawned.size(), 1u);
  rig.parked(false);
  rig.run(12 * kSec);
  const std::vector<std::pair<int64_t, int>> wanted = {{101, SIGTERM}, {101, SIGKILL}};
  EXPECT_EQ(rig.system.signals, wanted);
  EXPECT_FALSE(rig.owner->status().worker);
  rig.parked(true);
  rig.run(kSec);
  ASSERT_EQ(rig.system.spawned.size(), 2u);
  const int64_t start = rig.system.now;
  rig.owner->stop();
  EXPECT_EQ(rig.system.signals.back(), std::pair(int64_t{102}, SIGKILL));
  EXPECT_LE(rig.system.now - start, kTermNs + kSec);
  EXPECT_TRUE(rig.system.children.empty());
}

}  // namespace
}  // namespace outrider::owner::test
