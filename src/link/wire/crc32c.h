// CRC-32C (Castagnoli, reflected 0x1EDC6F41): finds what a cable, a driver or a buffer did to a
// message. No protection against somebody who means harm; that is the secure channel's work.
//
// Vectors: RFC 3720 B.4 (tests/link/crc32c_test.cpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace outrider::link::wire {

// [any] crc32c(b, crc32c(a)) is the value of a followed by b; the start value is 0. No heap.
// Chosen once: the processor's instruction (SSE4.2, ARMv8 CRC) in three interleaved lanes, else the
// table.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0) noexcept;

// The scalar twin: the truth for the other.
uint32_t crc32c_scalar(std::span<const std::byte> bytes, uint32_t before = 0) noexcept;

// "sse4.2", "armv8", "scalar": what crc32c uses.
const char* crc32c_kernel() noexcept;

}  // namespace outrider::link::wire
