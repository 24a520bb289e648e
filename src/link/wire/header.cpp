#include "link/wire/header.h"

#include "link/wire/crc32c.h"

namespace outrider::link::wire {
namespace {
constexpr size_t kCrcAt = kHeaderBytes - sizeof(uint32_t);
}

void encode_header(const Header& header, std::span<std::byte> out) noexcept {
  OUTRIDER_ASSERT(out.size() >= kHeaderBytes);
  encode(header, out);
  const uint32_t crc = crc32c(out.first(kCrcAt));
  std::memcpy(out.data() + kCrcAt, &crc, sizeof crc);
}

HeaderState decode_header(std::span<const std::byte> in, Header& header) noexcept {
  OUTRIDER_ASSERT(in.size() >= kHeaderBytes);
  uint32_t magic = 0, crc = 0;
  std::memcpy(&magic, in.data(), sizeof magic);
  std::memcpy(&crc, in.data() + kCrcAt, sizeof crc);
  if (magic != kMagic || crc != crc32c(in.first(kCrcAt))) return HeaderState::kNoHeader;
  Reader from(in.first(kHeaderBytes));
  Refusal refusal;
  return decode_fields(from, header, refusal) ? HeaderState::kGood : HeaderState::kTooLong;
}

}  // namespace outrider::link::wire
