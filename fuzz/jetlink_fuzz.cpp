// Everything of the Jetlink dialect that reads what a peer sent. The first byte chooses. What a
// reader accepts must be written to something that reads the same again.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "base/assert.h"
#include "link/jetlink/datagram.h"
#include "link/jetlink/payloads.h"
#include "link/jetlink/stream.h"

namespace outrider::link::jetlink {
namespace {

// Gives the input in steps, then ends.
class Feed final : public Transport {
 public:
  Feed(std::span<const std::byte> bytes, size_t step) : bytes_(bytes), step_(step) {}
  Moved send(std::span<const Piece>, int64_t) noexcept override { return {Io::kClosed, 0}; }
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

void try_stream(std::span<const std::byte> bytes, size_t step, uint32_t grid) {
  Stream stream(std::make_unique<Feed>(bytes, step), 0, grid);
  Message message;
  size_t total = 0;
  Got got;
  while ((got = stream.read(message, 0)) == Got::kMessage) {
    total += kHeaderBytes + message.payload.size();
    OUTRIDER_ASSERT(total <= bytes.size());
    OUTRIDER_ASSERT(message.header.version == stream.version());
  }
  OUTRIDER_ASSERT(stream.read(message, 0) == got);  // an end is an end
}

void try_datagrams(std::span<const std::byte> bytes) {
  Assembler assembler;
  assembler.begin(0x01010101);
  while (bytes.size() >= 2) {
    const size_t n = std::min<size_t>(bytes.size() - 2, std::to_integer<size_t>(bytes[0]) |
                                                            std::to_integer<size_t>(bytes[1]) << 8);
    if (assembler.take(bytes.subspan(2, n))) {
      Header header;
      OUTRIDER_ASSERT(decode_header(assembler.message(), header) == HeaderState::kGood);
      OUTRIDER_ASSERT(assembler.message().size() >= kHeaderBytes + header.length);
    }
    bytes = bytes.subspan(2 + n);
  }
}

// Reads, writes, reads again: the second writing must be the first.
template <class Read>
void try_json(const Json& json, Read read) {
  auto first = read(json);
  if (!first) return;
  const std::string text = to_json(first.value());
  auto again = parse_payload(std::as_bytes(std::span(text)));
  OUTRIDER_ASSERT(again);
  auto second = read(again.value());
  OUTRIDER_ASSERT(second);
  OUTRIDER_ASSERT(to_json(second.value()) == text);
}

void try_payload(std::span<const std::byte> bytes) {
  auto json = parse_payload(bytes);
  if (!json) return;
  try_json(json.value(), read_hello_req);
  try_json(json.value(), read_hello_resp);
  try_json(json.value(), read_engine_req);
  try_json(json.value(), read_engine_resp);
  try_json(json.value(), read_error);
  try_json(json.value(), read_shutdown_resp);
  try_json(json.value(), spec_from_json);
  (void)read_progress(json.value());
  (void)leave_text(json.value());
  if (auto spec = spec_from_json(json.value()))
    if (auto sizes = sizes_of(spec.value())) {
      OUTRIDER_ASSERT(sizes.value().request_bytes(kVersion2) <= kMaxPayloadBytes);
      OUTRIDER_ASSERT(sizes.value().hidden_stop <= sizes.value().output);
    }
}

}  // namespace
}  // namespace outrider::link::jetlink

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider::link::jetlink;
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 4) {
    case 0:
      try_stream(rest, 1u << (data[0] >> 4), 1);
      break;
    case 1:
      try_stream(rest, 4096, kGadgetGrid);
      break;
    case 2:
      try_datagrams(rest);
      break;
    default:
      try_payload(rest);
  }
  return 0;
}

// Whole messages, pieces and payloads are what mutation starts from.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  using namespace outrider::link::jetlink;
  if (seed % 4 != 0 || max_size < 4096) return LLVMFuzzerMutate(data, size, max_size);
  static const std::string kPayloads[] = {
      R"({"client":{"name":"modeld","nonce":"0123abcd","link":{"kind":"cable","usb_speed":"x"}}})",
      R"({"sha256":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","nbytes":7,)"
      R"("frame_skip":4,"checkpoint":null,"input_shapes":{"img":[1,12,8,16],"big_img":[1,12,8,16],)"
      R"("desire_pulse":[1,3,8],"traffic_convention":[1,2],"action_t":[1,2],)"
      R"("features_buffer":[1,2,2,2]},"output_shapes":{"outputs":[1,20]},)"
      R"("output_slices":{"hidden_state":[-8,null]}})",
      R"({"state":"ready","detail":"","sha256":null,"chunk":4194304})",
      R"({"protocol":3,"loaded":null,"cached_models":[],"frame_port":5600,"frame_token":7})",
      R"({"reason":"behind","drops":1,"p99_ms":41.5})"};
  std::string out(1, static_cast<char>(3));
  const std::string& payload = kPayloads[seed / 4 % std::size(kPayloads)];
  if (seed / 4 % 3 == 0) {
    out += payload;
  } else {
    Header header{seed % 8 == 0 ? kVersion2 : kVersion3, static_cast<uint16_t>(seed / 16 % 20),
                  seed, 0, static_cast<uint32_t>(payload.size())};
    const uint32_t pad = add_pad(header, 1);
    std::array<std::byte, kHeaderBytes> head;
    encode_header(header, head);
    std::string message(reinterpret_cast<const char*>(head.data()), head.size());
    message += payload + std::string(pad, '\0');
    if (seed / 4 % 3 == 1) {
      out = std::string(1, static_cast<char>(seed & 0xF0)) + message;
    } else {
      std::array<std::byte, kPieceHeadBytes> piece;
      encode(PieceHead{kDatagramMagic, 0x01010101, seed, 0, static_cast<uint32_t>(message.size())},
             piece);
      const size_t n = piece.size() + message.size();
      out = {2, static_cast<char>(n & 255), static_cast<char>(n >> 8)};
      out += std::string(reinterpret_cast<const char*>(piece.data()), piece.size()) + message;
    }
  }
  const size_t n = std::min(out.size(), max_size);
  std::memcpy(data, out.data(), n);
  return seed % 8 == 0 ? n : LLVMFuzzerMutate(data, n, max_size);
}
