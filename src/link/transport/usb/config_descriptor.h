// Finds our interface and its bulk pair in the raw configuration descriptor of a foreign device.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace outrider::link::usb {

struct BulkPair {
  uint8_t interface_number = 0;
  uint8_t out = 0, in = 0;  // addresses: the gadget stack renumbers what we asked for
  uint16_t out_packet = 0, in_packet = 0;
};

// By class triple, never by number; the first alternate setting 0 with one bulk endpoint each way.
// Errors: kNotFound (no such interface), kInvalid (a length that does not fit, a packet size that
// is none of 8..1024 or does not divide kGridBytes).
Result<BulkPair> find_bulk_pair(std::span<const std::byte> config);

}  // namespace outrider::link::usb
