// The two blobs that a FunctionFS program writes to ep0 before anything else, and the vendor
// request by which a host opens and closes a session.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "link/transport/usb/limits.h"

namespace outrider::link::usb {

inline constexpr size_t kDescriptorBytes = 105;
inline constexpr size_t kStringBytes = 16 + 2 + sizeof(kInterfaceName);

// Full, high and super speed: one interface with a bulk pair each; the super speed pair bursts 16
// packets. Head first, then the three counts together, then the three blocks: a count beside its
// block is refused by the kernel with EINVAL.
std::array<std::byte, kDescriptorBytes> descriptor_blob() noexcept;
std::array<std::byte, kStringBytes> string_blob() noexcept;

// Session requests. USB has no connection of its own: a host that goes away and comes back is the
// same bulk pair to the device. So the host says when a session begins and ends, with a vendor
// request to the interface whose answer (device to host, kSessionReplyBytes) proves who is there.
//   bmRequestType 0xC1, wValue kSessionVersion, wIndex the interface, wLength kSessionReplyBytes
inline constexpr uint8_t kSessionRequestType = 0xC1;  // in, vendor, interface
inline constexpr uint8_t kSessionOpen = 0x4F;
inline constexpr uint8_t kSessionClose = 0x43;
inline constexpr uint16_t kSessionVersion = 1;
inline constexpr size_t kSessionReplyBytes = 16;

struct SessionReply {
  uint16_t version = kSessionVersion;
  uint32_t grid_bytes = kGridBytes;
  uint32_t session = 0;  // counts from 1 since the gadget was made
  bool operator==(const SessionReply&) const = default;
};
std::array<std::byte, kSessionReplyBytes> encode(const SessionReply& reply) noexcept;
// nullopt: not a device of ours, whatever it is.
std::optional<SessionReply> decode_reply(std::span<const std::byte> bytes) noexcept;

}  // namespace outrider::link::usb
