// The device's end against everything that a controller and a host were seen to do.
#include <ctime>

#include "link/transport/usb/fixture.h"
#include "support/own_time.h"

namespace outrider::link::usb {
namespace {

using UsbDevice = UsbPair;

int64_t cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

TEST_F(UsbDevice, never_opens_endpoints_before_the_host_configured_it) {
  make_bus();
  const auto ready = gadget->wait_session(soon_ns(50 * kMs));
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.code(), Code::kNotReady);
  EXPECT_NE(ready.error().message().find("no host has configured"), std::string_view::npos);
  bus->plug();
  const auto idle = gadget->wait_session(soon_ns(50 * kMs));
  ASSERT_FALSE(idle);
  EXPECT_NE(idle.error().message().find("no program opened"), std::string_view::npos);
  EXPECT_EQ(bus->n_binds, 1u) << "a device that waits stays on the bus";
  connect();
}

TEST_F(UsbDevice, waits_for_a_state_file_that_is_later_than_ep0) {
  make_bus();
  bus->late_state = true;
  bus->plug();
  std::thread host_side([&] { host_connects(); });
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(80));
    bus->late_state = false;
  });
  EXPECT_TRUE(device_connects());
  host_side.join(), late.join();
}

TEST_F(UsbDevice, endpoint_errors_mean_not_ready_until_a_transfer_was_completed) {
  make_bus();
  bus->open_errors = {ENODEV, ESHUTDOWN, EIO};
  bus->read_errors = {ESHUTDOWN, ENODEV, EIO, EINTR};
  bus->submit_errors = {EAGAIN, ESHUTDOWN};
  connect();
  const auto message = pattern(kGridBytes, 1);
  ASSERT_EQ(send_all(*device, message, soon_ns(kSecond)).io, Io::kDone);
  EXPECT_EQ(receive_exactly(*host, message.size(), 999, soon_ns(kSecond)), message);
  ASSERT_EQ(send_all(*host, message, soon_ns(kSecond)).io, Io::kDone);
  EXPECT_EQ(receive_exactly(*device, message.size(), 999, soon_ns(kSecond)), message);
  // A host was seen now: the same error is the end.
  {
    std::lock_guard lock(bus->script_mutex);
    bus->submit_errors = {ESHUTDOWN};
  }
  EXPECT_EQ(send_all(*device, message, soon_ns(kSecond)).io, Io::kGone);
}

TEST(UsbEndpointErrors, grace_ends_with_time_or_with_the_first_transfer) {
  for (int error : {ENODEV, EIO, ESHUTDOWN, EAGAIN}) {
    EndpointErrors errors(100, 50);
    EXPECT_TRUE(errors.again(error, 149));
    EXPECT_FALSE(errors.again(error, 150));
    errors.completed();
    EXPECT_FALSE(errors.again(error, 100)) << error;
  }
  EndpointErrors errors(0, kEnableGraceNs);
  EXPECT_FALSE(errors.again(EFAULT, 1)) << "an error of ours is never waited for";
  EXPECT_TRUE(errors.again(EINTR, kEnableGraceNs + 1));
}

TEST_F(UsbDevice, FC41_busy_endpoints_are_told_as_such) {
  make_bus();
  bus->open_errors = {EBUSY};
  bus->plug();
  std::thread host_side([&] { host_connects(); });
  const auto ready = device_connects();
  host_side.join();
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.code(), Code::kDevice);
  EXPECT_NE(ready.error().message().find("another process has them"), std::string_view::npos)
      << ready.error().text;
}

// One frame may be queued behind one frame; a third is refused and may be dropped.
TEST_F(UsbDevice, a_frame_that_has_no_room_is_refused_whole) {
  unsent_limit_bytes = 4 * kGridBytes;
  make_bus();
  bus->stuck_writes = true;
  connect();
  const auto frame = pattern(2 * kGridBytes, 1), small = pattern(kGridBytes, 2);
  EXPECT_EQ(send_all(*device, frame, 0).io, Io::kDone);
  EXPECT_EQ(send_all(*device, frame, 0).io, Io::kDone);
  for (int64_t wait_ns : {int64_t{0}, 60 * kMs}) {
    test::OwnTime own;
    const int64_t start_ns = now_ns();
    const Moved third = send_all(*device, frame, start_ns + wait_ns);
    EXPECT_EQ(third.io, Io::kLate);
    EXPECT_EQ(third.bytes, 0u) << "nothing of it left: it may be dropped";
    EXPECT_GE(now_ns() - start_ns, wait_ns);
    EXPECT_LT(own.ns(), wait_ns + 200 * kMs);
  }
  bus->stuck_writes = false;
  EXPECT_EQ(send_all(*device, small, soon_ns(kSecond)).io, Io::kDone);
  EXPECT_EQ(receive_exactly(*host, frame.size(), 5000, soon_ns(kSecond)), frame);
  EXPECT_EQ(receive_exactly(*host, frame.size(), 5000, soon_ns(kSecond)), frame);
  EXPECT_EQ(receive_exactly(*host, small.size(), 5000, soon_ns(kSecond)), small);
}

TEST_F(UsbDevice, a_message_above_the_limit_goes_in_parts_and_keeps_its_place_when_late) {
  unsent_limit_bytes = 4 * kGridBytes;
  make_bus();
  bus->stuck_writes = true;
  connect();
  const auto message = pattern(20 * kGridBytes, 1);
  const Moved first = send_all(*device, message, soon_ns(30 * kMs));
  ASSERT_EQ(first.io, Io::kLate);
  ASSERT_EQ(first.bytes, unsent_limit_bytes);
  bus->stuck_writes = false;
  std::thread rest([&] {
    EXPECT_EQ(send_all(*device, std::span(message).subspan(first.bytes), soon_ns(5 * kSecond)).io,
              Io::kDone);
  });
  EXPECT_EQ(receive_exactly(*host, message.size(), 5000, soon_ns(5 * kSecond)), message);
  rest.join();
}

// FC-37: a host that stops reading costs a deadline, no processor time and no hang at the end.
TEST_F(UsbDevice, FC37_stuck_writes_cost_a_deadline_and_close_in_bounded_time) {
  make_bus();
  bus->stuck_writes = true;
  connect();
  const auto frame = pattern(kUnsentLimitBytes, 1);
  ASSERT_EQ(send_all(*device, frame, 0).io, Io::kDone);
  const int64_t cpu_start_ns = cpu_ns(), start_ns = now_ns();
  EXPECT_EQ(send_all(*device, frame, soon_ns(400 * kMs)).io, Io::kLate);
  // The bus of this test polls; what is bounded here is our own spinning.
  EXPECT_LT(cpu_ns() - cpu_start_ns, (now_ns() - start_ns) / 3);
  test::OwnTime own;
  device.reset();
  EXPECT_LT(own.ns(), 50 * kMs + 100 * kMs + 100 * kMs + 150 * kMs);
  EXPECT_TRUE(gadget != nullptr) << "unbinding completed the writes: the gadget is good";
}

TEST_F(UsbDevice, a_controller_that_keeps_writes_is_left_alone_in_bounded_time) {
  make_bus();
  bus->stuck_writes = bus->keeps_writes = true;
  connect();
  ASSERT_EQ(send_all(*device, pattern(kGridBytes, 1), 0).io, Io::kDone);
  test::OwnTime own;
  device.reset();
  EXPECT_LT(own.ns(), kSecond);
  EXPECT_TRUE(gadget == nullptr) << "it is not used again";
  bus->keeps_writes = false;
}

TEST_F(UsbDevice, a_read_that_never_ends_is_left_alone_in_bounded_time) {
  make_bus();
  connect();
  const auto message = pattern(kGridBytes, 1);
  ASSERT_EQ(send_all(*host, message, soon_ns(kSecond)).io, Io::kDone);
  ASSERT_EQ(receive_exactly(*device, message.size(), 4096, soon_ns(kSecond)), message);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it is in its next read now
  bus->keeps_read = true;
  test::OwnTime own;
  device.reset();
  EXPECT_LT(own.ns(), kSecond);
  EXPECT_TRUE(gadget == nullptr);
  bus->keeps_read = false;  // the reader thread ends and frees what it kept
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

TEST_F(UsbDevice, FC37_unplugging_ends_every_wait_at_once) {
  make_bus();
  bus->stuck_writes = true;
  connect();
  ASSERT_EQ(send_all(*device, pattern(kUnsentLimitBytes, 1), 0).io, Io::kDone);
  std::thread sender(
      [&] { EXPECT_EQ(send_all(*device, pattern(kGridBytes, 1), kForever).io, Io::kGone); });
  std::thread puller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    bus->unplug();
  });
  std::byte one;
  test::OwnTime own;
  EXPECT_EQ(device->receive(std::span(&one, 1), kForever).io, Io::kGone);
  EXPECT_LT(own.ns(), 500 * kMs);
  sender.join(), puller.join();
  EXPECT_EQ(device->receive(std::span(&one, 1), kForever).io, Io::kGone) << "final";
  EXPECT_EQ(send_all(*device, pattern(kGridBytes, 1), kForever).io, Io::kGone);
}

TEST_F(UsbDevice, shut_ends_every_wait_within_its_bound) {
  make_bus();
  bus->stuck_writes = true;
  connect();
  ASSERT_EQ(send_all(*device, pattern(kUnsentLimitBytes, 1), 0).io, Io::kDone);
  std::thread sender(
      [&] { EXPECT_EQ(send_all(*device, pattern(kGridBytes, 1), kForever).io, Io::kShut); });
  int64_t shut_ns = 0;
  std::thread shutter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    shut_ns = now_ns();
    device->shut(), device->shut();
  });
  std::byte one;
  EXPECT_EQ(device->receive(std::span(&one, 1), kForever).io, Io::kShut);
  sender.join(), shutter.join();
  EXPECT_LT(now_ns() - shut_ns, 50 * kMs + 100 * kMs);
}

TEST_F(UsbDevice, a_host_that_closes_is_told_after_its_last_bytes) {
  connect();
  const auto last = pattern(100'000, 4);
  ASSERT_EQ(send_all(*host, last, soon_ns(kSecond)).io, Io::kDone);
  host.reset(), session.reset();
  Io ended = Io::kDone;
  EXPECT_EQ(receive_exactly(*device, last.size(), 777, soon_ns(kSecond), &ended), last);
  std::byte one;
  EXPECT_EQ(device->receive(std::span(&one, 1), soon_ns(kSecond)).io, Io::kClosed);
  EXPECT_TRUE(seen->closed_session);
}

TEST_F(UsbDevice, a_host_that_begins_anew_resets_the_old_session) {
  connect();
  ASSERT_TRUE(bus->host_opens());
  std::byte one;
  EXPECT_EQ(device->receive(std::span(&one, 1), soon_ns(kSecond)).io, Io::kReset);
  device.reset();
  host.reset(), session.reset();
  connect();
  bus->configure_again();
  EXPECT_NE(device->receive(std::span(&one, 1), soon_ns(kSecond)).io, Io::kLate);
}

// Unplug, rebind: the next session starts with nothing of the last one.
TEST_F(UsbDevice, every_session_starts_clean_and_off_the_bus_for_its_time) {
  for (uint32_t round = 1; round <= 5; ++round) {
    connect();
    EXPECT_EQ(bus->n_binds, round);
    const auto message = pattern(kGridBytes, round);
    ASSERT_EQ(send_all(*device, message, soon_ns(kSecond)).io, Io::kDone);
    ASSERT_EQ(receive_exactly(*host, message.size(), 4096, soon_ns(kSecond)), message) << round;
    send_all(*device, pattern(4 * kGridBytes, 100), soon_ns(kSecond));  // nobody reads these
    send_all(*host, pattern(3000, 101), soon_ns(kSecond));
    const int64_t left_ns = now_ns();
    device.reset(), host.reset(), session.reset();
    ASSERT_TRUE(gadget != nullptr);
    const auto early = gadget->wait_session(left_ns);
    EXPECT_EQ(early.code(), Code::kNotReady);
    EXPECT_EQ(bus->n_binds, round) << "not back on the bus before its time";
  }
}

TEST_F(UsbDevice, a_dead_control_endpoint_is_an_error_with_a_name) {
  make_bus();
  bus->push(HostEvent::kDead);
  const auto ready = gadget->wait_session(soon_ns(kSecond));
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.code(), Code::kDevice);
  EXPECT_TRUE(gadget->dead());
}

TEST(UsbGadgetState, ends_what_was_open_and_nothing_else) {
  struct Step {
    HostEvent event;
    Io end;
    bool open;
  };
  const std::vector<std::vector<Step>> stories = {
      {{HostEvent::kOpened, Io::kDone, false}},  // not configured: nothing is open
      {{HostEvent::kEnabled, Io::kDone, false},
       {HostEvent::kOpened, Io::kDone, true},
       {HostEvent::kSuspended, Io::kDone, true},
       {HostEvent::kResumed, Io::kDone, true},
       {HostEvent::kStalled, Io::kDone, true},
       {HostEvent::kClosed, Io::kClosed, false},
       {HostEvent::kClosed, Io::kDone, false},
       {HostEvent::kOpened, Io::kDone, true},
       {HostEvent::kDisabled, Io::kGone, false},
       {HostEvent::kDisabled, Io::kDone, false}},
      {{HostEvent::kEnabled, Io::kDone, false},
       {HostEvent::kEnabled, Io::kDone, false},
       {HostEvent::kOpened, Io::kDone, true},
       {HostEvent::kOpened, Io::kReset, true},
       {HostEvent::kEnabled, Io::kReset, false},
       {HostEvent::kOpened, Io::kDone, true},
       {HostEvent::kDead, Io::kGone, false}}};
  for (const auto& story : stories) {
    GadgetState state;
    int at = 0;
    for (const Step& step : story) {
      EXPECT_EQ(state.on(step.event), step.end) << at;
      EXPECT_EQ(state.open(), step.open) << at++;
    }
  }
}

}  // namespace
}  // namespace outrider::link::usb
