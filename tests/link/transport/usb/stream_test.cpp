// Device and host over a bus that keeps packet rules: what goes in comes out.
#include "link/transport/usb/fixture.h"

namespace outrider::link::usb {
namespace {

using UsbStream = UsbPair;

constexpr size_t kSizes[] = {1,     63,    64,      65,       511,           512,
                             513,   1023,  1024,    1025,     8191,          16383,
                             16384, 16385, 393'304, 1u << 20, (1u << 20) + 1};

size_t on_grid(size_t bytes) {
  return (bytes + kGridBytes - 1) / kGridBytes * kGridBytes;
}

// FC-39: every size in both directions, with both packet sizes and with readers that ask for less
// and for more than a message.
TEST_F(UsbStream, FC39_every_size_goes_through_in_both_directions) {
  for (uint32_t max_packet : {64u, 512u, 1024u}) {
    bus.reset();
    SCOPED_TRACE(max_packet);
    connect(max_packet);
    for (size_t ask : {size_t{1000}, size_t{1} << 21}) {
      uint32_t seed = 1;
      for (size_t bytes : kSizes) {
        const auto down = pattern(bytes, ++seed), up = pattern(on_grid(bytes), ++seed);
        std::thread sender([&] {
          ASSERT_EQ(send_all(*host, down, soon_ns(kSecond)).bytes, bytes);
          ASSERT_EQ(send_all(*device, up, soon_ns(kSecond)).bytes, up.size());
        });
        EXPECT_EQ(receive_exactly(*device, bytes, ask, soon_ns(2 * kSecond)), down) << bytes;
        EXPECT_EQ(receive_exactly(*host, up.size(), ask, soon_ns(2 * kSecond)), up) << bytes;
        sender.join();
      }
    }
    std::byte one;
    EXPECT_EQ(device->receive(std::span(&one, 1), 0).io, Io::kLate) << "nothing is left over";
    EXPECT_EQ(host->receive(std::span(&one, 1), 0).io, Io::kLate);
    device.reset(), host.reset(), session.reset(), gadget.reset();
  }
}

TEST_F(UsbStream, pieces_are_one_message) {
  connect();
  const auto whole = pattern(2 * kGridBytes, 5);
  std::vector<Piece> pieces;
  const std::span<const std::byte> all(whole);
  for (size_t at = 0, step = 1; at < whole.size(); at += step, step = step * 2 + 1) {
    step = std::min(step, whole.size() - at);
    pieces.push_back(all.subspan(at, step)), pieces.push_back({});
  }
  ASSERT_EQ(device->send(pieces, soon_ns(kSecond)).bytes, whole.size());
  ASSERT_EQ(host->send(pieces, soon_ns(kSecond)).bytes, whole.size());
  EXPECT_EQ(receive_exactly(*host, whole.size(), 4096, soon_ns(kSecond)), whole);
  EXPECT_EQ(receive_exactly(*device, whole.size(), 4096, soon_ns(kSecond)), whole);
}

TEST_F(UsbStream, facts_say_what_a_sender_must_know) {
  connect();
  EXPECT_EQ(device->facts().pad_grid_bytes, kGridBytes);
  EXPECT_EQ(host->facts().pad_grid_bytes, 1u);
  EXPECT_STREQ(device->facts().peer, "usb:T1");
  EXPECT_STREQ(host->facts().peer, "usb:T1");
  EXPECT_EQ(host->facts().speed_mbit_s, 5000u);
  EXPECT_TRUE(device->facts().encrypted && host->facts().encrypted);
}

TEST_F(UsbStream, a_message_off_the_grid_is_refused_before_a_byte_leaves) {
  connect();
  for (size_t bytes : {size_t{1}, size_t{512}, size_t{kGridBytes - 1}, size_t{kGridBytes + 512}}) {
    const auto off = pattern(bytes, 1);
    const Moved moved = send_all(*device, off, soon_ns(kSecond));
    EXPECT_EQ(moved.io, Io::kBroken) << bytes;
    EXPECT_EQ(moved.bytes, 0u);
  }
  const auto good = pattern(kGridBytes, 2);
  EXPECT_EQ(send_all(*device, good, soon_ns(kSecond)).io, Io::kDone);
  EXPECT_EQ(receive_exactly(*host, kGridBytes, kGridBytes, soon_ns(kSecond)), good);
}

// A controller was seen to hand a whole request over twice. The stream stays in step: both copies
// come out whole, and the messages above tell them apart by their number.
TEST_F(UsbStream, a_replayed_message_arrives_whole_twice) {
  connect();
  const auto first = pattern(kGridBytes, 1), second = pattern(kGridBytes, 2);
  const auto turn = bus->turn();
  ASSERT_EQ(send_all(*device, first, soon_ns(kSecond)).io, Io::kDone);
  EXPECT_EQ(receive_exactly(*host, kGridBytes, kGridBytes, soon_ns(kSecond)), first);
  for (size_t at = 0; at < first.size(); at += 512)
    ASSERT_TRUE(put_packet(*turn, turn->in[0], std::span(first).subspan(at, 512), kForever));
  ASSERT_EQ(send_all(*device, second, soon_ns(kSecond)).io, Io::kDone);
  EXPECT_EQ(receive_exactly(*host, kGridBytes, 777, soon_ns(kSecond)), first);
  EXPECT_EQ(receive_exactly(*host, kGridBytes, 777, soon_ns(kSecond)), second);
}

// FC-39: stray empty packets in both directions.
TEST_F(UsbStream, FC39_stray_empty_packets_change_nothing) {
  connect();
  const auto turn = bus->turn();
  const auto message = pattern(kGridBytes, 3);
  for (int round = 0; round < 40; ++round) {
    ASSERT_TRUE(put_packet(*turn, turn->in[0], {}, kForever));
    ASSERT_TRUE(put_packet(*turn, turn->out[1], {}, kForever));
    ASSERT_EQ(send_all(*device, message, soon_ns(kSecond)).io, Io::kDone);
    ASSERT_EQ(send_all(*host, message, soon_ns(kSecond)).io, Io::kDone);
    ASSERT_EQ(receive_exactly(*host, kGridBytes, 5000, soon_ns(kSecond)), message) << round;
    ASSERT_EQ(receive_exactly(*device, kGridBytes, 5000, soon_ns(kSecond)), message) << round;
  }
}

TEST_F(UsbStream, both_directions_at_once_for_eight_megabytes) {
  connect(1024);
  const auto down = pattern(1 << 18, 1), up = pattern(1 << 18, 2);
  constexpr int kRounds = 32;
  std::thread host_sends([&] {
    for (int i = 0; i < kRounds; ++i) ASSERT_EQ(send_all(*host, down, kForever).io, Io::kDone);
  });
  std::thread device_sends([&] {
    for (int i = 0; i < kRounds; ++i) ASSERT_EQ(send_all(*device, up, kForever).io, Io::kDone);
  });
  std::thread host_receives([&] {
    for (int i = 0; i < kRounds; ++i)
      ASSERT_EQ(receive_exactly(*host, up.size(), 50'000, soon_ns(20 * kSecond)), up) << i;
  });
  for (int i = 0; i < kRounds; ++i)
    ASSERT_EQ(receive_exactly(*device, down.size(), 50'000, soon_ns(20 * kSecond)), down) << i;
  host_sends.join(), device_sends.join(), host_receives.join();
}

}  // namespace
}  // namespace outrider::link::usb
