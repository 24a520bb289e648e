// FC-39: exact multiples of the packet size through everything that stands above a cable: messages
// with their checks, and encrypted records.
#include "link/wire/channel.h"

#include <cstring>

#include "base/clock.h"
#include "link/secure/secure.h"
#include "link/transport/usb/fixture.h"

namespace outrider::link::usb {
namespace {

const Clock& real_clock() {
  static constinit const MonotonicClock kClock;
  return kClock;
}

struct Into final : wire::PayloadPlace {
  std::vector<std::byte> bytes = std::vector<std::byte>(2 << 20);
  std::span<std::byte> place(const wire::Header&, std::span<const std::byte>) override {
    return bytes;
  }
};

// One message with that payload, whole and as it was sent.
void expect_through(wire::Channel& from, wire::Channel& to, Into& into, size_t n_bytes,
                    uint64_t id) {
  const auto payload = pattern(n_bytes, static_cast<uint32_t>(id));
  wire::StoreChunk message;  // of the same form in both directions
  message.offset = id;
  const Piece piece(payload);
  Io sent = Io::kLate;
  std::thread sender([&] {
    sent = from.send(message, {id, 0, 0, 0}, {&piece, payload.empty() ? 0u : 1u},
                     soon_ns(5 * kSecond));
  });
  wire::Incoming in;
  const wire::Got got = to.receive(in, &into, soon_ns(5 * kSecond));
  sender.join();
  ASSERT_EQ(sent, Io::kDone) << n_bytes;
  ASSERT_EQ(got, wire::Got::kMessage) << n_bytes;
  EXPECT_EQ(in.header.request_id, id);
  ASSERT_EQ(in.payload.size(), n_bytes);
  EXPECT_TRUE(n_bytes == 0 || std::memcmp(in.payload.data(), payload.data(), n_bytes) == 0)
      << n_bytes;
}

// Payloads of these sizes, and those with which header, body and payload together have them.
std::vector<size_t> sizes(uint32_t packet_bytes) {
  std::vector<size_t> wanted = {0, 1};
  for (const size_t around : {size_t{packet_bytes}, size_t{2} * packet_bytes, size_t{kGridBytes},
                              size_t{2} * kGridBytes, size_t{4} * kGridBytes, size_t{1} << 20})
    for (const size_t size : {around - 1, around, around + 1}) wanted.push_back(size);
  const size_t head = wire::kHeaderBytes + wire::max_bytes<wire::StoreChunk>();
  const size_t n = wanted.size();
  for (size_t i = 0; i < n; ++i)
    if (wanted[i] >= head) wanted.push_back(wanted[i] - head);
  std::erase_if(wanted, [](size_t size) { return size > wire::kMaxStoreChunkBytes; });
  return wanted;
}

class UsbChannel : public UsbPair {
 protected:
  void through_every_size(uint32_t packet_bytes) {
    wire::Channel at_device(std::move(device), real_clock());
    wire::Channel at_host(std::move(host), real_clock());
    Into into;
    uint64_t id = 0;
    for (const size_t n_bytes : sizes(packet_bytes)) {
      ASSERT_NO_FATAL_FAILURE(expect_through(at_host, at_device, into, n_bytes, ++id));
      ASSERT_NO_FATAL_FAILURE(expect_through(at_device, at_host, into, n_bytes, ++id));
    }
    EXPECT_GT(id, 40u);
    for (const wire::Channel* channel : {&at_device, &at_host}) {
      const wire::ChannelCounters& c = channel->counters();
      EXPECT_EQ(c.sent, id / 2);
      EXPECT_EQ(c.received, id / 2);
      EXPECT_EQ(c.corrupted + c.resyncs + c.skipped_bytes + c.gaps + c.unknown, 0u);
    }
    wire::Incoming in;  // nothing is left over at a multiple
    EXPECT_EQ(at_device.receive(in, &into, soon_ns(20 * kMs)), wire::Got::kLate);
    EXPECT_EQ(at_host.receive(in, &into, soon_ns(20 * kMs)), wire::Got::kLate);
  }
  void leave() { device.reset(), host.reset(), session.reset(), gadget.reset(), bus.reset(); }
};

TEST_F(UsbChannel, FC39_messages_of_every_size_go_through_in_both_directions) {
  for (const uint32_t packet_bytes : {64u, 512u, 1024u}) {
    SCOPED_TRACE(packet_bytes);
    ASSERT_NO_FATAL_FAILURE(connect(packet_bytes));
    ASSERT_NO_FATAL_FAILURE(through_every_size(packet_bytes));
    leave();
  }
}

TEST_F(UsbChannel, FC39_encrypted_messages_of_every_size_go_through_in_both_directions) {
  SharedKey key;
  for (size_t i = 0; i < key.bytes.size(); ++i) key.bytes[i] = static_cast<unsigned char>(i * 7);
  for (const uint32_t packet_bytes : {512u, 1024u}) {
    SCOPED_TRACE(packet_bytes);
    ASSERT_NO_FATAL_FAILURE(connect(packet_bytes));
    Result<std::unique_ptr<Transport>> there = make_error(Code::kNotReady, "not asked");
    std::thread other([&] { there = secure_as_host(std::move(host), key, soon_ns(5 * kSecond)); });
    auto here = secure_as_device(std::move(device), key, soon_ns(5 * kSecond));
    other.join();
    ASSERT_TRUE(here) << here.error().text;
    ASSERT_TRUE(there) << there.error().text;
    device = std::move(here.value()), host = std::move(there.value());
    ASSERT_NO_FATAL_FAILURE(through_every_size(packet_bytes));
    leave();
  }
}

// Empty packets between the packets of messages belong to nobody.
TEST_F(UsbChannel, FC39_stray_empty_packets_between_messages_change_nothing) {
  ASSERT_NO_FATAL_FAILURE(connect());
  const auto turn = bus->turn();
  wire::Channel at_device(std::move(device), real_clock());
  wire::Channel at_host(std::move(host), real_clock());
  Into into;
  uint64_t id = 0;
  for (const size_t n_bytes : {size_t{0}, size_t{512}, size_t{kGridBytes}, size_t{100'000}}) {
    ASSERT_TRUE(put_packet(*turn, turn->in[0], {}, kForever));
    ASSERT_TRUE(put_packet(*turn, turn->out[1], {}, kForever));
    ASSERT_NO_FATAL_FAILURE(expect_through(at_host, at_device, into, n_bytes, ++id));
    ASSERT_NO_FATAL_FAILURE(expect_through(at_device, at_host, into, n_bytes, ++id));
  }
  EXPECT_EQ(at_device.counters().skipped_bytes + at_host.counters().skipped_bytes, 0u);
}

}  // namespace
}  // namespace outrider::link::usb
