#include "link/jetlink/wire.h"

#include "base/assert.h"

namespace outrider::link::jetlink {
namespace {

uint16_t read_u16(const std::byte* at) noexcept {
  return static_cast<uint16_t>(std::to_integer<uint32_t>(at[0]) | std::to_integer<uint32_t>(at[1])
                                                                      << 8);
}
void write_u16(std::byte* at, uint16_t value) noexcept {
  at[0] = static_cast<std::byte>(value);
  at[1] = static_cast<std::byte>(value >> 8);
}

}  // namespace

uint32_t read_u32(const std::byte* at) noexcept {
  return read_u16(at) | uint32_t{read_u16(at + 2)} << 16;
}
uint64_t read_u64(const std::byte* at) noexcept {
  return read_u32(at) | uint64_t{read_u32(at + 4)} << 32;
}
void write_u32(std::byte* at, uint32_t value) noexcept {
  write_u16(at, static_cast<uint16_t>(value));
  write_u16(at + 2, static_cast<uint16_t>(value >> 16));
}
void write_u64(std::byte* at, uint64_t value) noexcept {
  write_u32(at, static_cast<uint32_t>(value));
  write_u32(at + 4, static_cast<uint32_t>(value >> 32));
}

const Row* find_row(uint16_t type, uint16_t version) noexcept {
  for (const Row& row : kRows)
    if (static_cast<uint16_t>(row.type) == type && row.since <= version) return &row;
  return nullptr;
}

void encode_header(const Header& header, std::span<std::byte> out) noexcept {
  OUTRIDER_ASSERT(out.size() >= kHeaderBytes);
  write_u32(&out[0], kMagic);
  write_u16(&out[4], header.version);
  write_u16(&out[6], header.type);
  write_u32(&out[8], header.seq);
  write_u32(&out[12], header.flags);
  write_u32(&out[16], header.length);
  for (size_t i = 20; i < kHeaderBytes; ++i) out[i] = std::byte{0};
}

HeaderState decode_header(std::span<const std::byte> in, Header& header) noexcept {
  OUTRIDER_ASSERT(in.size() >= kHeaderBytes);
  if (read_u32(&in[0]) != kMagic) return HeaderState::kNoMagic;
  header.version = read_u16(&in[4]);
  header.type = read_u16(&in[6]);
  header.seq = read_u32(&in[8]);
  header.flags = read_u32(&in[12]);
  header.length = read_u32(&in[16]);
  if (header.version != kVersion2 && header.version != kVersion3) return HeaderState::kOtherVersion;
  return header.length > kMaxPayloadBytes ? HeaderState::kTooLong : HeaderState::kGood;
}

const char* status_name(uint32_t status) noexcept {
  static constexpr const char* kNames[] = {"OK", "NOT_READY", "BAD_SHAPE", "INFER_FAILED",
                                           "NOT_FINITE"};
  return status < std::size(kNames) ? kNames[status] : "unknown";
}

void encode(const FrameHead& head, std::span<std::byte> out) noexcept {
  OUTRIDER_ASSERT(out.size() >= kFrameHeadBytes);
  write_u32(&out[0], head.frame_id);
  write_u32(&out[4], head.flags);
}

void encode(const ReplyHead& head, std::span<std::byte> out) noexcept {
  OUTRIDER_ASSERT(out.size() >= kReplyHeadBytes);
  write_u32(&out[0], head.frame_id);
  write_u32(&out[4], head.status);
  write_u32(&out[8], head.gpu_us);
  write_u32(&out[12], head.queue_us);
  write_u32(&out[16], head.total_us);
}

FrameHead decode_frame_head(std::span<const std::byte> in) noexcept {
  OUTRIDER_ASSERT(in.size() >= kFrameHeadBytes);
  return {read_u32(&in[0]), read_u32(&in[4])};
}

ReplyHead decode_reply_head(std::span<const std::byte> in) noexcept {
  OUTRIDER_ASSERT(in.size() >= kReplyHeadBytes);
  return {read_u32(&in[0]), read_u32(&in[4]), read_u32(&in[8]), read_u32(&in[12]),
          read_u32(&in[16])};
}

}  // namespace outrider::link::jetlink
