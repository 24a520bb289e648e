// Fuzzer bytes as a stream of messages whose checksums are true, so that what stands behind the
// checksum is reached, and a mutator that works on whole messages.
//
// A message of the input: u8 type, u8 tweak, u16 body bytes, u16 payload bytes, then both. Tweak:
// bit 0 asks for an answer, bits 1..2 the epoch (0: none, else that number), bit 7 damages the
// content after its checksum was made. The last message takes what is left.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "link/transport/transport.h"
#include "link/wire/codec.h"
#include "link/wire/crc32c.h"
#include "link/wire/messages.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace outrider::link::fuzz {

struct Part {
  uint8_t type = 0, tweak = 0;
  std::vector<uint8_t> body, payload;
};
inline constexpr size_t kPartHeadBytes = 6, kMostParts = 24;

inline std::vector<Part> parts_of(std::span<const uint8_t> in) {
  std::vector<Part> parts;
  while (in.size() >= kPartHeadBytes && parts.size() < kMostParts) {
    Part part{in[0], in[1], {}, {}};
    const size_t body = in[2] | in[3] << 8, payload = in[4] | in[5] << 8;
    in = in.subspan(kPartHeadBytes);
    const size_t n = std::min(body, in.size());
    part.body.assign(in.begin(), in.begin() + static_cast<ptrdiff_t>(n));
    in = in.subspan(n);
    const size_t m = std::min(payload, in.size());
    part.payload.assign(in.begin(), in.begin() + static_cast<ptrdiff_t>(m));
    in = in.subspan(m);
    parts.push_back(std::move(part));
  }
  return parts;
}

inline std::vector<uint8_t> bytes_of(const std::vector<Part>& parts) {
  std::vector<uint8_t> out;
  for (const Part& part : parts) {
    const size_t body = std::min<size_t>(part.body.size(), 0xFFFF),
                 payload = std::min<size_t>(part.payload.size(), 0xFFFF);
    for (const size_t value : {size_t{part.type}, size_t{part.tweak}, body & 0xFF, body >> 8,
                               payload & 0xFF, payload >> 8})
      out.push_back(static_cast<uint8_t>(value));
    out.insert(out.end(), part.body.begin(), part.body.begin() + static_cast<ptrdiff_t>(body));
    out.insert(out.end(), part.payload.begin(),
               part.payload.begin() + static_cast<ptrdiff_t>(payload));
  }
  return out;
}

// As they stand on the wire.
inline std::vector<std::byte> framed(const std::vector<Part>& parts) {
  std::vector<std::byte> out;
  uint32_t n = 0;
  for (const Part& part : parts) {
    const auto body = std::as_bytes(std::span(part.body)),
               payload = std::as_bytes(std::span(part.payload));
    wire::Header header;
    header.type = part.type;
    header.version = part.type == wire::type_of<wire::Hello>() ? 0 : 1;
    header.flags = (part.tweak & 1) != 0 ? wire::kWantAnswer : 0;
    header.body_bytes = static_cast<uint32_t>(body.size());
    header.payload_bytes = static_cast<uint32_t>(payload.size());
    header.sequence = header.request_id = ++n;
    header.epoch = part.tweak >> 1 & 3;
    header.content_crc = wire::crc32c(payload, wire::crc32c(body));
    if ((part.tweak & 0x80) != 0) header.content_crc ^= 1;
    const size_t at = out.size();
    out.resize(at + wire::kHeaderBytes);
    wire::encode_header(header, std::span(out).subspan(at));
    out.insert(out.end(), body.begin(), body.end());
    out.insert(out.end(), payload.begin(), payload.end());
  }
  return out;
}

template <class M>
Part part_of(const M& message, uint8_t tweak = 0, std::span<const uint8_t> payload = {}) {
  std::vector<std::byte> body(wire::max_bytes<M>());
  body.resize(wire::encode(message, body));
  const auto* at = reinterpret_cast<const uint8_t*>(body.data());
  return {static_cast<uint8_t>(wire::type_of<M>()),
          tweak,
          {at, at + body.size()},
          {payload.begin(), payload.end()}};
}

// One of any type, with values drawn from the seed.
inline Part sample_part(uint64_t seed) {
  Part part;
  size_t index = 0;
  const size_t wanted = seed % std::tuple_size_v<wire::Messages>;
  wire::for_each_message([&]<class M>() {
    if (index++ == wanted) part = part_of(wire::sample<M>(seed));
  });
  part.tweak = static_cast<uint8_t>(seed >> 8 & 7);
  part.payload.resize(seed >> 16 & 0x7F, static_cast<uint8_t>(seed));
  return part;
}

// One change of a sequence: a message added, doubled, dropped, moved, or changed within. `make`
// gives a message of a seed.
template <class Make>
size_t mutate_parts(uint8_t* data, size_t size, size_t max_size, unsigned int seed, Make&& make) {
  std::vector<Part> parts = parts_of({data, size});
  const uint64_t draw = uint64_t{seed} * 0x9E3779B97F4A7C15ull;
  const size_t at = parts.empty() ? 0 : (draw >> 32) % parts.size();
  const auto here = parts.begin() + static_cast<ptrdiff_t>(at);
  switch (parts.empty() ? 0 : seed % 8) {
    case 0:
    case 1:
      parts.insert(here, make(draw >> 8));
      break;
    case 2:
      parts.push_back(make(draw >> 8));
      break;
    case 3:
      parts.insert(here, Part(*here));
      break;
    case 4:
      parts.erase(here);
      break;
    case 5:
      std::swap(*here, parts[(draw >> 48) % parts.size()]);
      break;
    case 6:
      here->tweak = static_cast<uint8_t>(draw >> 40);
      break;
    default: {
      std::vector<uint8_t>& bytes = (draw >> 20) % 4 == 0 ? here->payload : here->body;
      const size_t n = bytes.size();
      bytes.resize(n + 64);
      bytes.resize(LLVMFuzzerMutate(bytes.data(), n, n + 64));
    }
  }
  const std::vector<uint8_t> out = bytes_of(parts);
  if (out.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(out.begin(), out.end(), data);
  return out.size();
}

// Gives bytes in steps, then ends. What is sent to it is thrown away.
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

}  // namespace outrider::link::fuzz
