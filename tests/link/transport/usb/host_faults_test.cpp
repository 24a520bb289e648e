// The host's end against a scripted device, and the rules of when to open again.
#include "link/transport/usb/fixture.h"
#include "link/transport/usb/host_listener.h"
#include "link/transport/usb/host_schedule.h"
#include "support/own_time.h"

namespace outrider::link::usb {
namespace {

using UsbHost = UsbPair;

void put_short(SocketBus& bus, size_t packets, size_t last_bytes) {
  const auto turn = bus.turn();
  const auto bytes = pattern(bus.max_packet, 3);
  for (size_t i = 0; i < packets; ++i) ASSERT_TRUE(put_packet(*turn, turn->in[0], bytes, kForever));
  ASSERT_TRUE(put_packet(*turn, turn->in[0], std::span(bytes).first(last_bytes), kForever));
}

// A short packet means that the stream left the grid: nothing after it can be trusted.
TEST_F(UsbHost, a_short_packet_breaks_the_stream_and_the_line_is_drained_until_quiet) {
  for (size_t last_bytes : {1u, 100u, 511u}) {
    bus.reset();
    connect();
    const auto good = pattern(kGridBytes, 1);
    ASSERT_EQ(send_all(*device, good, soon_ns(kSecond)).io, Io::kDone);
    EXPECT_EQ(receive_exactly(*host, good.size(), 4096, soon_ns(kSecond)), good);
    put_short(*bus, 3, last_bytes);
    std::byte one;
    EXPECT_EQ(host->receive(std::span(&one, 1), soon_ns(kSecond)).io, Io::kBroken);
    EXPECT_EQ(send_all(*host, good, soon_ns(kSecond)).io, Io::kBroken);
    // Garbage goes on for a while: it is read, dropped, and starts the quiet time again.
    const int64_t start_ns = now_ns();
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
      EXPECT_EQ(send_all(*device, pattern(8 * kGridBytes, 5), soon_ns(kSecond)).io, Io::kDone);
    }
    EXPECT_FALSE(session->wait_finished(0));
    EXPECT_TRUE(session->wait_finished(soon_ns(2 * kSecond)));
    EXPECT_GE(now_ns() - start_ns, 200 * kMs + 100 * kMs);
    EXPECT_TRUE(seen->closed_session);
    device.reset(), host.reset(), session.reset(), gadget.reset();
  }
}

TEST_F(UsbHost, draining_has_a_limit_and_can_be_cut_short) {
  connect();
  put_short(*bus, 0, 7);
  std::byte one;
  EXPECT_EQ(host->receive(std::span(&one, 1), soon_ns(kSecond)).io, Io::kBroken);
  test::OwnTime own;
  session->finish();
  EXPECT_LT(own.ns(), 500 * kMs);
}

// FC-37: a device that accepts and never reads.
TEST_F(UsbHost, FC37_a_write_without_progress_ends_the_session) {
  connect();
  const auto turn = bus->turn();
  device->shut();  // its reader stops
  const auto message = pattern(kHostWriteBytes, 1);
  test::OwnTime own;
  const int64_t start_ns = now_ns();
  Moved moved;
  while ((moved = send_all(*host, message, kForever)).io == Io::kDone) {
  }
  EXPECT_EQ(moved.io, Io::kReset);
  EXPECT_GE(now_ns() - start_ns, short_host_timers().write_stall_ns);
  EXPECT_LT(own.ns(), 3 * kSecond);
}

TEST_F(UsbHost, a_slow_device_is_not_a_stalled_one) {
  connect();
  // Two thirds of the stall limit between two bites; each transfer takes several limits in all.
  const auto message = pattern(kHostWriteBytes, 9);
  std::thread sender([&] {
    EXPECT_EQ(send_all(*host, message, soon_ns(20 * kSecond)).io, Io::kDone);
    EXPECT_EQ(send_all(*host, message, soon_ns(20 * kSecond)).io, Io::kDone);
  });
  for (int round = 0; round < 2; ++round) {
    std::vector<std::byte> all;
    while (all.size() < message.size()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const size_t bite = std::min<size_t>(128 * 1024, message.size() - all.size());
      const auto part = receive_exactly(*device, bite, bite, soon_ns(5 * kSecond));
      ASSERT_EQ(part.size(), bite);
      all.insert(all.end(), part.begin(), part.end());
    }
    EXPECT_EQ(all, message) << round;
  }
  sender.join();
}

TEST_F(UsbHost, send_takes_what_it_can_hold_and_is_late_with_the_rest) {
  connect();
  device->shut();
  const auto message = pattern(kHostWriteBytes * (kHostWriteSlots + 2), 1);
  const Moved moved = send_all(*host, message, soon_ns(20 * kMs));
  EXPECT_EQ(moved.io, Io::kLate);
  EXPECT_EQ(moved.bytes, size_t{kHostWriteBytes} * kHostWriteSlots);
}

TEST_F(UsbHost, FC37_unplugging_ends_every_wait_at_once) {
  connect();
  std::thread puller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    bus->unplug();
  });
  std::byte one;
  EXPECT_EQ(host->receive(std::span(&one, 1), kForever).io, Io::kGone);
  puller.join();
  EXPECT_EQ(send_all(*host, pattern(100, 1), kForever).io, Io::kGone);
  EXPECT_TRUE(session->wait_finished(soon_ns(kSecond)));
}

TEST_F(UsbHost, what_was_sent_before_the_end_still_arrives) {
  connect();
  const auto message = pattern(2 * kHostWriteBytes, 6);
  ASSERT_EQ(send_all(*host, message, soon_ns(kSecond)).io, Io::kDone);
  std::thread closer([&] { host.reset(), session.reset(); });
  EXPECT_EQ(receive_exactly(*device, message.size(), 1 << 20, soon_ns(5 * kSecond)), message);
  closer.join();
}

TEST_F(UsbHost, power_saving_is_off_while_served_and_comes_back) {
  connect();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(seen->n_power_off, 1);
  EXPECT_EQ(seen->n_power_on, 0);
  host.reset(), session.reset();
  EXPECT_EQ(seen->n_power_on, 1);
}

TEST(UsbSchedule, silent_devices_are_retried_soon_and_then_seldom_in_simulated_time) {
  HostSchedule schedule;
  int64_t now = 1000;
  EXPECT_LE(schedule.next_open_ns(), now) << "the first look is at once";
  for (uint32_t i = 0; i < kSilentRetries; ++i) {
    schedule.ended_silent(now);
    EXPECT_EQ(schedule.next_open_ns() - now, kSilentRetryNs) << i;
    now = schedule.next_open_ns();
  }
  for (int i = 0; i < 1000; ++i) {
    schedule.ended_silent(now);
    ASSERT_EQ(schedule.next_open_ns() - now, kSilentRetryLongNs) << i;
    now = schedule.next_open_ns();
  }
  schedule.ended_heard(now);
  EXPECT_EQ(schedule.next_open_ns(), now) << "one that spoke is opened again at once";
  schedule.ended_silent(now);
  EXPECT_EQ(schedule.next_open_ns() - now, kSilentRetryNs) << "and its patience is new";
  schedule.open_failed(now);
  EXPECT_EQ(schedule.next_open_ns() - now, kOpenRetryNs);
  schedule.nothing_there(now);
  EXPECT_EQ(schedule.next_open_ns() - now, kPresencePollNs);
}

// ---- the listener over the socket bus

class SocketHostBus final : public HostBus {
 public:
  SocketHostBus(std::shared_ptr<SocketBus> bus, std::shared_ptr<HostSeen> seen)
      : bus_(std::move(bus)), seen_(std::move(seen)) {}
  std::vector<FoundDevice> find() override {
    if (!bus_->configured()) return {};
    FoundDevice device;
    device.name = "1-1", device.serial = "T1", device.speed_mbit_s = 480;
    device.usable = bare_looks-- <= 0;
    return {device};
  }
  Result<FoundDevice> choose(const std::vector<FoundDevice>& found, const std::string& s) override {
    return choose_device(found, s, SysPaths{});
  }
  Result<std::unique_ptr<HostPort>> open(const FoundDevice&) override {
    if (refuse) return make_error(Code::kDevice, "usb:T1: no permission");
    return make_socket_host(bus_, seen_);
  }
  bool refuse = false;
  int bare_looks = 0;  // so often it is there without interfaces

 private:
  std::shared_ptr<SocketBus> bus_;
  std::shared_ptr<HostSeen> seen_;
};

TEST_F(UsbHost, listener_hands_out_a_stream_on_the_first_byte_only) {
  make_bus();
  auto listener =
      make_host_listener(std::make_unique<SocketHostBus>(bus, seen), "T1", short_host_timers());
  EXPECT_EQ(listener->endpoint(), "usb:T1");
  EXPECT_FALSE(listener->local_only());
  EXPECT_EQ(listener->accept(soon_ns(20 * kMs)).code(), Code::kNotReady);
  bus->plug();
  std::thread device_side([&] { ASSERT_TRUE(device_connects(5 * kSecond)); });
  EXPECT_EQ(listener->accept(soon_ns(800 * kMs)).code(), Code::kNotReady) << "it said nothing";
  device_side.join();
  for (int round = 0; round < 2; ++round) {
    const auto hello = pattern(kGridBytes, 1);
    ASSERT_EQ(send_all(*device, hello, soon_ns(kSecond)).io, Io::kDone);
    auto accepted = listener->accept(soon_ns(kSecond));
    ASSERT_TRUE(accepted) << accepted.error().text;
    host = std::move(accepted.value());
    EXPECT_EQ(receive_exactly(*host, hello.size(), 4096, soon_ns(kSecond)), hello);
    EXPECT_EQ(listener->accept(soon_ns(50 * kMs)).code(), Code::kNotReady) << "one at a time";
    device.reset(), host.reset();
    if (round == 1) break;
    std::thread again([&] { ASSERT_TRUE(device_connects(5 * kSecond)); });
    EXPECT_EQ(listener->accept(soon_ns(700 * kMs)).code(), Code::kNotReady);
    again.join();
  }
  listener->shut();
  EXPECT_EQ(listener->accept(kForever).code(), Code::kInvalid);
}

TEST_F(UsbHost, FC41_listener_tells_a_refusal_once_and_lives_on) {
  make_bus();
  bus->plug();
  EXPECT_EQ(gadget->wait_session(soon_ns(20 * kMs)).code(), Code::kNotReady);
  auto host_bus = std::make_unique<SocketHostBus>(bus, seen);
  host_bus->refuse = true;
  auto listener = make_host_listener(std::move(host_bus), "", short_host_timers());
  const auto first = listener->accept(soon_ns(kSecond));
  EXPECT_EQ(first.code(), Code::kDevice);
  EXPECT_NE(first.error().message().find("no permission"), std::string_view::npos);
  const auto second = listener->accept(soon_ns(50 * kMs));
  EXPECT_EQ(second.code(), Code::kNotReady);
  EXPECT_NE(second.error().message().find("no permission"), std::string_view::npos)
      << "whoever asks later still learns why: " << second.error().text;
}

// The kernel names a device before it has chosen its configuration.
TEST_F(UsbHost, a_device_that_is_not_configured_yet_is_looked_at_again) {
  make_bus();
  bus->plug();
  std::thread device_side([&] { ASSERT_TRUE(device_connects(5 * kSecond)); });
  auto host_bus = std::make_unique<SocketHostBus>(bus, seen);
  host_bus->bare_looks = 1;
  auto listener = make_host_listener(std::move(host_bus), "", short_host_timers());
  const auto silent = listener->accept(soon_ns(2 * kSecond));
  EXPECT_EQ(silent.code(), Code::kNotReady) << silent.error().text;
  device_side.join();
  EXPECT_EQ(send_all(*device, pattern(kGridBytes, 1), soon_ns(kSecond)).io, Io::kDone);
  auto accepted = listener->accept(soon_ns(2 * kSecond));
  EXPECT_TRUE(accepted) << accepted.error().text;
}

TEST_F(UsbHost, FC41_a_device_that_stays_in_another_mode_is_told) {
  make_bus();
  bus->plug();
  EXPECT_EQ(gadget->wait_session(soon_ns(20 * kMs)).code(), Code::kNotReady);
  auto host_bus = std::make_unique<SocketHostBus>(bus, seen);
  host_bus->bare_looks = 1000;
  auto listener = make_host_listener(std::move(host_bus), "", short_host_timers());
  const auto told = listener->accept(soon_ns(5 * kSecond));
  EXPECT_EQ(told.code(), Code::kDevice);
  EXPECT_NE(told.error().message().find("another mode"), std::string_view::npos)
      << told.error().text;
}

// Reads that complete out of order are handed over in the order in which they were posted.
class DisorderedPort final : public HostPort {
 public:
  uint32_t max_packet() const noexcept override { return 512; }
  Result<void> open_session() override { return {}; }
  void close_session() noexcept override {}
  int post_read(uint32_t slot, std::span<std::byte> into) noexcept override {
    std::lock_guard lock(mutex_);
    std::fill(into.begin(), into.end(), std::byte(n_posted_ & 0xFF));
    if (n_posted_++ < 2 * kHostReadSlots) posted_.push_back(slot);
    ++pending_;
    return 0;
  }
  int start_write(uint32_t, std::span<const std::byte>, bool, int64_t) noexcept override {
    return -EIO;
  }
  size_t wait(std::span<TransferDone> done, int64_t) noexcept override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::lock_guard lock(mutex_);
    if (cancelled_) return pending_ = 0, 0;
    const bool more_to_come = n_posted_ < 2 * kHostReadSlots;
    if (more_to_come && posted_.size() < kHostReadSlots / 2) return 0;
    size_t n = 0;
    while (!posted_.empty() && n < done.size()) {  // the newest first
      done[n++] = {.slot = posted_.back(), .bytes = kGridBytes};
      posted_.pop_back();
      --pending_;
    }
    return n;
  }
  void cancel_all() noexcept override { cancelled_ = true; }
  uint32_t n_pending() const noexcept override { return pending_; }
  bool present() const noexcept override { return true; }
  void save_power(bool) noexcept override {}

 private:
  std::mutex mutex_;
  std::vector<uint32_t> posted_;
  uint32_t n_posted_ = 0;
  std::atomic<uint32_t> pending_{0};
  std::atomic<bool> cancelled_{false};
};

TEST(UsbHostSession, hands_reads_over_in_posting_order_and_keeps_them_all_posted) {
  HostSession session(std::make_unique<DisorderedPort>(), "T1", short_host_timers());
  std::vector<std::byte> piece(kGridBytes);
  for (uint32_t i = 0; i < 2 * kHostReadSlots; ++i) {
    size_t got = 0;
    while (got < piece.size()) {
      const Moved moved = session.receive(std::span(piece).subspan(got), soon_ns(2 * kSecond));
      ASSERT_EQ(moved.io, Io::kDone) << i;
      got += moved.bytes;
    }
    ASSERT_EQ(piece.front(), std::byte(i & 0xFF)) << i;
    ASSERT_EQ(piece.back(), std::byte(i & 0xFF)) << i;
  }
  const Piece some(piece);
  EXPECT_EQ(session.send(std::span(&some, 1), soon_ns(kSecond)).io, Io::kDone) << "it was taken";
  EXPECT_EQ(session.send(std::span(&some, 1), soon_ns(kSecond)).io, Io::kReset) << "and refused";
}

}  // namespace
}  // namespace outrider::link::usb
