// Settings of the system come back as they were: at a stop, and after a kill at any moment. R40.
#include "owner/settings.h"

#include <gtest/gtest.h>

#include "owner/rig.h"

namespace outrider::owner::test {
namespace {

constexpr const char* kJournal = "/var/owner/settings.json";
const std::map<std::string, std::string> kTree = {
    {"/proc/sys/vm/dirty_bytes", "0"},
    {"/proc/sys/vm/dirty_ratio", "20"},
    {"/proc/sys/vm/dirty_background_bytes", "4096000"},
    {"/proc/sys/net/core/wmem_max", "212992"},
    {"/proc/sys/net/core/rmem_max", "8388608"},
    {"/sys/class/port/current_max", "1500000"}};

// As the kernel does: bytes and ratio exclude each other, a zero in bytes is refused.
void make_tree(FakeSystem& system) {
  for (const auto& [path, value] : kTree) system.put(path, value);
  std::filesystem::create_directories(system.at("/var/owner"));
  FakeSystem* s = &system;
  system.kernel["/proc/sys/vm/dirty_bytes"] = [s](const std::string& text) -> std::string {
    if (text == "0") return "";
    s->put("/proc/sys/vm/dirty_ratio", "0");
    return text;
  };
  system.kernel["/proc/sys/vm/dirty_ratio"] = [s](const std::string& text) {
    s->put("/proc/sys/vm/dirty_bytes", "0");
    return text;
  };
}

void expect_tree(FakeSystem& system, const std::string& when) {
  for (const auto& [path, value] : kTree) EXPECT_EQ(system.get(path), value) << path << when;
  EXPECT_FALSE(system.has(kJournal)) << when;
}

void change_all(Settings& settings) {
  (void)settings.set("/proc/sys/vm/dirty_bytes", "16777216").code();
  (void)settings.set("/proc/sys/vm/dirty_background_bytes", "8388608").code();
  (void)settings.raise("/proc/sys/net/core/wmem_max", "4194304").code();
  (void)settings.raise("/proc/sys/net/core/rmem_max", "4194304").code();
  (void)settings.set("/sys/class/port/current_max", "0").code();
}

TEST(OwnerSettings, R40_every_setting_is_restored_at_a_stop) {
  FakeSystem system;
  make_tree(system);
  Settings settings(system, kJournal);
  change_all(settings);
  EXPECT_EQ(system.get("/proc/sys/vm/dirty_bytes"), "16777216");
  EXPECT_EQ(system.get("/proc/sys/vm/dirty_ratio"), "0");
  EXPECT_EQ(system.get("/proc/sys/net/core/wmem_max"), "4194304");
  EXPECT_EQ(system.get("/proc/sys/net/core/rmem_max"), "8388608");  // larger already: left
  EXPECT_EQ(system.get("/sys/class/port/current_max"), "0");
  EXPECT_EQ(settings.n_changed(), 4u);
  EXPECT_EQ(settings.restore_all(), 0);
  expect_tree(system, "");
}

TEST(OwnerSettings, R40_a_kill_at_any_moment_is_made_good_by_the_next_start) {
  int n_whole = 0;
  for (int moment = 0;; ++moment) {
    FakeSystem system;
    make_tree(system);
    system.die_after = moment;
    {
      Settings settings(system, kJournal);
      change_all(settings);
      settings.restore_all();
    }
    n_whole = system.die_after;
    system.die_after = INT32_MAX;
    Settings next(system, kJournal);
    const auto recovered = next.recover();
    ASSERT_TRUE(recovered) << moment << ": " << recovered.error().text;
    expect_tree(system, " killed at " + std::to_string(moment));
    if (n_whole > 0) {  // all of it ran before the kill
      EXPECT_GT(moment, 15);
      break;
    }
    ASSERT_LT(moment, 200);
  }
}

TEST(OwnerSettings, R40_a_second_kill_while_putting_back_is_made_good_too) {
  for (int moment = 0; moment < 12; ++moment) {
    FakeSystem system;
    make_tree(system);
    {
      Settings settings(system, kJournal);
      change_all(settings);
    }
    system.die_after = moment;
    {
      Settings second(system, kJournal);
      (void)second.recover().code();
    }
    system.die_after = INT32_MAX;
    Settings third(system, kJournal);
    ASSERT_TRUE(third.recover());
    expect_tree(system, " second kill at " + std::to_string(moment));
  }
}

TEST(OwnerSettings, a_record_of_another_boot_is_dropped) {
  FakeSystem system;
  make_tree(system);
  Settings(system, kJournal).set("/sys/class/port/current_max", "0").code();
  system.boot = "99999999-2222-3333-4444-555555555555";
  system.put("/sys/class/port/current_max", "900000");  // what the new kernel set
  Settings next(system, kJournal);
  EXPECT_EQ(next.recover().value(), 0);
  EXPECT_EQ(system.get("/sys/class/port/current_max"), "900000");
  EXPECT_FALSE(system.has(kJournal));
}

TEST(OwnerSettings, the_first_old_value_is_kept_when_a_setting_is_changed_twice) {
  FakeSystem system;
  make_tree(system);
  Settings settings(system, kJournal);
  ASSERT_TRUE(settings.set("/sys/class/port/current_max", "0"));
  ASSERT_TRUE(settings.set("/sys/class/port/current_max", "500000"));
  EXPECT_EQ(settings.n_changed(), 1u);
  ASSERT_TRUE(settings.restore("/sys/class/port/current_max"));
  expect_tree(system, "");
}

TEST(OwnerSettings, what_somebody_else_changed_after_us_is_left_and_told) {
  LogLines log;
  FakeSystem system;
  make_tree(system);
  Settings settings(system, kJournal);
  ASSERT_TRUE(settings.set("/sys/class/port/current_max", "0"));
  system.put("/sys/class/port/current_max", "123");
  settings.restore_all();
  EXPECT_EQ(system.get("/sys/class/port/current_max"), "123");
  EXPECT_EQ(log.count("changed by somebody else"), 1u);
  EXPECT_FALSE(system.has(kJournal));
}

TEST(OwnerSettings, a_value_that_the_kernel_rounds_is_still_ours) {
  FakeSystem system;
  make_tree(system);
  system.kernel["/sys/class/port/current_max"] = [](const std::string& text) {
    return text == "7" ? std::string("4") : text;
  };
  Settings settings(system, kJournal);
  ASSERT_TRUE(settings.set("/sys/class/port/current_max", "7"));
  EXPECT_EQ(system.get("/sys/class/port/current_max"), "4");
  settings.restore_all();
  expect_tree(system, "");
}

TEST(OwnerSettings, nothing_is_changed_when_its_record_cannot_be_kept) {
  FakeSystem system;
  make_tree(system);
  system.refuse = kJournal;
  Settings settings(system, kJournal);
  EXPECT_EQ(settings.set("/sys/class/port/current_max", "0").code(), Code::kFailed);
  EXPECT_EQ(settings.n_changed(), 0u);
  system.refuse.clear();
  expect_tree(system, "");
}

TEST(OwnerSettings, a_value_that_the_system_refuses_leaves_no_trace) {
  FakeSystem system;
  make_tree(system);
  system.refuse = "/sys/class/port/current_max";
  Settings settings(system, kJournal);
  const auto refused = settings.set("/sys/class/port/current_max", "0");
  EXPECT_EQ(refused.code(), Code::kFailed);
  EXPECT_NE(std::string(refused.error().text).find("refuses"), std::string::npos);
  expect_tree(system, "");
  EXPECT_EQ(settings.set("/sys/none", "1").code(), Code::kNotFound);
}

TEST(OwnerSettings, nothing_outside_the_system_is_ever_written) {
  FakeSystem system;
  make_tree(system);
  system.put("/etc/passwd", "root");
  Settings settings(system, kJournal);
  for (const char* path : {"/etc/passwd", "/sys/../etc/passwd", "/proc/sys/../../etc/passwd",
                           "etc/passwd", "", "/sysx", "/sys/a\nb"})
    EXPECT_EQ(settings.set(path, "x").code(), Code::kInvalid) << path;
  EXPECT_EQ(settings.set("/sys/class/port/current_max", "a\nb").code(), Code::kInvalid);
  // Neither through a record that somebody wrote.
  const std::string field = R"("old":"a","restore":"evil","wanted":"b","seen":"b","restore_path":)";
  for (const std::string& restore :
       {std::string("/etc/passwd"), std::string("/sys/../etc/passwd")}) {
    system.put(kJournal, R"({"version":1,"boot_id":")" + system.boot +
                             R"(","settings":[{"path":"/sys/class/port/current_max",)" + field +
                             "\"" + restore + "\"}]}");
    Settings hostile(system, kJournal);
    EXPECT_FALSE(hostile.recover());
    EXPECT_EQ(system.get("/etc/passwd"), "root");
    EXPECT_FALSE(system.has(kJournal));
  }
}

TEST(OwnerSettings, a_damaged_record_is_told_and_dropped) {
  FakeSystem system;
  make_tree(system);
  {
    Settings settings(system, kJournal);
    change_all(settings);
  }
  const std::string whole = system.get(kJournal);
  for (size_t n = 0; n < whole.size(); n += 7) {
    system.put(kJournal, whole.substr(0, n));
    Settings next(system, kJournal);
    EXPECT_FALSE(next.recover()) << n;
    EXPECT_EQ(next.n_changed(), 0u);
    EXPECT_FALSE(system.has(kJournal));
  }
}

}  // namespace
}  // namespace outrider::owner::test
