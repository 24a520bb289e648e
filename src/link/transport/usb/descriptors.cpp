#include "link/transport/usb/descriptors.h"

#include "base/assert.h"

namespace outrider::link::usb {
namespace {

constexpr uint32_t kDescriptorMagicV2 = 3;
constexpr uint32_t kStringMagic = 2;
constexpr uint32_t kAllSpeeds = 7;            // full, high, super
constexpr uint32_t kReplyMagic = 0x5552544F;  // "OTRU"
constexpr uint8_t kBulk = 2;
constexpr uint8_t kMaxBurst = 15;  // 16 packets of 1 KiB; without bursts a frame took 167 ms

// Little endian into a fixed place.
class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) {}
  void u8(uint8_t value) {
    OUTRIDER_ASSERT(at_ < out_.size());
    out_[at_++] = std::byte{value};
  }
  void u16(uint16_t value) {
    u8(static_cast<uint8_t>(value));
    u8(static_cast<uint8_t>(value >> 8));
  }
  void u32(uint32_t value) {
    u16(static_cast<uint16_t>(value));
    u16(static_cast<uint16_t>(value >> 16));
  }
  void text(std::span<const char> with_nul) {
    for (char c : with_nul) u8(static_cast<uint8_t>(c));
  }
  size_t at() const { return at_; }

 private:
  std::span<std::byte> out_;
  size_t at_ = 0;
};

void put_interface(Writer& out) {
  out.u8(9), out.u8(4);  // bLength, INTERFACE
  out.u8(0), out.u8(0);  // number (the stack renumbers), alternate setting
  out.u8(2);             // endpoints
  out.u8(kInterfaceClass), out.u8(kInterfaceSubclass), out.u8(kInterfaceProtocol);
  out.u8(1);  // iInterface: the first string of our table
}

void put_endpoint(Writer& out, uint8_t address, uint16_t max_packet, bool super_speed) {
  out.u8(7), out.u8(5), out.u8(address), out.u8(kBulk), out.u16(max_packet), out.u8(0);
  if (super_speed) out.u8(6), out.u8(0x30), out.u8(kMaxBurst), out.u8(0), out.u16(0);
}

void put_speed(Writer& out, uint16_t max_packet, bool super_speed) {
  put_interface(out);
  put_endpoint(out, kAskedOut, max_packet, super_speed);
  put_endpoint(out, kAskedIn, max_packet, super_speed);
}

uint32_t load_u32(std::span<const std::byte> at) {
  return uint32_t(at[0]) | uint32_t(at[1]) << 8 | uint32_t(at[2]) << 16 | uint32_t(at[3]) << 24;
}

}  // namespace

std::array<std::byte, kDescriptorBytes> descriptor_blob() noexcept {
  std::array<std::byte, kDescriptorBytes> blob{};
  Writer out(blob);
  out.u32(kDescriptorMagicV2), out.u32(kDescriptorBytes), out.u32(kAllSpeeds);
  out.u32(3), out.u32(3), out.u32(5);  // descriptors at full, high and super speed
  put_speed(out, 64, false);
  put_speed(out, 512, false);
  put_speed(out, 1024, true);
  OUTRIDER_ASSERT(out.at() == blob.size());
  return blob;
}

std::array<std::byte, kStringBytes> string_blob() noexcept {
  std::array<std::byte, kStringBytes> blob{};
  Writer out(blob);
  out.u32(kStringMagic), out.u32(kStringBytes), out.u32(1), out.u32(1);  // one string, one language
  out.u16(kLanguage);
  out.text(kInterfaceName);
  OUTRIDER_ASSERT(out.at() == blob.size());
  return blob;
}

std::array<std::byte, kSessionReplyBytes> encode(const SessionReply& reply) noexcept {
  std::array<std::byte, kSessionReplyBytes> bytes{};
  Writer out(bytes);
  out.u32(kReplyMagic), out.u16(reply.version), out.u16(0);
  out.u32(reply.grid_bytes), out.u32(reply.session);
  OUTRIDER_ASSERT(out.at() == bytes.size());
  return bytes;
}

std::optional<SessionReply> decode_reply(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() != kSessionReplyBytes || load_u32(bytes) != kReplyMagic) return std::nullopt;
  SessionReply reply;
  reply.version = static_cast<uint16_t>(load_u32(bytes.subspan(4)));
  reply.grid_bytes = load_u32(bytes.subspan(8));
  reply.session = load_u32(bytes.subspan(12));
  const bool known =
      reply.version == kSessionVersion && reply.grid_bytes == kGridBytes && reply.session != 0;
  return known ? std::optional(reply) : std::nullopt;
}

}  // namespace outrider::link::usb
