// Faults of the cable on real sockets: a proxy between provider_link.so and a server.
#include "link/faults/drive.h"
#include "link/faults/fault_proxy.h"

namespace outrider::link::faults {
namespace {

struct FaultyCable : ::testing::Test {
  Host host{fake_config(64)};
  FaultProxy proxy{host.port()};

  // A run is never executed twice: the host ran at most what was asked for.
  void expect_no_run_twice(const Drive& drive) {
    const ServerCounters& c = host.counters();
    EXPECT_LE(c.runs + c.failed_runs, drive.n_ticks());
    EXPECT_GE(c.runs, drive.n_answered());
  }
};

TEST_F(FaultyCable, delay_and_jitter_cost_time_and_nothing_else) {
  proxy.now({.forth = {.delay_ns = 8 * kMs, .jitter_ns = 10 * kMs},
             .back = {.delay_ns = 8 * kMs, .jitter_ns = 10 * kMs}});
  Drive drive(proxy.endpoint());
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  EXPECT_EQ(drive.ticks(30), 30) << drive.last_error();
  EXPECT_GE(drive.count("ns_total"), 16 * kMs);
  EXPECT_GE(drive.count("round_trip_ns"), 16 * kMs);
  // Both clocks are one here: the estimate must be within its own bound.
  EXPECT_LE(std::abs(drive.count("clock_offset_ns")), drive.count("clock_bound_ns"));
  EXPECT_EQ(drive.count("connects"), 1);
  expect_no_run_twice(drive);
}

TEST_F(FaultyCable, a_slow_cable_makes_late_answers_and_heals) {
  Drive drive(proxy.endpoint());
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  ASSERT_EQ(drive.ticks(5), 5);
  // 24 KB of pictures at 400 KB/s: 60 ms a tick. At 40 KB/s: 600 ms, three times the deadline.
  proxy.now({.forth = {.bytes_per_s = 400'000}});
  EXPECT_GE(drive.ticks(8), 7) << drive.last_error();
  proxy.now({.forth = {.bytes_per_s = 40'000}});
  drive.ticks(12);
  EXPECT_NE(drive.last_error().find("link: "), std::string::npos) << drive.last_error();
  EXPECT_GE(drive.count("late_answers"), 1);
  proxy.now({});
  EXPECT_TRUE(drive.recovers(3 * kSecond)) << drive.last_error();
  expect_no_run_twice(drive);
}

// Two pictures of 3 MB at 3 MB/s: 2 s, longer than a host may be silent.
TEST_F(FaultyCable, a_frame_of_megabytes_is_waited_for_while_its_bytes_come) {
  Host large{fake_config(1024)};
  FaultProxy cable{large.port()};
  Drive drive(cable.endpoint(), {.side = 1024, .deadline_ms = 10'000});
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  ASSERT_EQ(drive.ticks(2), 2) << drive.last_error();
  cable.now({.forth = {.bytes_per_s = 3'000'000}});
  const int64_t begin = clock_here().now_ns();
  EXPECT_EQ(drive.ticks(1), 1) << drive.last_error();
  EXPECT_GE(clock_here().now_ns() - begin, kSecond);
  EXPECT_EQ(drive.count("connects"), 1);
  EXPECT_EQ(drive.count("lost_deadline"), 0);
}

// With a deadline it cannot keep every tick fails in time, and the link is not taken for lost.
TEST_F(FaultyCable, a_frame_of_megabytes_that_is_late_does_not_cost_the_link) {
  Host large{fake_config(1024)};
  FaultProxy cable{large.port()};
  Drive drive(cable.endpoint(), {.side = 1024});
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  ASSERT_TRUE(drive.recovers(5 * kSecond)) << drive.last_error();
  cable.now({.forth = {.bytes_per_s = 1'500'000}});  // 4 s a frame
  const int64_t end = clock_here().now_ns() + 4 * kSecond;
  while (clock_here().now_ns() < end) drive.tick();
  EXPECT_GE(drive.count("late_answers"), 3);
  EXPECT_EQ(drive.count("lost_deadline"), 0) << drive.last_error();
  EXPECT_EQ(drive.count("connects"), 1);
  cable.now({});
  EXPECT_TRUE(drive.recovers(5 * kSecond)) << drive.last_error();
}

// FC-36: the connection ends at any byte, either way, in order or not.
TEST_F(FaultyCable, FC36_a_cut_at_any_byte_of_a_tick_is_told_in_time_and_healed) {
  Drive drive(proxy.endpoint());
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  ASSERT_EQ(drive.ticks(3), 3);
  wire::Draw draw(36);
  for (int i = 0; i < 48; ++i) {
    const bool forth = i % 3 != 0;
    const uint64_t span = forth ? 25'000 : 7'000;  // of one tick
    Rules rules;
    (forth ? rules.forth : rules.back) = {.at = i < 8 ? static_cast<uint64_t>(i) : draw.below(span),
                                          .then = i % 2 == 0 ? Then::kReset : Then::kClose};
    SCOPED_TRACE("cut " + std::to_string(i) + " at byte " +
                 std::to_string((forth ? rules.forth : rules.back).at));
    const uint64_t before = proxy.n_events();
    proxy.now(rules);
    EXPECT_TRUE(drive.fails(kSecond));
    EXPECT_EQ(proxy.n_events(), before + 1);
    EXPECT_NE(drive.last_error().find("host gone"), std::string::npos) << drive.last_error();
    proxy.now({});
    ASSERT_TRUE(drive.recovers(4 * kSecond)) << drive.last_error();
  }
  EXPECT_EQ(drive.count("lost_host"), 48);
  EXPECT_EQ(drive.count("reconnects"), 48);
  expect_no_run_twice(drive);
}

// FC-37: cuts and silence while the link is made: open ends within connect_ms with a reason.
TEST_F(FaultyCable, FC37_a_cut_at_any_byte_of_the_opening_is_told_in_time) {
  wire::Draw draw(37);
  for (int i = 0; i < 40; ++i) {
    const bool forth = i % 2 == 0;
    const Then kinds[] = {Then::kReset, Then::kClose,   Then::kReset,
                          Then::kClose, Then::kSilence, Then::kHalfOpen};
    const Then then = kinds[draw.below(i % 5 == 0 ? 6 : 4)];
    const uint64_t at = draw.below(forth ? 330 : 1200);
    Rules rules;
    (forth ? rules.forth : rules.back) = {.at = at, .then = then};
    SCOPED_TRACE("opening " + std::to_string(i) + " ends at byte " + std::to_string(at));
    proxy.next(rules);
    Drive drive(proxy.endpoint(), {.connect_ms = 300});
    if (!drive.is_open()) {
      EXPECT_NE(drive.open_error().find("link: "), std::string::npos) << drive.open_error();
      ASSERT_TRUE(drive.open()) << drive.open_error();
    }
    EXPECT_TRUE(drive.recovers(4 * kSecond)) << drive.last_error();
  }
}

// A peer that says a byte a second is alive, and still does not answer.
TEST_F(FaultyCable, FC37_a_byte_a_second_is_no_answer) {
  const Rules slow = {.back = {.bytes_per_s = 1}};
  proxy.next(slow);
  Drive opening(proxy.endpoint(), {.connect_ms = 300});
  EXPECT_FALSE(opening.is_open());
  EXPECT_NE(opening.open_error().find("deadline"), std::string::npos) << opening.open_error();
  Drive drive(proxy.endpoint());
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  ASSERT_EQ(drive.ticks(3), 3);
  proxy.now(slow);
  EXPECT_TRUE(drive.fails(kSecond));
  EXPECT_NE(drive.last_error().find("deadline"), std::string::npos) << drive.last_error();
  proxy.now({});
  EXPECT_TRUE(drive.recovers(5 * kSecond)) << drive.last_error();
}

TEST_F(FaultyCable, a_silent_peer_costs_the_deadline_and_is_left_within_two_seconds) {
  for (const bool forth : {true, false}) {
    Drive drive(proxy.endpoint());
    ASSERT_TRUE(drive.is_open()) << drive.open_error();
    ASSERT_EQ(drive.ticks(3), 3);
    Rules rules;
    (forth ? rules.forth : rules.back) = {.at = 0, .then = Then::kSilence};
    proxy.now(rules);
    test::OwnTime own;
    EXPECT_FALSE(drive.tick());
    EXPECT_NE(drive.last_error().find("deadline"), std::string::npos) << drive.last_error();
    // It looks for another connection by itself, which meets no rule.
    proxy.next({});
    while (drive.count("lost_deadline") == 0 && own.ns() < 5 * kSecond)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_LT(own.ns(), 3 * kSecond);
    EXPECT_TRUE(drive.recovers(4 * kSecond)) << drive.last_error();
    proxy.now({});
  }
}

TEST_F(FaultyCable, a_device_that_asks_all_the_time_finds_out_that_nobody_answers) {
  Drive drive(proxy.endpoint());
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  ASSERT_EQ(drive.ticks(3), 3);
  proxy.now({.back = {.at = 0, .then = Then::kSilence}});
  test::OwnTime own;
  while (drive.count("lost_deadline") == 0 && own.ns() < 5 * kSecond) EXPECT_FALSE(drive.tick());
  EXPECT_LT(own.ns(), 2500 * kMs);
  proxy.now({});
  EXPECT_TRUE(drive.recovers(4 * kSecond)) << drive.last_error();
}

TEST_F(FaultyCable, a_half_open_connection_is_left_and_the_runtime_comes_back_at_once) {
  for (const bool forth : {true, false}) {
    ServerOptions one;
    one.models.max_instances = 1;
    Host single(fake_config(64), "tcp://127.0.0.1:0", one);
    FaultProxy cable(single.port());
    Drive drive(cable.endpoint());
    ASSERT_TRUE(drive.is_open()) << drive.open_error();
    ASSERT_EQ(drive.ticks(3), 3);
    Rules rules;
    (forth ? rules.forth : rules.back) = {.at = 10, .then = Then::kHalfOpen};
    cable.now(rules);
    EXPECT_TRUE(drive.fails(2 * kSecond));
    cable.next({});
    // The old connection may still own the only runtime there: its owner takes it back.
    EXPECT_TRUE(drive.recovers(5 * kSecond)) << drive.last_error();
  }
}

TEST_F(FaultyCable, corrupted_bytes_are_found_and_never_delivered) {
  Drive drive(proxy.endpoint());
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  ASSERT_EQ(drive.ticks(3), 3);
  wire::Draw draw(1);
  for (int i = 0; i < 120; ++i) {
    const bool forth = draw.below(3) != 0;
    Rules rules;
    Lane& lane = forth ? rules.forth : rules.back;
    lane = {.at = draw.below(forth ? 25'000 : 7'000), .then = Then::kFlip};
    if (i % 4 == 3)
      lane.then = i % 8 == 3 ? Then::kRepeat : Then::kSkip, lane.n = 1 + draw.below(300);
    proxy.now(rules);
    drive.ticks(2);
  }
  proxy.now({});
  EXPECT_TRUE(drive.recovers(5 * kSecond)) << drive.last_error();
  EXPECT_GE(proxy.n_events(), 100u);
  EXPECT_GE(host.counters().corrupted + drive.count("corrupted_messages") + drive.count("resyncs"),
            20);
  EXPECT_GE(drive.n_answered(), 60) << "damage ends a tick, not the link";
  expect_no_run_twice(drive);
}

TEST_F(FaultyCable, a_device_that_does_not_read_is_dropped_and_disturbs_nobody) {
  Drive slow(proxy.endpoint()), other(host.endpoint);
  ASSERT_TRUE(slow.is_open() && other.is_open());
  ASSERT_EQ(slow.ticks(3), 3);
  proxy.now({.back = {.at = 0, .then = Then::kStall}});
  // Its runs go on until the host's buffers are full; nobody else waits for it.
  const int64_t end = clock_here().now_ns() + 3 * kSecond;
  int n = 0, answered = 0;
  while (clock_here().now_ns() < end) {
    slow.tick();
    answered += other.tick() ? 1 : 0, ++n;
  }
  EXPECT_EQ(answered, n) << other.last_error();
  EXPECT_EQ(other.count("connects"), 1);
  proxy.now({});
  EXPECT_TRUE(slow.recovers(5 * kSecond)) << slow.last_error();
}

TEST_F(FaultyCable, a_device_that_reads_slowly_gets_right_answers_late_or_not_at_all) {
  Drive drive(proxy.endpoint());
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  proxy.now({.back = {.bytes_per_s = 30'000}});  // an answer has 6.6 KB: 220 ms
  drive.ticks(8);
  EXPECT_GE(drive.count("late_answers"), 1);
  proxy.now({});
  EXPECT_TRUE(drive.recovers(4 * kSecond)) << drive.last_error();
  expect_no_run_twice(drive);
}

TEST_F(FaultyCable, a_host_that_is_replaced_is_found_again) {
  Drive drive(proxy.endpoint());
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  ASSERT_EQ(drive.ticks(3), 3);
  for (int i = 0; i < 3; ++i) {
    host.server.reset();
    EXPECT_TRUE(drive.fails(kSecond));
    host = Host(fake_config(64));
    proxy.lead_to(host.port());
    EXPECT_TRUE(drive.recovers(5 * kSecond)) << drive.last_error();
  }
  // Another model under the same name is not taken for the old one.
  host = Host(fake_config(32));
  proxy.lead_to(host.port());
  EXPECT_TRUE(drive.fails(kSecond));
  EXPECT_FALSE(drive.recovers(kSecond));
  EXPECT_NE(drive.last_error().find("another model"), std::string::npos) << drive.last_error();
}

}  // namespace
}  // namespace outrider::link::faults
