#include "link/transport/usb/config_descriptor.h"

#include <algorithm>

#include "link/transport/usb/limits.h"

namespace outrider::link::usb {
namespace {

constexpr uint8_t kInterfaceType = 4, kEndpointType = 5;
constexpr size_t kInterfaceBytes = 9, kEndpointBytes = 7;

unsigned at(std::span<const std::byte> bytes, size_t index) {
  return unsigned(bytes[index]);
}

bool is_ours(std::span<const std::byte> d) {
  return at(d, 3) == 0 && at(d, 5) == kInterfaceClass && at(d, 6) == kInterfaceSubclass &&
         at(d, 7) == kInterfaceProtocol;
}

void take_endpoint(std::span<const std::byte> d, BulkPair& pair) {
  if ((at(d, 3) & 3) != 2) return;  // not bulk
  const auto packet = static_cast<uint16_t>((at(d, 4) | at(d, 5) << 8) & 0x7FF);
  const auto address = static_cast<uint8_t>(at(d, 2));
  const bool in = (address & 0x80) != 0;
  if (in && pair.in == 0) pair.in = address, pair.in_packet = packet;
  if (!in && pair.out == 0) pair.out = address, pair.out_packet = packet;
}

bool sane(uint16_t packet) {
  return packet >= 8 && packet <= 1024 && kGridBytes % packet == 0;
}

}  // namespace

Result<BulkPair> find_bulk_pair(std::span<const std::byte> config) {
  BulkPair pair;
  bool ours = false, seen = false;
  for (size_t offset = 0; offset < config.size();) {
    const size_t length = at(config, offset);
    if (length < 2 || length > config.size() - offset)
      return make_error(Code::kInvalid,
                        "usb: descriptor at byte %zu of the device's configuration has length %zu, "
                        "allowed 2 to %zu",
                        offset, length, config.size() - offset);
    const auto d = config.subspan(offset, length);
    const unsigned type = at(d, 1);
    if (type == kInterfaceType && length >= kInterfaceBytes) {
      if (pair.in != 0 && pair.out != 0) break;
      ours = is_ours(d);
      if (ours) seen = true, pair = {}, pair.interface_number = static_cast<uint8_t>(at(d, 2));
    }
    if (type == kEndpointType && length >= kEndpointBytes && ours) take_endpoint(d, pair);
    offset += length;
  }
  if (pair.in == 0 || pair.out == 0)
    return make_error(Code::kNotFound, "usb: the device has no interface %02x/%02x/%02x%s",
                      kInterfaceClass, kInterfaceSubclass, kInterfaceProtocol,
                      seen ? " with a bulk endpoint in each direction" : "");
  if (!sane(pair.in_packet) || !sane(pair.out_packet))
    return make_error(Code::kInvalid,
                      "usb: packet sizes %u and %u of the device, allowed are powers of two from 8 "
                      "to 1024",
                      pair.out_packet, pair.in_packet);
  return pair;
}

}  // namespace outrider::link::usb
