// Faults of a network on real TCP stacks: device and host in network namespaces of their own, a
// cable of packets between them. Skipped, with the reason, where namespaces are not permitted.
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "link/faults/drive.h"
#include "link/faults/packet_cable.h"
#include "link/secure/secure.h"
#include "support/temp_dir.h"

namespace outrider::link::faults {
namespace {

struct Network : ::testing::Test {
  std::unique_ptr<PacketCable> cable;
  std::unique_ptr<Host> host;
  std::unique_ptr<Drive> drive;

  void SetUp() override {
    std::string why_not;
    cable = PacketCable::make(why_not, 7);
    if (cable == nullptr) GTEST_SKIP() << "no network namespaces here (" << why_not << ")";
  }
  void TearDown() override {
    if (cable == nullptr) return;
    cable->set({});
    drive.reset();
    host.reset();
  }
  void serve(ServerOptions options = {}) {
    if (!options.secure) options.plaintext = true;
    cable->at_host([&] {
      host = std::make_unique<Host>(fake_config(64), std::string("tcp://") + kCableHost + ":0",
                                    options);
    });
  }
  void open(const DriveOptions& options = {}) {
    cable->at_device([&] { drive = std::make_unique<Drive>(host->endpoint, options); });
    ASSERT_TRUE(drive->is_open()) << drive->open_error();
  }
  void expect_no_run_twice() {
    const ServerCounters& c = host->counters();
    EXPECT_LE(c.runs + c.failed_runs, drive->n_ticks());
    EXPECT_GE(c.runs, drive->n_answered());
  }
};

TEST_F(Network, loss_doubles_and_reordering_of_packets_lose_and_double_no_answer) {
  serve();
  open({.deadline_ms = 400});
  cable->set({.delay_ns = kMs, .jitter_ns = 3 * kMs, .loss = 0.02, .doubled = 0.05});
  const int n = 60;
  const int answered = drive->ticks(n);
  // A lost packet costs TCP a repetition of 200 ms or more now and then; most ticks fit.
  EXPECT_GE(answered, n / 2) << drive->last_error();
  EXPECT_GE(cable->n_lost(), 5u);
  EXPECT_EQ(drive->count("corrupted_messages") + drive->count("resyncs"), 0);
  cable->set({});
  EXPECT_TRUE(drive->recovers(5 * kSecond)) << drive->last_error();
  expect_no_run_twice();
}

TEST_F(Network, heavy_loss_ends_in_late_answers_and_heals) {
  serve();
  open();
  cable->set({.loss = 0.3});
  drive->ticks(12);
  EXPECT_GE(drive->count("late_answers") + drive->count("lost_deadline"), 1);
  cable->set({});
  EXPECT_TRUE(drive->recovers(6 * kSecond)) << drive->last_error();
  expect_no_run_twice();
}

TEST_F(Network, delay_of_a_far_network_is_measured_and_survived) {
  serve();
  cable->set({.delay_ns = 15 * kMs});
  open();
  EXPECT_EQ(drive->ticks(15), 15) << drive->last_error();
  EXPECT_GE(drive->count("round_trip_ns"), 30 * kMs);
  EXPECT_LE(std::abs(drive->count("clock_offset_ns")), drive->count("clock_bound_ns"));
}

TEST_F(Network, a_rate_limit_slows_down_and_breaks_nothing) {
  serve();
  open({.deadline_ms = 400});
  cable->set({.bytes_per_s = 500'000});  // 24 KB a tick: 50 ms
  EXPECT_GE(drive->ticks(10), 8) << drive->last_error();
  cable->set({.bytes_per_s = 30'000});  // 800 ms, twice the deadline
  drive->ticks(5);
  EXPECT_GE(drive->count("late_answers"), 1);
  cable->set({});
  EXPECT_TRUE(drive->recovers(5 * kSecond)) << drive->last_error();
  expect_no_run_twice();
}

TEST_F(Network, a_cut_either_way_is_told_by_the_deadline_and_healed) {
  serve();
  open();
  const PacketRules whole, cut = {.cut = true};
  for (int way = 0; way < 3; ++way) {
    ASSERT_TRUE(drive->recovers(6 * kSecond)) << drive->last_error();
    cable->set(way == 1 ? whole : cut, way == 0 ? whole : cut);
    EXPECT_FALSE(drive->tick()) << "way " << way;
    EXPECT_NE(drive->last_error().find("deadline"), std::string::npos) << drive->last_error();
    const int64_t end = clock_here().now_ns() + 4 * kSecond;
    while (drive->count("lost_deadline") <= way && clock_here().now_ns() < end) drive->tick();
    EXPECT_EQ(drive->count("lost_deadline"), way + 1)
        << "a device that asks all the time finds out";
    cable->set({});
    EXPECT_TRUE(drive->recovers(6 * kSecond)) << drive->last_error();
  }
  expect_no_run_twice();
}

TEST_F(Network, a_pulled_interface_is_told_as_a_gone_cable) {
  serve();
  open();
  ASSERT_EQ(drive->ticks(3), 3);
  cable->pull(true);
  const int64_t begin = clock_here().now_ns();
  bool named = false;
  while (!named && clock_here().now_ns() - begin < 5 * kSecond) {
    EXPECT_FALSE(drive->tick());
    named = drive->last_error().find("cable gone") != std::string::npos;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(named) << drive->last_error();
  cable->pull(false);
  EXPECT_TRUE(drive->recovers(6 * kSecond)) << drive->last_error();
}

// TCP's checksum is a sum: two words that changed places pass it. Ours does not let them.
TEST_F(Network, damage_that_the_checksum_of_tcp_does_not_see_is_found_and_never_delivered) {
  serve();
  open();
  cable->set({.swapped = 0.02});
  drive->ticks(150);
  EXPECT_GE(cable->n_swapped(), 20u);
  cable->set({});
  EXPECT_TRUE(drive->recovers(6 * kSecond)) << drive->last_error();
  EXPECT_GE(host->counters().corrupted + drive->count("corrupted_messages") +
                drive->count("resyncs") + host->counters().protocol_errors,
            5);
  EXPECT_GE(drive->n_answered(), 30);
  expect_no_run_twice();
}

TEST_F(Network, an_encrypted_link_survives_the_same_network) {
  const std::string path = test::temp_file("network.key");
  std::ofstream(path) << "link" << std::string(32, 'k');
  ::chmod(path.c_str(), 0600);
  const auto key = read_key_file(path);
  ASSERT_TRUE(key) << key.error().text;
  ServerOptions options;
  options.secure = [key = key.value()](std::unique_ptr<Transport> plain, int64_t deadline_ns) {
    return secure_as_host(std::move(plain), key, deadline_ns);
  };
  serve(options);
  open({.deadline_ms = 400, .more = ",\"key_file\":\"" + path + "\""});
  cable->set({.delay_ns = kMs, .jitter_ns = 2 * kMs, .loss = 0.02, .doubled = 0.05});
  EXPECT_GE(drive->ticks(40), 15) << drive->last_error();
  // What was changed on the way ends the stream: nothing of it is used, a new one is made.
  cable->set({.swapped = 0.02});
  drive->ticks(40, 20 * kMs);
  cable->set({});
  EXPECT_TRUE(drive->recovers(6 * kSecond)) << drive->last_error();
  EXPECT_GE(drive->count("reconnects"), 1);
  expect_no_run_twice();
}

}  // namespace
}  // namespace outrider::link::faults
