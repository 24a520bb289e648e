// Faults between real processes: `outrider serve` is killed, stopped and lied to; what both
// processes hold afterwards is what they held before.
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "link/faults/drive.h"
#include "link/faults/fault_proxy.h"
#include "link/serve_process.h"
#include "support/temp_dir.h"

namespace outrider::link::faults {
namespace {

// outrider serve with the scripted provider.
struct HostProcess : here::ServeProcess {
  explicit HostProcess(uint16_t port = 0, int64_t clock_ahead_s = 0)
      : ServeProcess({config_file(), "--provider", provider("fake"), "--listen",
                      "tcp://127.0.0.1:" + std::to_string(port)},
                     clock_ahead_s) {}
  static std::string config_file() {
    const std::string path = test::temp_file("fake.json");
    std::ofstream(path) << fake_config(64);
    return path;
  }
};

void wait_ms(int n) {
  std::this_thread::sleep_for(std::chrono::milliseconds(n));
}

TEST(Processes, FC36_a_host_that_is_killed_at_any_moment_is_found_again) {
  auto host = std::make_unique<HostProcess>();
  ASSERT_TRUE(host->is_there());
  const uint16_t port = host->port();
  Drive drive("tcp://127.0.0.1:" + std::to_string(port));
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(drive.recovers(6 * kSecond)) << drive.last_error();
    std::thread killer([&] {
      wait_ms(5 + 3 * i);
      host->end(SIGKILL);
    });
    EXPECT_TRUE(drive.fails(3 * kSecond));
    killer.join();
    EXPECT_NE(drive.last_error().find("host gone"), std::string::npos) << drive.last_error();
    host = std::make_unique<HostProcess>(port);
    ASSERT_TRUE(host->is_there());
    EXPECT_TRUE(drive.recovers(6 * kSecond)) << drive.last_error();
  }
}

// A stopped process keeps its sockets: the system answers for it, nobody else does.
TEST(Processes, a_host_that_hangs_costs_the_deadline_and_its_late_answers_are_dropped) {
  HostProcess host;
  ASSERT_TRUE(host.is_there());
  Drive drive("tcp://127.0.0.1:" + std::to_string(host.port()));
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  for (const int stopped_ms : {300, 2500}) {
    ASSERT_TRUE(drive.recovers(6 * kSecond)) << drive.last_error();
    host.stop();
    std::thread wake([&] {
      wait_ms(stopped_ms);
      host.say(SIGCONT);
    });
    EXPECT_FALSE(drive.tick());
    EXPECT_NE(drive.last_error().find("deadline"), std::string::npos) << drive.last_error();
    drive.ticks(stopped_ms / 50, 50 * kMs);
    wake.join();
    EXPECT_TRUE(drive.recovers(6 * kSecond)) << drive.last_error();
  }
  EXPECT_GE(drive.count("late_answers"), 2);
}

// The host's clock is another one, and steps by days at each start.
TEST(Processes, a_clock_that_steps_moves_the_estimate_and_no_deadline) {
  auto host = std::make_unique<HostProcess>(0, 86'400);
  if (!host->is_there()) GTEST_SKIP() << "no time namespaces here";
  const uint16_t port = host->port();
  Drive drive("tcp://127.0.0.1:" + std::to_string(port));
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  for (const int64_t ahead_s : {86'400, 864'000, 3'600}) {
    if (ahead_s != 86'400) {
      host->end(SIGKILL);
      host = std::make_unique<HostProcess>(port, ahead_s);
      ASSERT_TRUE(host->is_there());
    }
    ASSERT_TRUE(drive.recovers(6 * kSecond)) << drive.last_error();
    EXPECT_EQ(drive.ticks(5), 5) << drive.last_error();
    const int64_t off = drive.count("clock_offset_ns") - ahead_s * kSecond;
    EXPECT_LE(std::abs(off), drive.count("clock_bound_ns")) << ahead_s;
    EXPECT_LE(drive.count("ns_back"), kSecond);
    EXPECT_LE(drive.count("ns_forth"), kSecond);
  }
}

// ---- baselines ---------------------------------------------------------------------------------

// Every kind of end of a connection once; the device lives through all of them.
void all_faults(FaultProxy& proxy, Drive& drive) {
  for (const Then then : {Then::kReset, Then::kClose, Then::kFlip, Then::kRepeat, Then::kSkip,
                          Then::kHalfOpen, Then::kSilence})
    for (const bool forth : {true, false}) {
      Rules rules;
      (forth ? rules.forth : rules.back) = {.at = forth ? 9000u : 400u, .then = then, .n = 100};
      proxy.now(rules);
      drive.ticks(3);
      proxy.now({});
      ASSERT_TRUE(drive.recovers(6 * kSecond)) << drive.last_error();
    }
}

TEST(Processes, both_ends_are_back_at_their_baseline_after_every_fault) {
  HostProcess host;
  ASSERT_TRUE(host.is_there());
  FaultProxy proxy(host.port());
  Drive drive(proxy.endpoint());
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  for (int round = 0; round < 2; ++round) all_faults(proxy, drive);  // arenas and stacks are taken
  constexpr int64_t kHostForgets = 14 * kSecond;  // what it does not hear of for 10 s
  wait_ms(300);
  const Held host_base = held_by(host.pid()), here_base = held_by(0);
  const int reconnects = static_cast<int>(drive.count("reconnects"));
  for (int round = 0; round < 3; ++round) all_faults(proxy, drive);
  EXPECT_GE(drive.count("reconnects") - reconnects, 12);
  const Held host_now = settle(host.pid(), host_base, 1024, kHostForgets);
  const Held here_now = settle(0, here_base, 1024, kSecond);
  EXPECT_LE(host_now.n_files, host_base.n_files);
  EXPECT_LE(host_now.n_threads, host_base.n_threads);
  EXPECT_LE(host_now.anonymous_kb, host_base.anonymous_kb + kSlackKb);
  EXPECT_LE(here_now.n_files, here_base.n_files);
  EXPECT_LE(here_now.n_threads, here_base.n_threads);
  EXPECT_LE(here_now.anonymous_kb, here_base.anonymous_kb + kSlackKb);
}

TEST(Processes, devices_that_come_and_go_leave_nothing_at_the_host) {
  HostProcess host;
  ASSERT_TRUE(host.is_there());
  FaultProxy proxy(host.port());
  const auto come_and_go = [&](int i) {
    Rules rules;
    rules.forth = {.at = 300u + static_cast<uint64_t>(i) * 977 % 20000, .then = Then::kReset};
    if (i % 3 == 0) proxy.next(rules);
    Drive drive(proxy.endpoint(), {.connect_ms = 500});
    if (drive.is_open()) drive.ticks(2);
  };
  const Held empty = held_by(host.pid());
  for (int i = 0; i < 30; ++i) come_and_go(i);
  const Held base = settle(host.pid(), empty, 1 << 20, 5 * kSecond);
  EXPECT_EQ(base.n_files, empty.n_files);
  EXPECT_EQ(base.n_threads, empty.n_threads);
  for (int i = 0; i < 120; ++i) come_and_go(i);
  const Held now = settle(host.pid(), base, 1024, 5 * kSecond);
  EXPECT_EQ(now.n_files, empty.n_files);
  EXPECT_EQ(now.n_threads, empty.n_threads);
  EXPECT_LE(now.anonymous_kb, base.anonymous_kb + kSlackKb);
}

}  // namespace
}  // namespace outrider::link::faults
