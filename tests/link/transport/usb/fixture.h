// Both ends of a session over a socket bus, with short timers.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "link/transport/usb/gadget_stream.h"
#include "link/transport/usb/host_session.h"
#include "link/transport/usb/socket_bus.h"
#include "link/transport/usb/wait.h"

namespace outrider::link::usb {

inline constexpr int64_t kMs = kMillisecond;

inline GadgetTimers short_gadget_timers() {
  return {.off_bus_ns = 30 * kMs,
          .enable_grace_ns = 150 * kMs,
          .close_flush_ns = 50 * kMs,
          .close_abort_ns = 100 * kMs,
          .close_join_ns = 100 * kMs};
}

inline HostTimers short_host_timers() {
  return {.write_stall_ns = 150 * kMs,
          .quiet_ns = 120 * kMs,
          .drain_limit_ns = 2000 * kMs,
          .close_ns = 300 * kMs,
          .power_back_ns = 10'000 * kMs};
}

inline std::vector<std::byte> pattern(size_t bytes, uint32_t seed) {
  std::vector<std::byte> out(bytes);
  uint32_t x = seed * 2654435761u + 1;
  for (std::byte& b : out) {
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    b = std::byte(x);
  }
  return out;
}

inline Moved send_all(Transport& to, std::span<const std::byte> bytes, int64_t deadline_ns) {
  const Piece piece(bytes);
  return to.send(std::span(&piece, 1), deadline_ns);
}

// Exactly `bytes`, asking for `ask` at a time; shorter when the stream ended or was late.
inline std::vector<std::byte> receive_exactly(Transport& from, size_t bytes, size_t ask,
                                              int64_t deadline_ns, Io* ended = nullptr) {
  std::vector<std::byte> all(bytes);
  size_t at = 0;
  while (at < bytes) {
    const Moved moved =
        from.receive(std::span(all).subspan(at, std::min(ask, bytes - at)), deadline_ns);
    at += moved.bytes;
    if (moved.io == Io::kDone) continue;
    if (ended != nullptr) *ended = moved.io;
    break;
  }
  all.resize(at);
  return all;
}

class UsbPair : public ::testing::Test {
 protected:
  void make_bus(uint32_t max_packet = 512) {
    bus = std::make_shared<SocketBus>(max_packet);
    gadget = std::make_unique<Gadget>(make_socket_gadget(bus), "T1", short_gadget_timers());
  }

  // A host that finds the device within its time, opens a session and makes a stream.
  bool host_connects(int64_t within_ns = 2000 * kMs) {
    const int64_t until_ns = soon_ns(within_ns);
    while (now_ns() < until_ns) {
      if (bus->turn() != nullptr && (bus->configured() || bus->late_state)) {
        auto port = make_socket_host(bus, seen);
        if (port->open_session()) {
          session = std::make_shared<HostSession>(std::move(port), "T1", short_host_timers());
          host = make_host_stream(session, 5000);
          return true;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  Result<void> device_connects(int64_t within_ns = 2000 * kMs) {
    if (!gadget) return make_error(Code::kFailed, "no gadget came back");
    auto ready = gadget->wait_session(soon_ns(within_ns));
    if (!ready) return ready;
    GadgetStreamOptions options;
    options.unsent_limit_bytes = unsent_limit_bytes;
    options.take_back = [this](std::unique_ptr<Gadget> back) { gadget = std::move(back); };
    device = make_gadget_stream(std::move(gadget), std::move(options));
    return {};
  }

  void connect(uint32_t max_packet = 512) {
    if (!bus) make_bus(max_packet);
    bus->plug();
    bool opened = false;
    std::thread other([&] { opened = host_connects(); });
    const auto ready = device_connects();
    other.join();
    ASSERT_TRUE(ready) << ready.error().text;
    ASSERT_TRUE(opened);
  }

  void TearDown() override {
    device.reset();
    host.reset();
    session.reset();
    gadget.reset();
    if (!bus) return;
    // What costs a controller until the next boot must never have happened.
    EXPECT_EQ(bus->n_opens_too_early, 0u);
    EXPECT_EQ(bus->n_reads_too_early, 0u);
  }

  std::shared_ptr<SocketBus> bus;
  std::shared_ptr<HostSeen> seen = std::make_shared<HostSeen>();
  std::unique_ptr<Gadget> gadget;
  std::shared_ptr<HostSession> session;
  std::unique_ptr<Transport> device, host;
  uint32_t unsent_limit_bytes = 0;
};

}  // namespace outrider::link::usb
