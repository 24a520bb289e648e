// The owner's step: what is held, what it changes (R41), and its record (R38).
#include "owner/owner.h"

#include <gtest/gtest.h>

#include "owner/rig.h"

namespace outrider::owner::test {
namespace {

constexpr const char* kCurrent = "/sys/class/port/current_max";

OwnerView view_of(Rig& rig) {
  return read_status(
      rig.system.get("/run/status.json"),
      {rig.system.boot, rig.system.now, [&](int64_t pid) { return rig.system.start_ticks(pid); }});
}

TEST(Owner, mode_is_off_unless_the_parameter_says_1_or_2) {
  EXPECT_EQ(mode_of("1"), Mode::kUsb);
  EXPECT_EQ(mode_of("2"), Mode::kTcp);
  for (const char* text : {"", "0", "3", "-1", "01", "1.0", "true", "usb", " 1"})
    EXPECT_EQ(mode_of(text), Mode::kOff) << text;
}

TEST(Owner, holds_what_the_parameter_says_and_changes_it_only_while_parked) {
  Rig rig;
  rig.start();
  EXPECT_TRUE(rig.holder->is_open);
  rig.parked(false);
  rig.set_mode("2");
  rig.run(5 * kSec);
  EXPECT_EQ(rig.made_modes, std::vector<Mode>{Mode::kUsb});
  rig.parked(true);
  rig.run(kSec);
  const std::vector<Mode> both = {Mode::kUsb, Mode::kTcp};
  EXPECT_EQ(rig.made_modes, both);
  rig.set_mode("0");
  rig.run(kSec);
  EXPECT_EQ(view_of(rig).status.mode, "off");
  EXPECT_STREQ(shown_state(view_of(rig)), "off");
}

TEST(Owner, a_holder_that_does_not_open_is_tried_again_and_told_once) {
  LogLines log;
  Rig rig;
  rig.open_error = "controller udc0 is held by gadget g1";
  rig.start();
  rig.run(20 * kSec);
  EXPECT_GE(rig.holder->n_opens, 8);
  EXPECT_LE(rig.holder->n_opens, 12);
  EXPECT_EQ(log.count("is held by"), 1u);
  EXPECT_EQ(view_of(rig).status.error, rig.open_error);
  EXPECT_STREQ(shown_state(view_of(rig)), "unavailable");
  rig.holder->open_error.clear();
  rig.run(3 * kSec);
  EXPECT_EQ(view_of(rig).status.error, "");
  EXPECT_STREQ(shown_state(view_of(rig)), "waiting");
}

TEST(Owner, R41_port_current_stays_cut_while_a_host_is_there) {
  Rig rig;
  rig.config.port_current = {kCurrent, "0"};
  rig.config.provision.clear();
  rig.system.put(kCurrent, "1500000");
  rig.start();
  rig.run(2 * kSec);
  EXPECT_EQ(rig.system.get(kCurrent), "1500000");  // nobody there yet
  rig.far_end(true);
  rig.run(kStepNs);
  EXPECT_EQ(rig.system.get(kCurrent), "0");
  // Whatever the phone setting says, and whoever writes the knob.
  for (const char* charge : {"1", "0", "1", ""}) {
    rig.system.put("/params/OutriderChargePhone", charge);
    rig.system.put(kCurrent, "1500000");
    rig.run(kStepNs);
    EXPECT_EQ(rig.system.get(kCurrent), "0") << charge;
  }
  // A moment of recovery is no leaving; leaving is.
  rig.far_end(false);
  rig.run(kPresenceNs - kStepNs);
  EXPECT_EQ(rig.system.get(kCurrent), "0");
  rig.run(kSec);
  EXPECT_EQ(rig.system.get(kCurrent), "1500000");
}

TEST(Owner, R41_in_the_phone_mode_the_charging_setting_decides) {
  Rig rig;
  rig.config.port_current = {kCurrent, "0"};
  rig.config.provision.clear();
  rig.system.put(kCurrent, "1500000");
  rig.set_mode("2");
  rig.far_end(true);
  rig.start();
  rig.run(kSec);
  EXPECT_EQ(rig.system.get(kCurrent), "0");
  rig.system.put("/params/OutriderChargePhone", "1");
  rig.run(kSec);
  EXPECT_EQ(rig.system.get(kCurrent), "1500000");
}

TEST(Owner, R40_tuning_lasts_as_long_as_the_link_is_on_and_a_killed_owner_is_made_good) {
  for (const char* ending : {"stop", "off", "kill"}) {
    Rig rig;
    rig.config.provision.clear();
    rig.config.port_current = {kCurrent, "0"};
    rig.config.tuning = {{"/proc/sys/net/core/wmem_max", "4194304", true},
                         {"/proc/sys/vm/none_here", "1", false}};
    rig.system.put("/proc/sys/net/core/wmem_max", "212992");
    rig.system.put(kCurrent, "1500000");
    rig.far_end(true);
    rig.start();
    rig.run(kSec);
    EXPECT_EQ(rig.system.get("/proc/sys/net/core/wmem_max"), "4194304");
    EXPECT_EQ(rig.system.get(kCurrent), "0");
    EXPECT_EQ(view_of(rig).status.n_settings, 2);
    const std::string word = ending;
    if (word == "stop") {
      rig.owner->stop();
      EXPECT_TRUE(view_of(rig).status.stopping);
    } else if (word == "off") {
      rig.set_mode("0");
      rig.run(kSec);
    } else {
      rig.system.die_after = 0;
      rig.owner.reset();
      EXPECT_EQ(rig.system.get("/proc/sys/net/core/wmem_max"), "4194304");
      rig.system.die_after = INT32_MAX;
      rig.set_mode("0");
      rig.start();
    }
    EXPECT_EQ(rig.system.get("/proc/sys/net/core/wmem_max"), "212992") << ending;
    EXPECT_EQ(rig.system.get(kCurrent), "1500000") << ending;
    EXPECT_FALSE(rig.system.has("/var/owner/settings.json")) << ending;
  }
}

TEST(Owner, R38_its_record_beats_and_reads_as_dead_3_s_after_the_last_beat) {
  Rig rig;
  rig.config.provision.clear();
  rig.far_end(true);
  rig.start();
  EXPECT_TRUE(view_of(rig).alive);
  EXPECT_STREQ(shown_state(view_of(rig)), "connected");
  rig.system.now += kHeartbeatNs;
  EXPECT_TRUE(view_of(rig).alive);
  rig.system.now += 1;
  EXPECT_FALSE(view_of(rig).alive);
  EXPECT_STREQ(shown_state(view_of(rig)), "unavailable");
  rig.owner->step();
  EXPECT_TRUE(view_of(rig).alive);
}

TEST(Owner, R38_every_field_that_is_wrong_or_missing_reads_as_dead) {
  Rig rig;
  rig.start();
  const std::string good = rig.system.get("/run/status.json");
  const record::Place place{rig.system.boot, rig.system.now,
                            [&](int64_t pid) { return rig.system.start_ticks(pid); }};
  ASSERT_TRUE(read_status(good, place).alive) << good;
  ASSERT_LT(good.size(), 4096u);
  // Every member removed, or replaced by a value of each other type.
  size_t n_fields = 0;
  for (size_t at = good.find("\""); at != std::string::npos;) {
    const size_t colon = good.find("\":", at) + 2;
    size_t end = colon;
    if (good[end] == '"')
      end = good.find('"', end + 1) + 1;
    else
      end = good.find_first_of(",}", end);
    const bool text = good[colon] == '"', flag = good[colon] == 't' || good[colon] == 'f';
    ++n_fields;
    for (const char* value : {"null", "[]", "{}", "1.5", "-1", "true", "7", "\"x\ny\""}) {
      const std::string with(value);
      if (flag && with == "true") continue;
      if (!text && !flag && with == "7" && good.find("\"pid\"", at) != at &&
          good.find("\"process", at) != at && good.find("\"version\"", at) != at)
        continue;  // another number is another answer, not a wrong one
      EXPECT_FALSE(read_status(good.substr(0, colon) + with + good.substr(end), place).alive)
          << good.substr(at, end - at) << " as " << value;
    }
    const bool last = good[end] == '}';
    const std::string without = last ? good.substr(0, at - 1) + good.substr(end)
                                     : good.substr(0, at) + good.substr(end + 1);
    EXPECT_FALSE(read_status(without, place).alive) << "without " << good.substr(at, end - at);
    at = last ? std::string::npos : end + 1;
  }
  EXPECT_EQ(n_fields, 22u);
  for (size_t n = 0; n < good.size(); ++n)
    ASSERT_FALSE(read_status(good.substr(0, n), place).alive) << n;
  EXPECT_FALSE(read_status("", place).alive);
  EXPECT_FALSE(read_status("[]", place).alive);
  record::Place other = place;
  other.boot_id = "another";
  EXPECT_FALSE(read_status(good, other).alive);
  other = place;
  other.now_ns -= 1;
  EXPECT_FALSE(read_status(good, other).alive) << "written in the future";
}

TEST(Owner, R38_the_record_is_replaced_whole_and_nobody_else_writes_it) {
  Rig rig;
  rig.start();
  int n_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(rig.system.at("/run")))
    n_files += entry.path().filename().string().find("status") != std::string::npos;
  EXPECT_EQ(n_files, 1);  // no half of it stays
  LogLines log;
  rig.system.refuse = "/run/status.json";
  rig.run(10 * kSec);
  EXPECT_EQ(log.count("status record"), 1u);  // told once, and the owner goes on
  rig.system.refuse.clear();
  rig.run(kSec);
  EXPECT_TRUE(view_of(rig).alive);
}

// Seconds for which an owner that starts now holds nothing.
double calm_of(Rig& rig) {
  rig.start();
  const int64_t start = rig.system.now;
  while (rig.holder == nullptr && rig.system.now - start < 1000 * kSec) rig.run(kStepNs);
  return double(rig.system.now - start) * 1e-9;
}
void kill(Rig& rig) {
  rig.system.die_after = 0;
  rig.owner.reset();
  rig.system.die_after = INT32_MAX;
  rig.holder = nullptr;
  std::filesystem::remove(rig.config.socket);
}

TEST(Owner, one_that_dies_again_and_again_holds_nothing_for_a_while) {
  Rig rig;
  rig.config.provision.clear();
  for (const double calm : {0., 0., 0., 10., 20., 40., 80., 160., 300., 300.}) {
    EXPECT_EQ(calm_of(rig), calm);
    kill(rig);
    rig.system.now += 2 * kSec;
  }
  // A stop that is meant ends the row, and so does a long life or a new boot.
  EXPECT_EQ(calm_of(rig), 300.);
  rig.owner->stop();
  rig.owner.reset();
  rig.holder = nullptr;
  for (const double calm : {0., 0., 0., 10.}) {
    EXPECT_EQ(calm_of(rig), calm);
    kill(rig);
  }
  EXPECT_EQ(calm_of(rig), 20.);
  rig.system.now += kShortLifeNs;
  kill(rig);
  EXPECT_EQ(calm_of(rig), 0.);
  for (int i = 0; i < 3; ++i) kill(rig), calm_of(rig);
  kill(rig);
  rig.system.boot = "another";
  EXPECT_EQ(calm_of(rig), 0.);
}

TEST(Owner, while_it_waits_it_lives_and_a_power_off_request_ends_the_wait) {
  Rig rig;
  rig.config.provision.clear();
  for (int i = 0; i < 3; ++i) calm_of(rig), kill(rig);
  rig.start();
  rig.run(2 * kSec);
  EXPECT_EQ(rig.holder, nullptr);
  EXPECT_TRUE(view_of(rig).alive);
  EXPECT_STREQ(shown_state(view_of(rig)), "unavailable");
  EXPECT_EQ(view_of(rig).status.error, "3 owners died one after another");
  request_power_off(rig.system, rig.config.power_off_request, {true, false, false},
                    {true, false, true}, "low battery");
  rig.run(kSec);
  EXPECT_NE(rig.holder, nullptr);
  EXPECT_EQ(view_of(rig).status.error, "");
  ASSERT_EQ(rig.system.spawned.size(), 1u);
  EXPECT_EQ(rig.system.spawned[0][0], "power-it-off");
}

TEST(Owner, a_damaged_record_of_ends_counts_as_none) {
  for (const char* text : {"", "[]", "{}", "{\"running\":1}", "\xff",
                           "{\"version\":1,\"running\":true,\"started_ns\":-1,\"crashes\":9}"}) {
    FakeSystem system;
    system.put("/ends.json", text);
    CrashGuard guard(system, "/ends.json");
    EXPECT_EQ(guard.begin(), 0) << text;
  }
}

TEST(Owner, R38_the_old_name_of_the_record_is_neither_written_nor_read) {
  const std::string old_name = std::string("Jetlink") + "Runtime";
  int n_files = 0;
  for (const char* top : {"src", "cli", "include", "packaging"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             std::string(OUTRIDER_SOURCE_DIR) + "/" + top)) {
      if (!entry.is_regular_file()) continue;
      ++n_files;
      std::ifstream in(entry.path());
      std::stringstream text;
      text << in.rdbuf();
      EXPECT_EQ(text.str().find(old_name), std::string::npos) << entry.path();
    }
  }
  EXPECT_GT(n_files, 100);
}

}  // namespace
}  // namespace outrider::owner::test
