// A link at 200 Hz between two processes: nothing is lost, nothing is answered wrongly, and neither
// process grows. OUTRIDER_SOAK_SECONDS sets for how long (1 if not given); ten minutes are
//
//   OUTRIDER_SOAK_SECONDS=600 build/release/bin/test_link_faults --gtest_filter='Soak.*'
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "link/faults/drive.h"
#include "link/serve_process.h"
#include "support/temp_dir.h"

namespace outrider::link::faults {
namespace {

constexpr int kHz = 200;

TEST(Soak, at_200_hz_no_tick_is_lost_and_both_processes_stay_as_they_are) {
  const char* wanted = std::getenv("OUTRIDER_SOAK_SECONDS");
  const int seconds = wanted != nullptr ? std::max(1, std::atoi(wanted)) : 1;
  const std::string config = test::temp_file("soak.json");
  std::ofstream(config) << fake_config(64);
  const here::ServeProcess host(
      {config, "--provider", provider("fake"), "--listen", "tcp://127.0.0.1:0"});
  ASSERT_TRUE(host.is_there()) << host.line();
  // A machine that is busy with other things may hold a tick up; it may not lose one.
  Drive drive(host.endpoint(), {.deadline_ms = 2000});
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  ASSERT_EQ(drive.ticks(2 * kHz), 2 * kHz) << drive.last_error();  // arenas and stacks are taken
  const Held device_base = held_by(0), host_base = held_by(host.pid());
  const int n = seconds * kHz;
  const int64_t begin = clock_here().now_ns();
  EXPECT_EQ(drive.ticks(n, kSecond / kHz), n) << drive.last_error();
  const double took_s = static_cast<double>(clock_here().now_ns() - begin) / 1e9;
  const Held device_now = held_by(0), host_now = held_by(host.pid());
  for (const char* zero : {"reconnects", "late_answers", "stale_answers", "failed_runs",
                           "corrupted_messages", "resyncs", "copied_input_bytes"})
    EXPECT_EQ(drive.count(zero), 0) << zero;
  EXPECT_LE(device_now.n_files, device_base.n_files);
  EXPECT_LE(host_now.n_files, host_base.n_files);
  EXPECT_LE(device_now.n_threads, device_base.n_threads);
  EXPECT_LE(host_now.n_threads, host_base.n_threads);
  // Far less than a byte a tick over ten minutes; a page or two come and go with the system.
  const int64_t more_kb = std::min<int64_t>(kSlackKb, 256);
  if (kSlackKb <= 1024) {
    EXPECT_LE(device_now.anonymous_kb, device_base.anonymous_kb + more_kb);
    EXPECT_LE(host_now.anonymous_kb, host_base.anonymous_kb + more_kb);
  }
  std::printf(
      "%d ticks in %.1f s, %d answered, longest verb %.2f ms; memory of the device %+lld KB of "
      "%lld, of the host %+lld KB of %lld\n",
      n, took_s, drive.n_answered() - 2 * kHz, static_cast<double>(drive.worst_verb_ns()) / 1e6,
      static_cast<long long>(device_now.anonymous_kb - device_base.anonymous_kb),
      static_cast<long long>(device_base.anonymous_kb),
      static_cast<long long>(host_now.anonymous_kb - host_base.anonymous_kb),
      static_cast<long long>(host_base.anonymous_kb));
}

}  // namespace
}  // namespace outrider::link::faults
