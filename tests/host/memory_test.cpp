#include <dirent.h>
#include <malloc.h>

#include <cstdio>

#include "fake_provider.h"
#include "hot_counter.h"

namespace outrider::test {
namespace {

// RssAnon + VmSwap of this process, kB.
int64_t anonymous_kb() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  char line[256];
  long long total = 0, kb = 0;
  while (std::fgets(line, sizeof line, file) != nullptr)
    if (std::sscanf(line, "RssAnon: %lld", &kb) == 1 || std::sscanf(line, "VmSwap: %lld", &kb) == 1)
      total += kb;
  std::fclose(file);
  return total;
}

int n_descriptors() {
  DIR* folder = opendir("/proc/self/fd");
  int n = 0;
  while (readdir(folder) != nullptr) ++n;
  closedir(folder);
  return n;
}

// One good request, one with a refused input, one that fails in its tick.
void three_requests(outrider_session* s) {
  const Inputs in;
  char storage[512];
  uint64_t written = 0;
  in.stage(s);
  outrider_tick(s);
  outrider_get_output(s, 3, storage, sizeof storage, &written);
  outrider_set_input(s, 2, "abc", 3);
  EXPECT_NE(outrider_session_error(s)[0], '\0');
  EXPECT_EQ(outrider_tick(s), -1);
  EXPECT_NE(outrider_session_error(s)[0], '\0');
}

int64_t growth_bytes_per_request(outrider_session* s) {
  constexpr int kWarmUp = 500, kRequests = 2000;
  for (int i = 0; i < kWarmUp; ++i) three_requests(s);
  const int64_t before_kb = anonymous_kb();
  for (int i = 0; i < kRequests; ++i) three_requests(s);
  return (anonymous_kb() - before_kb) * 1024 / kRequests;
}

TEST(FC32, two_thousand_requests_good_refused_and_failed_leave_memory_flat) {
  if (!hot_counter::available()) GTEST_SKIP() << "sanitizers keep freed memory";
  CSession s(fake_config({{"plan", "split"}}));
  ASSERT_EQ(s.code, 0) << s.reason;
  EXPECT_LT(growth_bytes_per_request(s), 1024 / 8)
      << "the case allows 1 kB; nothing at all is expected";
}

TEST(FC32, the_measurement_sees_a_scripted_leak) {
  if (!hot_counter::available()) GTEST_SKIP() << "sanitizers report the leak themselves";
  CSession s(fake_config({{"plan", "split"}, {"leak_bytes", "2000"}}));
  ASSERT_EQ(s.code, 0) << s.reason;
  EXPECT_GT(growth_bytes_per_request(s), 1024);
}

TEST(FC32, five_hundred_opens_good_and_failed_leave_memory_and_descriptors_flat) {
  if (!hot_counter::available()) GTEST_SKIP() << "sanitizers keep freed memory";
  const auto cycle = [] {
    CSession good(fake_config({{"require_inputs", "0"}}));
    outrider_tick(good);
    CSession refused(fake_config({{"open_code", "-2"}}));
    CSession broken(fake_config({{"fault", "plan_size"}}));
    CSession absent(fake_config(), "/nowhere/provider.so");
  };
  for (int i = 0; i < 100; ++i) cycle();
  const int64_t before_kb = anonymous_kb();
  const int descriptors = n_descriptors();
  for (int i = 0; i < 500; ++i) cycle();
  EXPECT_LT((anonymous_kb() - before_kb) * 1024 / 500, 1024);
  EXPECT_EQ(n_descriptors(), descriptors);
}

}  // namespace
}  // namespace outrider::test
