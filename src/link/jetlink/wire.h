// The Jetlink wire: 32 bytes in front of every message, one row per message, the padding rules.
//
//   header (32)  payload (length bytes)  pad
//
// Nothing is negotiated: the version of the first header of a connection is the version of all of
// it (2 or 3). There is no checksum and no way back into step: a header that is none ends the
// stream for good. Little endian throughout.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"

namespace outrider::link::jetlink {

inline constexpr uint32_t kMagic = 0x4B4E4C4A;  // bytes 4A 4C 4E 4B, "JLNK"
inline constexpr size_t kHeaderBytes = 32;
inline constexpr uint32_t kMaxPayloadBytes = 16u << 20;
inline constexpr uint16_t kVersion2 = 2, kVersion3 = 3;
inline constexpr uint32_t kPadded = 0x80;  // the only flag of a header: one pad byte follows
// A gadget fills every message up to a multiple of this and sets no flag; 1: it does not pad.
inline constexpr uint32_t kGadgetGrid = 16384;
inline constexpr uint16_t kDefaultPort = 5599;
inline constexpr uint32_t kUploadChunkBytes = 4u << 20;

enum class Type : uint16_t {
  kHelloReq = 1,
  kHelloResp = 2,
  kEngineReq = 3,
  kEngineResp = 4,
  kUploadChunk = 5,
  kUploadDone = 6,
  kProgress = 7,
  kInferReq = 8,
  kInferResp = 9,
  kStateReq = 12,
  kStateResp = 13,
  kError = 14,
  kPing = 15,
  kPong = 16,
  kShutdownReq = 17,
  kShutdownResp = 18,
  kLeave = 19,
};

enum class Body : uint8_t { kEmpty, kJson, kUpload, kFrame, kReply };

// One message. Who decodes asks the row before it looks at the payload.
struct Row {
  Type type;
  const char* name;
  bool from_client;
  Body body;
  uint32_t min_bytes, max_bytes;  // of the payload; for kFrame and kReply the model says more
  uint16_t since;                 // the oldest wire version that has it
  const char* meaning;
};
inline constexpr uint32_t kMaxJsonBytes = 64u << 10;   // of what a client may send
inline constexpr uint32_t kMaxReplyJson = 256u << 10;  // of what a server may send

inline constexpr Row kRows[] = {
    {Type::kHelloReq, "HELLO_REQ", true, Body::kJson, 0, kMaxJsonBytes, 2,
     "begins the session anew; may be empty"},
    {Type::kHelloResp, "HELLO_RESP", false, Body::kJson, 2, kMaxReplyJson, 2,
     "what the host is, has and has loaded"},
    {Type::kEngineReq, "ENGINE_REQ", true, Body::kJson, 2, kMaxJsonBytes, 2,
     "make this model ready"},
    {Type::kEngineResp, "ENGINE_RESP", false, Body::kJson, 2, kMaxReplyJson, 2,
     "state of the model; also unasked with seq 0"},
    {Type::kUploadChunk, "UPLOAD_CHUNK", true, Body::kUpload, 8, kMaxPayloadBytes, 2,
     "u64 offset, then bytes of the model file; not answered"},
    {Type::kUploadDone, "UPLOAD_DONE", true, Body::kJson, 0, kMaxJsonBytes, 2,
     "all bytes are there; answered with ENGINE_RESP"},
    {Type::kProgress, "PROGRESS", false, Body::kJson, 2, kMaxReplyJson, 2,
     "stage, fraction, words; seq 0"},
    {Type::kInferReq, "INFER_REQ", true, Body::kFrame, 8, kMaxPayloadBytes, 2,
     "one frame: warped pictures and packed numbers"},
    {Type::kInferResp, "INFER_RESP", false, Body::kReply, 20, kMaxPayloadBytes, 2,
     "status, times and outputs of one frame"},
    {Type::kStateReq, "STATE_REQ", true, Body::kJson, 0, kMaxJsonBytes, 2, "asks for STATE_RESP"},
    {Type::kStateResp, "STATE_RESP", false, Body::kJson, 2, kMaxReplyJson, 2,
     "telemetry and state"},
    {Type::kError, "ERROR", false, Body::kJson, 2, kMaxReplyJson, 2,
     "a code and words about the message of that seq"},
    {Type::kPing, "PING", true, Body::kEmpty, 0, kMaxJsonBytes, 2, "answered with PONG"},
    {Type::kPong, "PONG", false, Body::kEmpty, 0, kMaxJsonBytes, 2, "answer to PING"},
    {Type::kShutdownReq, "SHUTDOWN_REQ", true, Body::kJson, 0, kMaxJsonBytes, 2,
     "the host may power off"},
    {Type::kShutdownResp, "SHUTDOWN_RESP", false, Body::kJson, 2, kMaxReplyJson, 2,
     "whether it will, sent before it does"},
    {Type::kLeave, "LEAVE", true, Body::kJson, 0, kMaxJsonBytes, 3,
     "why the client stops, and what it measured; not answered"},
};
// nullptr: no such message in this version.
const Row* find_row(uint16_t type, uint16_t version) noexcept;

struct Header {
  uint16_t version = kVersion3;
  uint16_t type = 0;
  uint32_t seq = 0;
  uint32_t flags = 0;
  uint32_t length = 0;  // of the payload, pad excluded
  bool operator==(const Header&) const = default;
};

// [hot] `out` holds kHeaderBytes. Reserved bytes are zero.
void encode_header(const Header& header, std::span<std::byte> out) noexcept;

enum class HeaderState : uint8_t { kGood, kNoMagic, kOtherVersion, kTooLong };
// [hot] What is wrong first: magic, then version (2 and 3 are known), then length. Reserved bytes
// are ignored. `in` holds kHeaderBytes.
HeaderState decode_header(std::span<const std::byte> in, Header& header) noexcept;

// The multiple of bytes that no message of this version may end on.
constexpr uint32_t pad_multiple(uint16_t version) {
  return version == kVersion2 ? 1024 : 512;
}
// Pad bytes a sender appends; sets kPadded where the rule says so. `grid` 1: not a gadget.
constexpr uint32_t add_pad(Header& header, uint32_t grid) {
  const uint64_t bytes = kHeaderBytes + uint64_t{header.length};
  if (grid > 1) return static_cast<uint32_t>((grid - bytes % grid) % grid);
  if (bytes % pad_multiple(header.version) != 0) return 0;
  header.flags |= kPadded;
  return 1;
}
// Pad bytes a reader takes. `grid`: that of the sender.
constexpr uint32_t pad_of(const Header& header, uint32_t grid) {
  const uint64_t bytes = kHeaderBytes + uint64_t{header.length};
  if (grid > 1) return static_cast<uint32_t>((grid - bytes % grid) % grid);
  return (header.flags & kPadded) != 0 ? 1 : 0;
}

// Whether `seq` follows `last`; what does not is a repetition. Numbers wrap at 2^32.
constexpr bool is_newer(uint32_t seq, uint32_t last) {
  constexpr uint32_t kQuarter = 1u << 30;
  return seq > last || (last >= 3 * kQuarter && seq < kQuarter);
}

// ---- inference --------------------------------------------------------------------------------

inline constexpr uint32_t kResetQueues = 1, kWantState = 2, kWantHidden = 4;
inline constexpr size_t kFrameHeadBytes = 8, kReplyHeadBytes = 20;

struct FrameHead {
  uint32_t frame_id = 0, flags = 0;
  bool operator==(const FrameHead&) const = default;
};

enum class Status : uint32_t { kOk, kNotReady, kBadShape, kInferFailed, kNotFinite };
const char* status_name(uint32_t status) noexcept;  // "OK", ...; "unknown"

struct ReplyHead {
  uint32_t frame_id = 0;
  uint32_t status = 0;
  // gpu: the engine's run. queue: from request in hand to inputs staged. total: from request in
  // hand to outputs checked; receiving and sending are in none.
  uint32_t gpu_us = 0, queue_us = 0, total_us = 0;
  bool operator==(const ReplyHead&) const = default;
};

// [hot] Of exactly the head's bytes, or more.
void encode(const FrameHead& head, std::span<std::byte> out) noexcept;
void encode(const ReplyHead& head, std::span<std::byte> out) noexcept;
FrameHead decode_frame_head(std::span<const std::byte> in) noexcept;
ReplyHead decode_reply_head(std::span<const std::byte> in) noexcept;

uint32_t read_u32(const std::byte* at) noexcept;
uint64_t read_u64(const std::byte* at) noexcept;
void write_u32(std::byte* at, uint32_t value) noexcept;
void write_u64(std::byte* at, uint64_t value) noexcept;

}  // namespace outrider::link::jetlink
