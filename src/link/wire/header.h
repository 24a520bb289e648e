// The 80 bytes in front of every message, and what may follow them.
//
//   header (80)  body (body_bytes, the fields of the table)  payload (payload_bytes, raw)  pad
//
// Resync rule: a header is one only when magic and header_crc agree. A reader that finds none takes
// bytes away one by one until it does, and counts them. Content that fails content_crc is dropped
// whole and never delivered; the header still says which request it belonged to.
#pragma once
#include "link/wire/codec.h"

namespace outrider::link::wire {

inline constexpr uint32_t kMagic = 0x4C54554F;  // bytes "OUTL"
inline constexpr size_t kHeaderBytes = 80;
// No body is longer; no payload of any type either. Types and ports narrow both further.
inline constexpr uint32_t kMaxBodyBytes = 1u << 20;
inline constexpr uint32_t kMaxPayloadBytes = 1u << 28;
inline constexpr uint32_t kMaxPadBytes = 1u << 16;

// Header flags.
inline constexpr uint8_t kMustKnow = 1;    // a receiver that does not know the type answers FAULT
inline constexpr uint8_t kWantAnswer = 2;  // the sender waits for an answer to this message

struct Header {
  uint32_t magic = kMagic;
  uint16_t type = 0;
  uint8_t version = 0;
  uint8_t flags = 0;
  uint32_t body_bytes = 0, payload_bytes = 0, pad_bytes = 0;
  uint32_t sequence = 0;
  uint64_t request_id = 0;
  uint32_t epoch = 0, content_crc = 0;
  int64_t captured_ns = 0, sent_ns = 0, echo_sent_ns = 0, echo_received_ns = 0;
  uint32_t reserved = 0, header_crc = 0;

  static constexpr auto wire_table() {
    return record(
        field<&Header::magic>("magic", "bytes 4F 55 54 4C, \"OUTL\""),
        field<&Header::type>("type", "which message; the tables below"),
        field<&Header::version>("version", "wire version agreed on at hello; 0 in the two hellos"),
        field<&Header::flags>(
            "flags", "1: answer FAULT when the type is unknown; 2: an answer is waited for"),
        field<&Header::body_bytes>("body_bytes", "length of the fields", {.max = kMaxBodyBytes}),
        field<&Header::payload_bytes>("payload_bytes", "length of the raw bytes behind them",
                                      {.max = kMaxPayloadBytes}),
        field<&Header::pad_bytes>("pad_bytes",
                                  "zero bytes behind the payload, for media with a grid",
                                  {.max = kMaxPadBytes}),
        field<&Header::sequence>("sequence", "1 for a sender's first message, then one more each"),
        field<&Header::request_id>(
            "request_id",
            "chosen by the asking side, never used twice on a connection; an "
            "answer carries it back; 0: belongs to no request"),
        field<&Header::epoch>("epoch",
                              "owner epoch of the runtime; what carries an older one is dropped"),
        field<&Header::content_crc>("content_crc", "CRC-32C of body and payload"),
        field<&Header::captured_ns>(
            "captured_ns",
            "when the newest input of this work was captured, device clock, ns; 0: unknown"),
        field<&Header::sent_ns>("sent_ns", "the sender's monotonic clock when it sent this, ns"),
        field<&Header::echo_sent_ns>(
            "echo_sent_ns", "sent_ns of the last message the sender received; 0: none yet"),
        field<&Header::echo_received_ns>("echo_received_ns",
                                         "when that came, the sender's clock, ns"),
        field<&Header::reserved>("reserved", "0, ignored"),
        field<&Header::header_crc>("header_crc", "CRC-32C of the 76 bytes before it"));
  }
  bool operator==(const Header&) const = default;
};
static_assert(max_bytes<Header>() == kHeaderBytes);

// [hot] Fills in header_crc. `out` holds kHeaderBytes.
void encode_header(const Header& header, std::span<std::byte> out) noexcept;

enum class HeaderState : uint8_t { kGood, kNoHeader, kTooLong };
// [hot] kNoHeader: magic or header_crc disagree. kTooLong: a true header of a peer that breaks a
// limit. `in` holds kHeaderBytes.
HeaderState decode_header(std::span<const std::byte> in, Header& header) noexcept;

// Pad bytes that bring a message up to a multiple of the grid.
constexpr uint32_t pad_for(uint64_t bytes, uint32_t grid) {
  return grid <= 1 ? 0 : static_cast<uint32_t>((grid - bytes % grid) % grid);
}

}  // namespace outrider::link::wire
