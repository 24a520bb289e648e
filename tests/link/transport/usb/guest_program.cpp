// Runs as root inside a machine that is gadget and host at once (dummy_hcd): the real FunctionFS,
// kernel AIO and libusb code against each other. guest_test.cpp starts it there. Run by hand on a
// machine with a spare controller it makes a real gadget, so it is not named like a test.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "base/log.h"
#include "link/client/device.h"
#include "link/secure/secure.h"
#include "link/server/server.h"
#include "link/transport/transport.h"
#include "link/transport/usb/ffs_port.h"
#include "link/transport/usb/fixture.h"
#include "link/transport/usb/host_listener.h"
#include "link/transport/usb/libusb_port.h"
#include "link/transport/usb/usb_gadget.h"
#include "owner/borrow/lease.h"
#include "owner/lender.h"

namespace outrider::link::usb {
namespace {

constexpr char kSerial[] = "GUEST1";

// Both ends through the endpoints, as a user has them.
class UsbGuest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    register_usb_host();
    auto listening = listen_transport(parse_endpoint("usb:").value());
    ASSERT_TRUE(listening) << listening.error().text;
    listener = std::move(listening.value());
  }
  static void TearDownTestSuite() {
    listener.reset();
    remove_usb_gadget();
  }

  void connect(int64_t within_ns = 15 * kSecond) {
    Result<std::unique_ptr<Transport>> accepted = make_error(Code::kFailed, "not asked");
    const int64_t deadline_ns = soon_ns(within_ns);
    std::thread accepting([&] { accepted = listener->accept(deadline_ns); });
    auto connected = connect_transport(parse_endpoint("usb:GUEST1").value(), deadline_ns);
    if (connected) {
      device = std::move(connected.value());
      hello = pattern(kGridBytes, 99);
      EXPECT_EQ(send_all(*device, hello, deadline_ns).io, Io::kDone);
    }
    accepting.join();
    ASSERT_TRUE(connected) << connected.error().text;
    ASSERT_TRUE(accepted) << accepted.error().text;
    host = std::move(accepted.value());
    ASSERT_EQ(receive_exactly(*host, hello.size(), hello.size(), soon_ns(5 * kSecond)), hello);
  }
  void TearDown() override { device.reset(), host.reset(); }

  // `n` exchanges: a message down, its mirror image padded up.
  void echo(int n, size_t bytes) {
    const size_t padded = (bytes + kGridBytes - 1) / kGridBytes * kGridBytes;
    for (int i = 0; i < n; ++i) {
      const auto up = pattern(padded, uint32_t(i) * 2 + 1), down = pattern(bytes, uint32_t(i) * 2);
      std::thread server([&] {
        ASSERT_EQ(receive_exactly(*host, padded, 1 << 20, soon_ns(10 * kSecond)), up) << i;
        ASSERT_EQ(send_all(*host, down, soon_ns(10 * kSecond)).io, Io::kDone) << i;
      });
      const Moved sent = send_all(*device, up, soon_ns(10 * kSecond));
      EXPECT_EQ(sent.io, Io::kDone) << io_name(sent.io);
      EXPECT_EQ(receive_exactly(*device, bytes, 1 << 20, soon_ns(10 * kSecond)), down) << i;
      server.join();
      if (HasFailure()) return;
    }
  }

  static std::unique_ptr<Listener> listener;
  std::unique_ptr<Transport> device, host;
  std::vector<std::byte> hello;
};
std::unique_ptr<Listener> UsbGuest::listener;

TEST_F(UsbGuest, FC39_every_size_goes_through_the_kernel) {
  connect();
  EXPECT_STREQ(device->facts().peer, "usb:GUEST1");
  EXPECT_STREQ(host->facts().peer, "usb:GUEST1");
  EXPECT_EQ(device->facts().speed_mbit_s, host->facts().speed_mbit_s);
  for (size_t bytes : {1u, 511u, 512u, 513u, 1024u, 8192u, 16383u, 16384u, 16385u, 393'304u,
                       1u << 20, (1u << 20) + 1})
    echo(2, bytes);
}

TEST_F(UsbGuest, two_hundred_requests_in_order) {
  connect();
  const int64_t start_ns = now_ns();
  echo(200, 8324);
  std::printf("200 requests of 16 KiB up, 8 KiB down: %.1f ms each\n",
              double(now_ns() - start_ns) * 1e-6 / 200);
}

TEST_F(UsbGuest, device_end_unplugs_and_the_next_session_is_clean) {
  for (int round = 0; round < 3; ++round) {
    connect();
    echo(2, 20'000);
    // Bytes that nobody reads must not reach the next session.
    send_all(*device, pattern(4 * kGridBytes, 7), soon_ns(kSecond));
    send_all(*host, pattern(30'000, 8), soon_ns(kSecond));
    const int64_t start_ns = now_ns();
    device.reset();
    std::byte bytes[kGridBytes];
    Moved moved;
    while ((moved = host->receive(bytes, soon_ns(5 * kSecond))).io == Io::kDone) {
    }
    EXPECT_EQ(moved.io, Io::kGone) << io_name(moved.io);
    EXPECT_LT(now_ns() - start_ns, 4 * kSecond);
    EXPECT_EQ(send_all(*host, hello, soon_ns(kSecond)).io, Io::kGone);
    host.reset();
  }
}

TEST_F(UsbGuest, host_end_closes_in_order) {
  connect();
  const auto last = pattern(50'000, 3);
  ASSERT_EQ(send_all(*host, last, soon_ns(kSecond)).io, Io::kDone);
  host.reset();
  Io ended = Io::kDone;
  EXPECT_EQ(receive_exactly(*device, last.size(), 4000, soon_ns(5 * kSecond), &ended), last);
  std::byte one;
  EXPECT_EQ(device->receive(std::span(&one, 1), soon_ns(5 * kSecond)).io, Io::kClosed);
  EXPECT_EQ(send_all(*device, hello, soon_ns(kSecond)).io, Io::kClosed);
  device.reset();
  connect();
  echo(3, 1000);
}

TEST_F(UsbGuest, host_unplugs) {
  connect();
  echo(2, 1000);
  const auto found = find_devices(SysPaths{});
  ASSERT_EQ(found.size(), 1u);
  std::thread puller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::ofstream("/sys/bus/usb/devices/" + found[0].name + "/remove") << "1";
  });
  std::byte one;
  const int64_t start_ns = now_ns();
  EXPECT_EQ(device->receive(std::span(&one, 1), soon_ns(5 * kSecond)).io, Io::kGone);
  EXPECT_LT(now_ns() - start_ns, 3 * kSecond);
  EXPECT_EQ(host->receive(std::span(&one, 1), soon_ns(5 * kSecond)).io, Io::kGone);
  puller.join();
  device.reset(), host.reset();
  connect();
  echo(3, 1000);
}

TEST_F(UsbGuest, a_host_that_reads_nothing_costs_a_refused_frame_and_no_hang) {
  connect();
  // More than the host's posted reads hold: 32 of 16 KiB, then the device's queue of 1 MiB.
  const auto frame = pattern(32 * kGridBytes, 5);
  int taken = 0;
  Moved moved;
  while ((moved = send_all(*device, frame, soon_ns(300 * kMs))).io == Io::kDone) ++taken;
  EXPECT_EQ(moved.io, Io::kLate);
  EXPECT_EQ(moved.bytes, 0u);
  EXPECT_GE(taken, 2);
  EXPECT_LE(taken, 4);
  const int64_t start_ns = now_ns();
  device.reset();
  EXPECT_LT(now_ns() - start_ns, kCloseFlushNs + kCloseAbortNs + kCloseJoinNs);
  host.reset();
  connect();
  echo(3, 1000);
}

TEST_F(UsbGuest, FC41_a_claimed_interface_is_told_as_in_use) {
  connect();
  const auto found = find_devices(SysPaths{});
  ASSERT_EQ(found.size(), 1u);
  auto second = open_libusb_port(found[0], SysPaths{});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message().find("in use"), std::string_view::npos) << second.error().text;
  echo(2, 1000);
}

// A host program that is killed says nothing; the next one opens the same device again.
TEST_F(UsbGuest, a_host_that_begins_anew_resets_the_old_session) {
  Result<std::unique_ptr<Transport>> connected = make_error(Code::kFailed, "not asked");
  std::thread connecting([&] {
    connected = connect_transport(parse_endpoint("usb:GUEST1").value(), soon_ns(15 * kSecond));
  });
  std::unique_ptr<HostPort> port;
  for (const int64_t until_ns = soon_ns(10 * kSecond); !port && now_ns() < until_ns;) {
    const auto found = find_devices(SysPaths{});
    auto opened = found.size() == 1 && found[0].usable
                      ? open_libusb_port(found[0], SysPaths{})
                      : Result<std::unique_ptr<HostPort>>(make_error(Code::kNotFound, "none"));
    if (opened && opened.value()->open_session()) port = std::move(opened.value());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  connecting.join();
  ASSERT_TRUE(port != nullptr);
  ASSERT_TRUE(connected) << connected.error().text;
  device = std::move(connected.value());
  port.reset();  // killed: its files are closed, nothing is said
  std::byte one;
  EXPECT_EQ(device->receive(std::span(&one, 1), soon_ns(200 * kMs)).io, Io::kLate);
  auto second = open_libusb_port(find_devices(SysPaths{}).at(0), SysPaths{});
  ASSERT_TRUE(second) << second.error().text;
  EXPECT_TRUE(second.value()->open_session());
  EXPECT_EQ(device->receive(std::span(&one, 1), soon_ns(2 * kSecond)).io, Io::kReset);
  second.value().reset();
  device.reset();
  connect();
  echo(2, 1000);
}

TEST_F(UsbGuest, FC41_another_gadgets_controller_is_refused_and_named) {
  connect();
  GadgetSettings other;
  other.name = "other", other.function = "other_link", other.mount = "/run/other-usb";
  auto place = make_gadget(linux_setup(), other, "OTHER");
  ASSERT_FALSE(place);
  EXPECT_EQ(place.code(), Code::kDevice);
  EXPECT_NE(place.error().message().find("held by gadget outrider (`Outrider link`)"),
            std::string_view::npos)
      << place.error().text;
  echo(2, 1000);  // and nobody was unbound
}

// ---- the whole link over the cable: server there, device here, one runtime

SharedKey key_of_guest() {
  SharedKey key;
  key.bytes.fill(42);
  return key;
}

class UsbDialer final : public Dialer {
 public:
  explicit UsbDialer(bool with_key) : with_key_(with_key) {}
  Result<std::unique_ptr<Transport>> dial(int64_t deadline_ns) override {
    auto plain = connect_transport(parse_endpoint("usb:GUEST1").value(), deadline_ns);
    if (!plain || !with_key_) return plain;
    return secure_as_device(std::move(plain.value()), key_of_guest(), deadline_ns);
  }

 private:
  const bool with_key_;
};

// Images, prompt and state of tick `n`, as a robot would have them.
struct Inputs {
  explicit Inputs(uint32_t n) : pixels(pattern(2 * 224 * 224 * 3, n)), state(8) {
    for (size_t i = 0; i < 2; ++i) {
      views[i].struct_size = sizeof(frt_image_view);
      views[i].pixel_format = FRT_PIXEL_RGB8;
      views[i].data = pixels.data() + i * 224 * 224 * 3;
      views[i].bytes = 224 * 224 * 3;
      views[i].width = views[i].height = 224;
    }
    for (size_t i = 0; i < state.size(); ++i) state[i] = float(n) + float(i) * 0.5f;
  }
  template <class To>
  void give(To&& set_input) const {
    EXPECT_EQ(set_input(0, views, sizeof views), 0);
    EXPECT_EQ(set_input(1, "pick up the cup", 15), 0);
    EXPECT_EQ(set_input(2, state.data(), state.size() * sizeof(float)), 0);
  }
  std::vector<std::byte> pixels;
  frt_image_view views[2] = {};
  std::vector<float> state;
};

void serve_and_tick(bool with_key) {
  const MonotonicClock clock;
  ProviderSource source(
      "/data/provider_fake.so",
      R"({"model_family":"fake","n_views":2,"image_height":224,"image_width":224,)"
      R"("action_steps":50,"action_dim":32})");
  auto local = source.open();
  ASSERT_TRUE(local) << local.error().text;
  ServerOptions options;
  options.listen = {"usb:"};
  options.plaintext = !with_key;
  if (with_key)
    options.secure = [](std::unique_ptr<Transport> plain, int64_t deadline_ns) {
      return secure_as_host(std::move(plain), key_of_guest(), deadline_ns);
    };
  auto models = std::make_unique<Models>(options.models, clock);
  ASSERT_TRUE(models->add("default", std::make_unique<ProviderSource>(source), true));
  auto server = Server::start(options, std::move(models), clock);
  ASSERT_TRUE(server) << server.error().text;

  DeviceConfig config;
  config.connect_ns = 15 * kSecond;
  config.deadline_ns = 5 * kSecond;
  config.name.client_id = 7;
  auto remote = Device::open(config, std::make_unique<UsbDialer>(with_key), clock);
  ASSERT_TRUE(remote) << remote.error().text;
  std::vector<float> here(50 * 32), there(50 * 32);
  constexpr uint32_t kTicks = 60;
  const int64_t start_ns = now_ns();
  for (uint32_t tick = 0; tick < kTicks; ++tick) {
    // Half way the cable is pulled: the device end finds its host again.
    if (tick == kTicks / 2) {
      std::ofstream("/sys/bus/usb/devices/" + find_devices(SysPaths{}).at(0).name + "/remove")
          << "1";
      const int64_t until_ns = soon_ns(20 * kSecond);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      while ((remote.value()->upkeep(), !remote.value()->connected()) && now_ns() < until_ns)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ASSERT_TRUE(remote.value()->connected()) << remote.value()->last_error();
    }
    const Inputs inputs(tick);
    inputs.give([&](uint32_t port, const void* data, uint64_t bytes) {
      return local.value()->set_input(port, data, bytes);
    });
    inputs.give([&](uint32_t port, const void* data, uint64_t bytes) {
      return to_abi(remote.value()->set_input(port, data, bytes));
    });
    ASSERT_EQ(local.value()->step(), 0);
    ASSERT_EQ(remote.value()->step(), Code::kOk) << tick << ": " << remote.value()->last_error();
    uint64_t written = 0;
    ASSERT_EQ(local.value()->get_output(3, here.data(), here.size() * 4, &written), 0);
    ASSERT_EQ(remote.value()->get_output(3, there.data(), there.size() * 4, &written), Code::kOk)
        << remote.value()->last_error();
    ASSERT_EQ(written, here.size() * 4);
    ASSERT_EQ(here, there) << tick;
    remote.value()->upkeep();
  }
  std::printf("%u ticks of two pictures up, a chunk down, one unplugging%s: %.0f ms\n", kTicks,
              with_key ? ", encrypted" : "", double(now_ns() - start_ns) * 1e-6);
  EXPECT_EQ(remote.value()->counters().reconnects, 1);
}

TEST_F(UsbGuest, a_runtime_is_served_over_the_cable_byte_for_byte) {
  serve_and_tick(false);
}
TEST_F(UsbGuest, a_runtime_is_served_with_a_key_over_the_cable_byte_for_byte) {
  serve_and_tick(true);
}

// The gadget in an owner's hands: ep0 and the bus attribute travel to each borrower, and what was
// lent comes back from one that closes and from one that is killed.
class UsbOwner : public ::testing::Test {
 protected:
  static constexpr char kSocket[] = "/tmp/owner.sock";
  UsbOwner()
      : holder_(linux_setup(), GadgetSettings{}, "OWNED1", open_ffs_port),
        lender_(holder_, [](const owner::Borrower&) {
          owner::Reply yes;
          yes.ok = true;
          return yes;
        }) {}
  void SetUp() override {
    auto opened = holder_.open();
    ASSERT_TRUE(opened) << opened.error().text;
    ASSERT_TRUE(lender_.open(kSocket, 0600));
    thread_ = std::thread([this] {
      while (!stop_) {
        lender_.serve(now_ns());
        holder_.step(now_ns(), lender_.borrower().has_value());
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    register_usb_host();
    auto listening = listen_transport(parse_endpoint("usb:OWNED1").value());
    ASSERT_TRUE(listening) << listening.error().text;
    listener_ = std::move(listening.value());
  }
  void TearDown() override {
    listener_.reset();
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    holder_.close();
  }
  // What a borrower does: borrows, connects, says its word.
  static std::unique_ptr<Transport> borrow(const std::vector<std::byte>& word) {
    auto lease = owner::Lease::borrow(kSocket, "guest", soon_ns(15 * kSecond));
    EXPECT_TRUE(lease) << lease.error().text;
    if (!lease) return nullptr;
    auto stream = owner::Lease::connect(std::move(lease.value()), soon_ns(20 * kSecond));
    EXPECT_TRUE(stream) << stream.error().text;
    if (!stream) return nullptr;
    EXPECT_EQ(send_all(*stream.value(), word, soon_ns(5 * kSecond)).io, Io::kDone);
    return std::move(stream.value());
  }
  owner::UsbHolder holder_;
  owner::Lender lender_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(UsbOwner, a_lent_gadget_serves_one_borrower_after_another_killed_ones_too) {
  for (int round = 0; round < 3; ++round) {
    const auto word = pattern(kGridBytes, 40u + uint32_t(round));
    const bool killed = round == 1;
    std::unique_ptr<Transport> device;
    pid_t child = 0;
    std::thread borrowing;
    if (killed) {
      child = ::fork();
      if (child == 0) {
        auto mine = borrow(word);
        for (;;) ::pause();
      }
    } else {
      borrowing = std::thread([&] { device = borrow(word); });
    }
    auto host = listener_->accept(soon_ns(30 * kSecond));
    if (borrowing.joinable()) borrowing.join();
    ASSERT_TRUE(host) << round << ": " << host.error().text;
    EXPECT_EQ(receive_exactly(*host.value(), word.size(), word.size(), soon_ns(10 * kSecond)), word)
        << round;
    if (killed) {
      ASSERT_EQ(::kill(child, SIGKILL), 0);
      ::waitpid(child, nullptr, 0);
    } else {
      ASSERT_NE(device, nullptr);
      const auto back = pattern(20'000, 90u + uint32_t(round));
      EXPECT_EQ(send_all(*host.value(), back, soon_ns(5 * kSecond)).io, Io::kDone);
      EXPECT_EQ(receive_exactly(*device, back.size(), 1 << 16, soon_ns(5 * kSecond)), back);
      device.reset();
    }
    std::byte bytes[4096];
    Moved moved;
    while ((moved = host.value()->receive(bytes, soon_ns(10 * kSecond))).io == Io::kDone) {
    }
    EXPECT_EQ(moved.io, Io::kGone) << io_name(moved.io);
  }
}

}  // namespace
}  // namespace outrider::link::usb

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  outrider::set_log_level(outrider::LogLevel::kInfo);
  outrider::set_log_sink(outrider::stderr_log_sink, nullptr);
  return RUN_ALL_TESTS();
}
