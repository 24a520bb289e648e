#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/thread_pool.h"
#include "reference.h"
#include "support/emulated.h"

namespace outrider::test {
namespace {

TEST(ThreadPool, runs_every_part_once_for_every_job) {
  for (int n : {1, 2, 3, 8}) {
    auto pool = ThreadPool::create(n);
    ASSERT_TRUE(pool);
    std::vector<int> count(static_cast<size_t>(n));
    for (int job = 0; job < 300; ++job)
      pool.value()->run([&](int t) { ++count[static_cast<size_t>(t)]; });
    for (int c : count) EXPECT_EQ(c, 300);
  }
}

TEST(ThreadPool, wakes_threads_that_went_to_sleep) {
  auto pool = ThreadPool::create(3);
  std::atomic<int> parts{0};
  for (int job = 0; job < 5; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pool.value()->run([&](int) { ++parts; });
  }
  EXPECT_EQ(parts, 15);
}

TEST(ThreadPool, waits_for_a_part_that_takes_long) {
  auto pool = ThreadPool::create(2);
  for (int slow = 0; slow < 2; ++slow) {
    std::atomic<bool> done{false};
    pool.value()->run([&](int t) {
      if (t == slow) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        done = true;
      }
    });
    EXPECT_TRUE(done);
  }
}

TEST(ThreadPool, second_half_sees_all_of_the_first) {
  for (int n : {1, 2, 3, 8}) {
    auto pool = ThreadPool::create(n);
    ASSERT_TRUE(pool);
    std::vector<int> first(static_cast<size_t>(n)), second(static_cast<size_t>(n));
    const int n_jobs = 200;
    for (int job = 1; job <= n_jobs; ++job) {
      pool.value()->run_in_two([&](int t) { first[static_cast<size_t>(t)] = job; },
                               [&](int t) {
                                 bool all = true;
                                 for (int value : first) all = all && value == job;
                                 second[static_cast<size_t>(t)] += all;
                               });
    }
    for (int seen : second) EXPECT_EQ(seen, n_jobs) << n << " threads";
  }
}

TEST(ThreadPool, second_half_waits_for_a_first_one_that_takes_long) {
  auto pool = ThreadPool::create(3);
  for (int slow = 0; slow < 3; ++slow) {
    std::atomic<bool> done{false};
    std::atomic<int> early{0};
    pool.value()->run_in_two(
        [&](int t) {
          if (t != slow) return;
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          done = true;
        },
        [&](int) { early += !done; });
    EXPECT_EQ(early, 0);
  }
}

TEST(ThreadPool, both_halves_run_in_a_forked_child) {
  if (!test::can_start_itself()) GTEST_SKIP() << "forks of several threads hang in an emulator";
  auto pool = ThreadPool::create(3);
  ASSERT_TRUE(pool);
  const pid_t child = fork();
  if (child == 0) {
    int first = 0, second = 0;
    pool.value()->run_in_two([&](int) { ++first; }, [&](int) { second += first == 3; });
    _exit(second == 3 ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ThreadPool, refuses_a_priority_that_is_not_permitted_in_words) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow threads made after a fork";
#endif
  if (!test::can_start_itself()) GTEST_SKIP() << "forks of several threads hang in an emulator";
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none = {};
    if (setrlimit(RLIMIT_RTPRIO, &none) != 0) _exit(2);
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(3);
    const auto refused = ThreadPool::create(2, {.rt_priority = 10});
    if (refused || refused.code() != Code::kDevice) _exit(4);
    const std::string_view text = refused.error().message();
    if (text.find("rt_priority 10 was refused (EPERM)") == text.npos) _exit(5);
    _exit(ThreadPool::create(2, {.pin = true}) ? 0 : 6);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ThreadPool, ends_cleanly_with_and_without_work) {
  for (int i = 0; i < 50; ++i) {
    auto pool = ThreadPool::create(4);
    if (i % 2) pool.value()->run([](int) {});
  }
}

TEST(ThreadPool, parts_cover_everything_once) {
  for (int64_t n : {0, 1, 5, 64})
    for (int n_threads : {1, 2, 3, 7}) {
      int64_t next = 0;
      for (int t = 0; t < n_threads; ++t) {
        EXPECT_EQ(part_of(n, t, n_threads).first, next);
        next = part_of(n, t, n_threads).last;
      }
      EXPECT_EQ(next, n);
    }
}

TEST(CpuOps, can_be_forced_to_every_table_of_this_cpu) {
  for (const std::string& name : table_names()) {
    auto ops = make_cpu_ops({.n_threads = 1, .kernel_table = name.c_str()});
    ASSERT_TRUE(ops) << name;
    EXPECT_STREQ(ops.value()->kernel_table(), name.c_str());
  }
  EXPECT_STREQ(make_cpu_ops({}).value()->kernel_table(), table_names()[0].c_str());
}

TEST(CpuOps, has_the_int8_dot_instruction_without_avx512_where_the_cpu_has_it) {
  const std::string features = std::string(" ") + cpu_features() + " ";
  const bool any = features.find(" avx_vnni ") != std::string::npos ||
                   features.find(" avx512_vnni ") != std::string::npos;
  if (!any) GTEST_SKIP() << "this CPU has neither AVX-VNNI nor AVX-512 VNNI";
  const auto table = find_kernel_table("avx2_vnni");
  ASSERT_TRUE(table);
  EXPECT_EQ(table.value()->int8_shift, 128);
  EXPECT_NE(table.value()->tile[kTileInt8][0][0], kScalarTable.tile[kTileInt8][0][0]);
  EXPECT_NE(table.value()->peak_int8.run, nullptr);
}

TEST(CpuOps, refuses_a_table_it_does_not_have_and_names_those_it_has) {
  const auto ops = make_cpu_ops({.n_threads = 1, .kernel_table = "avx9000"});
  ASSERT_EQ(ops.code(), Code::kUnsupported);
  EXPECT_NE(ops.error().message().find("avx9000"), std::string_view::npos);
  for (const std::string& name : table_names())
    EXPECT_NE(ops.error().message().find(name), std::string_view::npos);
}

TEST(CpuOps, takes_the_threads_it_is_given_and_all_allowed_ones_for_none) {
  EXPECT_EQ(make_cpu_ops({.n_threads = 3}).value()->n_threads(), 3);
  const int all = make_cpu_ops({.n_threads = 0}).value()->n_threads();
  EXPECT_GE(all, 1);
  EXPECT_EQ(make_cpu_ops({.n_threads = -5}).value()->n_threads(), all);
  EXPECT_EQ(make_cpu_ops({.n_threads = 100000}).code(), Code::kInvalid);
}

// Two sessions of one model: each its own Ops, one packed weight.
TEST(CpuOps, two_of_them_use_one_packed_weight_at_the_same_time) {
  const auto a = make_ops("", 2), b = make_ops("", 2);
  const StoredMatrix w(DType::kBf16, 96, 128, 1);
  const PackedWeight packed(*a, {w.matrix}, Stack::kRows, Precision::kBf16);
  const auto x = random_values(50 * 128, 2);
  std::vector<float> expected(50 * 96);
  a->linear({x.data(), 50, 128}, packed.weight, {.y = {expected.data(), 50, 96}});
  const auto loop = [&](Ops& ops, int* wrong) {
    std::vector<float> y(expected.size());
    for (int i = 0; i < 100; ++i) {
      ops.linear({x.data(), 50, 128}, packed.weight, {.y = {y.data(), 50, 96}});
      *wrong += y != expected;
    }
  };
  int wrong_a = 0, wrong_b = 0;
  std::thread other([&] { loop(*b, &wrong_b); });
  loop(*a, &wrong_a);
  other.join();
  EXPECT_EQ(wrong_a + wrong_b, 0);
}

}  // namespace
}  // namespace outrider::test
