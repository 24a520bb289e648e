#include "base/cpu_budget.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "support/temp_dir.h"

namespace outrider {
namespace {

// A scripted machine: files of /proc and /sys under a folder of their own.
class FC30 : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& content) {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << content;
  }
  // CPUs c and c + n_cores are two threads of core c.
  void hyper_threads(uint32_t n_cores) {
    for (uint32_t c = 0; c < n_cores; ++c) {
      const std::string both = std::to_string(c) + "," + std::to_string(c + n_cores) + "\n";
      for (const uint32_t cpu : {c, c + n_cores}) {
        write(
            "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
            both);
      }
    }
  }
  void cgroup_v2(const std::string& group, const std::string& shown_root = "/") {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo",
          "22 1 0:21 / /proc rw - proc proc rw\n"
          "30 1 0:26 " +
              shown_root + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }
  CpuBudget budget(uint32_t n_allowed) {
    std::vector<uint32_t> cpus(n_allowed);
    std::iota(cpus.begin(), cpus.end(), 0u);
    return cpu_budget({root_, cpus});
  }

  test::TempDir temp_;
  std::string root_ = temp_.path();
};

TEST_F(FC30, a_machine_that_shows_nothing_gives_one_thread_per_allowed_cpu) {
  for (const uint32_t n : {1u, 2u, 64u, 3000u}) {
    EXPECT_EQ(budget(n).n_threads, n);
    EXPECT_EQ(budget(n).quota_cpus, 0.0);
  }
  EXPECT_EQ(budget(0).n_threads, 1u);
  EXPECT_EQ(budget(2).reason,
            "2 threads: one per allowed cpu (2 cpus allowed, 2 cores, no cpu quota)");
}

TEST_F(FC30, hyper_threads_count_once_also_when_only_some_are_allowed) {
  hyper_threads(8);
  EXPECT_EQ(budget(16).n_threads, 8u);
  EXPECT_EQ(budget(16).reason,
            "8 threads: one per physical core (16 cpus allowed, 8 cores, no cpu quota)");
  EXPECT_EQ(budget(4).n_threads, 4u);
  EXPECT_EQ(cpu_budget({root_, {{0, 8}}}).n_threads, 1u);
  EXPECT_EQ(cpu_budget({root_, {{0, 8, 3}}}).n_threads, 2u);
}

TEST_F(FC30, a_quota_of_two_on_a_big_host_gives_two_threads_and_says_why) {
  cgroup_v2("/");
  write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  hyper_threads(32);
  const CpuBudget two = budget(64);
  EXPECT_EQ(two.n_threads, 2u);
  EXPECT_EQ(two.quota_cpus, 2.0);
  EXPECT_EQ(
      two.reason,
      "2 threads: the cgroup's cpu quota decides (64 cpus allowed, 32 cores, cpu quota 2.00)");
}

TEST_F(FC30, quotas_are_rounded_down_but_never_to_nothing) {
  cgroup_v2("/");
  const struct {
    const char* text;
    uint32_t n_threads;
  } cases[] = {{"max 100000\n", 8},
               {"100000 100000\n", 1},
               {"199999 100000\n", 1},
               {"250000 100000\n", 2},
               {"50000 100000\n", 1},
               {"1 1000000\n", 1},
               {"800000 100000\n", 8},
               {"900000 100000\n", 8},
               {"400000 200000\n", 2},
               {"", 8},
               {"garbage\n", 8},
               {"100000\n", 8},
               {"100000 0\n", 8},
               {"-5 100000\n", 8},
               {"9223372036854775808 1\n", 8},
               {"200000 100000 7\n", 8}};
  for (const auto& c : cases) {
    write("/sys/fs/cgroup/cpu.max", c.text);
    EXPECT_EQ(budget(8).n_threads, c.n_threads) << c.text;
  }
}

TEST_F(FC30, the_tightest_quota_on_the_way_to_the_root_counts) {
  cgroup_v2("/a.slice/b.service");
  write("/sys/fs/cgroup/a.slice/b.service/cpu.max", "max 100000\n");
  EXPECT_EQ(budget(8).n_threads, 8u);
  write("/sys/fs/cgroup/a.slice/cpu.max", "300000 100000\n");
  EXPECT_EQ(budget(8).n_threads, 3u);
  write("/sys/fs/cgroup/a.slice/b.service/cpu.max", "500000 100000\n");
  EXPECT_EQ(budget(8).n_threads, 3u);
  write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(budget(8).n_threads, 2u);
}

TEST_F(FC30, a_container_finds_its_quota_under_whatever_path_it_sees) {
  write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  cgroup_v2("/docker/abc", "/docker/abc");  // bind mount without a namespace of its own
  EXPECT_EQ(budget(8).n_threads, 2u);
  write("/sys/fs/cgroupc/cpu.max", "100000 100000\n");  // what is left when names are cut
  cgroup_v2("/docker/abc", "/docker/ab");               // another group's mount
  EXPECT_EQ(budget(8).n_threads, 2u);
  cgroup_v2("/docker/abc", "/");  // the outside's path, the namespace's mount
  EXPECT_EQ(budget(8).n_threads, 2u);
  cgroup_v2("/../other", "/");  // moved out of its namespace
  EXPECT_EQ(budget(8).n_threads, 2u);
  cgroup_v2("/docker/abc/inner", "/docker/abc");
  write("/sys/fs/cgroup/inner/cpu.max", "100000 100000\n");
  EXPECT_EQ(budget(8).n_threads, 1u);
}

TEST_F(FC30, version_one_quotas_count_too) {
  write("/proc/self/cgroup", "9:memory:/m\n4:cpu,cpuacct:/box\n3:cpuset:/s\n");
  write("/proc/self/mountinfo",
        "31 1 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 1 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
  const std::string folder = "/sys/fs/cgroup/cpu,cpuacct/box/";
  write(folder + "cpu.cfs_period_us", "100000\n");
  write(folder + "cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(budget(8).n_threads, 8u);
  write(folder + "cpu.cfs_quota_us", "350000\n");
  EXPECT_EQ(budget(8).n_threads, 3u);
  // The controller "cpuset" is not "cpu", whatever lies there.
  write("/sys/fs/cgroup/cpuset/s/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpuset/s/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(budget(8).n_threads, 3u);
}

TEST_F(FC30, both_versions_side_by_side_and_mount_points_with_spaces_are_read) {
  write("/proc/self/cgroup", "4:cpu:/\n0::/\n");
  write("/proc/self/mountinfo",
        "31 1 0:29 / /sys/cg\\040one rw - cgroup cgroup rw,cpu\n"
        "32 1 0:30 / /sys/cg\\040two rw - cgroup2 cgroup2 rw\n");
  write("/sys/cg one/cpu.cfs_period_us", "100000\n");
  write("/sys/cg one/cpu.cfs_quota_us", "500000\n");
  EXPECT_EQ(budget(8).n_threads, 5u);
  write("/sys/cg two/cpu.max", "400000 100000\n");
  EXPECT_EQ(budget(8).n_threads, 4u);
}

TEST_F(FC30, damaged_proc_files_limit_nothing) {
  for (const char* text : {"", "\n\n", ":", "::", "0:", "a b c d e f",
                           "30 1 0:26 / /x rw - cgroup2", "- - - - - - -", "0::\n", "0::x\n"}) {
    write("/proc/self/cgroup", text);
    write("/proc/self/mountinfo", text);
    EXPECT_EQ(budget(8).n_threads, 8u) << text;
    write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    EXPECT_EQ(budget(8).n_threads, 8u) << text;
  }
}

TEST_F(FC30, an_affinity_mask_of_one_cpu_gives_one_thread) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const CpuBudget budget = cpu_budget();
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(budget.n_allowed_cpus, 1u);
  EXPECT_EQ(budget.n_threads, 1u);
  EXPECT_EQ(cpu_budget().n_allowed_cpus, static_cast<uint32_t>(CPU_COUNT(&before)));
}

TEST_F(FC30, zero_and_negative_mean_the_budget_and_more_is_granted_with_a_warning) {
  const CpuBudget four = budget(4);
  for (const int64_t all : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    EXPECT_EQ(choose_threads(all, four).n_threads, 4u);
    EXPECT_EQ(choose_threads(all, four).warning, "");
  }
  for (const int64_t n : {1, 3, 4}) {
    EXPECT_EQ(choose_threads(n, four).n_threads, n);
    EXPECT_EQ(choose_threads(n, four).warning, "");
  }
  EXPECT_EQ(choose_threads(5, four).n_threads, 5u);
  EXPECT_NE(choose_threads(5, four).warning.find("use 0 for 4 threads"), std::string::npos);
  EXPECT_EQ(choose_threads(INT64_MAX, four).n_threads, kMaxThreads);
  EXPECT_NE(choose_threads(INT64_MAX, four).warning, "");
}

}  // namespace
}  // namespace outrider
