// Every decoder of the wire, and a channel. The first byte chooses: one decoder; a channel that
// reads the bytes as they come; a channel that reads messages of such contents with true checksums.
// What a decoder accepts must encode to a message that decodes to the same again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "fuzz/link_frames.h"
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

class Place final : public PayloadPlace {
 public:
  std::span<std::byte> place(const Header&, std::span<const std::byte>) override { return room_; }

 private:
  std::vector<std::byte> room_ = std::vector<std::byte>(4096);
};

// Returns how many messages were delivered.
size_t try_channel(std::span<const std::byte> bytes, size_t step) {
  const ManualClock clock;
  Channel channel(std::make_unique<fuzz::Feed>(bytes, step), clock);
  size_t n = 0;
  Place place;
  Incoming in;
  for (;;) {
    const Got got = channel.receive(in, &place, 0);
    if (got != Got::kMessage && got != Got::kCorrupted) break;
    if (got == Got::kCorrupted) OUTRIDER_ASSERT(in.body.empty() && in.payload.empty());
    OUTRIDER_ASSERT(in.header.payload_bytes <= Probe::kMaxBytes || in.payload.empty());
    if (got == Got::kMessage) {
      ++n;
      OUTRIDER_ASSERT(in.body.size() == in.header.body_bytes);
      for_each_message([&]<class M>() {
        if (type_of<M>() == in.header.type) try_decode<M>(in.body);
      });
    }
  }
  OUTRIDER_ASSERT(channel.counters().received_bytes <= bytes.size());
  return n;
}

}  // namespace
}  // namespace outrider::link::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider::link::wire;
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data + 1, size - 1));
  const size_t step = size_t{1} << (data[0] & 7);
  if (data[0] >= 0xF0) {
    const auto parts = outrider::link::fuzz::parts_of({data + 1, size - 1});
    try_channel(outrider::link::fuzz::framed(parts), step);
    return 0;
  }
  if (data[0] >= 0xE0) {
    try_channel(rest, step);
    return 0;
  }
  size_t index = 0;
  for_each_message([&]<class M>() {
    if (index++ == data[0] % std::tuple_size_v<Messages>) try_decode<M>(rest);
  });
  return 0;
}

// Valid messages of every type are what mutation starts from.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  namespace fuzz = outrider::link::fuzz;
  if (max_size < 4096 || seed % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const auto keep = [&](uint8_t first, const auto& bytes) {
    const size_t n = std::min(bytes.size(), max_size - 1);
    data[0] = first;
    std::memcpy(data + 1, bytes.data(), n);
    return n + 1;
  };
  if (size > 1 && data[0] >= 0xF0)
    return 1 + fuzz::mutate_parts(data + 1, size - 1, max_size - 1, seed / 16, fuzz::sample_part);
  const fuzz::Part part = fuzz::sample_part(seed / 16);
  if (seed % 4 == 0)
    return keep(static_cast<uint8_t>(0xF0 | (seed >> 8 & 7)), fuzz::bytes_of({part}));
  if (seed % 4 == 1)  // on the wire, to be damaged by what comes later
    return keep(static_cast<uint8_t>(0xE0 | (seed >> 8 & 7)), fuzz::framed({part}));
  if (seed % 4 == 2)
    return keep(static_cast<uint8_t>(seed / 16 % std::tuple_size_v<outrider::link::wire::Messages>),
                part.body);
  return LLVMFuzzerMutate(data, size, max_size);
}
