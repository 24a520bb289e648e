// Every decoder of the wire, and a channel that reads the bytes as they come. The first byte
// chooses. What a decoder accepts must encode to a message that decodes to the same again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "link/wire/channel.h"

namespace outrider::link::wire {
namespace {

template <class M>
void try_decode(std::span<const std::byte> body) {
  M message;
  if (!decode(body, message)) return;
  std::vector<std::byte> again(max_bytes<M>());
  again.resize(encode(message, again));
  M same;
  auto read = decode(std::span<const std::byte>(again), same);
  OUTRIDER_ASSERT(read);
  OUTRIDER_ASSERT(same == message);
  OUTRIDER_ASSERT(!print(message).empty());
}

// Gives the input byte for byte, then ends.
class Feed final : public Transport {
 public:
  explicit Feed(std::span<const std::byte> bytes, size_t step) : bytes_(bytes), step_(step) {}
  Moved send(std::span<const Piece> pieces, int64_t) noexcept override {
    Moved moved;
    for (const Piece& piece : pieces) moved.bytes += piece.size();
    return moved;
  }
  Moved receive(std::span<std::byte> into, int64_t) noexcept override {
    const size_t n = std::min({into.size(), bytes_.size(), step_});
    if (n == 0) return {Io::kClosed, 0};
    std::memcpy(into.data(), bytes_.data(), n);
    bytes_ = bytes_.subspan(n);
    return {Io::kDone, n};
  }
  void shut() noexcept override {}
  const TransportFacts& facts() const noexcept override { return facts_; }

 private:
  std::span<const std::byte> bytes_;
  size_t step_;
  TransportFacts facts_;
};

class Place final : public PayloadPlace {
 public:
  std::span<std::byte> place(const Header&, std::span<const std::byte>) override { return room_; }

 private:
  std::vector<std::byte> room_ = std::vector<std::byte>(4096);
};

void try_channel(std::span<const std::byte> bytes, size_t step) {
  const ManualClock clock;
  Channel channel(std::make_unique<Feed>(bytes, step), clock);
  Place place;
  Incoming in;
  for (;;) {
    const Got got = channel.receive(in, &place, 0);
    if (got != Got::kMessage && got != Got::kCorrupted) break;
    if (got == Got::kCorrupted) OUTRIDER_ASSERT(in.body.empty() && in.payload.empty());
    OUTRIDER_ASSERT(in.header.payload_bytes <= Probe::kMaxBytes || in.payload.empty());
  }
  OUTRIDER_ASSERT(channel.counters().received_bytes <= bytes.size());
}

}  // namespace
}  // namespace outrider::link::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider::link::wire;
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data + 1, size - 1));
  if (data[0] >= 0xF0) {
    try_channel(rest, 1u << (data[0] & 7));
    return 0;
  }
  size_t index = 0;
  for_each_message([&]<class M>() {
    if (index++ == data[0] % std::tuple_size_v<Messages>) try_decode<M>(rest);
  });
  return 0;
}

// Valid messages of every type are what mutation starts from: without them a CRC lets nothing by.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  using namespace outrider::link::wire;
  if (seed % 4 != 0 || max_size < 4096) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::byte> out;
  const uint64_t wanted = seed / 4 % std::tuple_size_v<Messages>;
  size_t index = 0;
  const bool framed = seed / 4 % 3 == 0;
  for_each_message([&]<class M>() {
    if (index++ != wanted) return;
    std::vector<std::byte> body(max_bytes<M>());
    body.resize(encode(sample<M>(seed), body));
    out.push_back(framed ? std::byte(0xF0 | (seed & 7)) : std::byte(wanted));
    if (framed) {
      Header header;
      header.type = type_of<M>();
      header.body_bytes = static_cast<uint32_t>(body.size());
      header.payload_bytes = seed % 100;
      std::vector<std::byte> head(kHeaderBytes);
      encode_header(header, head);
      out.insert(out.end(), head.begin(), head.end());
      body.resize(body.size() + header.payload_bytes);
    }
    out.insert(out.end(), body.begin(), body.end());
  });
  const size_t n = std::min(out.size(), max_size);
  std::memcpy(data, out.data(), n);
  return seed % 8 == 0 ? n : LLVMFuzzerMutate(data, n, max_size);
}
