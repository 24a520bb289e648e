#include "link/wire/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace outrider::link::wire {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr uint32_t kPolynomial = 0x82F63B78;  // reflected

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Slicing by eight: row k takes a byte that has k further bytes behind it.
constexpr Tables make_tables() {
  Tables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    t[0][i] = crc;
  }
  for (size_t k = 1; k < 8; ++k)
    for (uint32_t i = 0; i < 256; ++i) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xFF];
  return t;
}
constexpr Tables kTables = make_tables();

uint64_t load64(const std::byte* p) noexcept {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

#if defined(__x86_64__) || defined(__aarch64__)
// Three lanes hide the latency of the instruction (3 cycles, one can start per cycle). Their values
// are joined by "append kLaneBytes zero bytes", a linear map held as four tables of 256.
constexpr size_t kLaneBytes = 2048;
using Shift = std::array<std::array<uint32_t, 256>, 4>;

constexpr Shift make_shift() {
  // Column n: what one bit becomes after kLaneBytes zero bytes.
  std::array<uint32_t, 32> column{};
  for (size_t bit = 0; bit < 32; ++bit) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < kLaneBytes; ++i) crc = (crc >> 8) ^ kTables[0][crc & 0xFF];
    column[bit] = crc;
  }
  Shift shift{};
  for (size_t byte = 0; byte < 4; ++byte)
    for (uint32_t value = 0; value < 256; ++value)
      for (size_t bit = 0; bit < 8; ++bit)
        if ((value >> bit & 1) != 0) shift[byte][value] ^= column[byte * 8 + bit];
  return shift;
}

uint32_t append_lane(uint32_t crc) noexcept {
  static const Shift kShift = make_shift();
  return kShift[0][crc & 0xFF] ^ kShift[1][crc >> 8 & 0xFF] ^ kShift[2][crc >> 16 & 0xFF] ^
         kShift[3][crc >> 24];
}
#endif

#if defined(__x86_64__)
#define OUTRIDER_CRC_TARGET __attribute__((target("sse4.2")))
OUTRIDER_CRC_TARGET inline uint32_t step64(uint32_t crc, uint64_t word) noexcept {
  return static_cast<uint32_t>(_mm_crc32_u64(crc, word));
}
OUTRIDER_CRC_TARGET inline uint32_t step8(uint32_t crc, uint8_t byte) noexcept {
  return _mm_crc32_u8(crc, byte);
}
bool has_instruction() noexcept {
  return __builtin_cpu_supports("sse4.2") != 0;
}
constexpr const char* kInstruction = "sse4.2";
#elif defined(__aarch64__)
#define OUTRIDER_CRC_TARGET __attribute__((target("+crc")))
OUTRIDER_CRC_TARGET inline uint32_t step64(uint32_t crc, uint64_t word) noexcept {
  return __builtin_aarch64_crc32cx(crc, word);
}
OUTRIDER_CRC_TARGET inline uint32_t step8(uint32_t crc, uint8_t byte) noexcept {
  return __builtin_aarch64_crc32cb(crc, byte);
}
bool has_instruction() noexcept {
  constexpr unsigned long kHwcapCrc32 = 1ul << 7;
  return (getauxval(AT_HWCAP) & kHwcapCrc32) != 0;
}
constexpr const char* kInstruction = "armv8";
#endif

#if defined(OUTRIDER_CRC_TARGET)
OUTRIDER_CRC_TARGET uint32_t crc_instruction(const std::byte* p, size_t n, uint32_t crc) noexcept {
  while (n >= 3 * kLaneBytes) {
    uint32_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < kLaneBytes; i += 8) {
      a = step64(a, load64(p + i));
      b = step64(b, load64(p + kLaneBytes + i));
      c = step64(c, load64(p + 2 * kLaneBytes + i));
    }
    crc = append_lane(append_lane(a) ^ b) ^ c;
    p += 3 * kLaneBytes, n -= 3 * kLaneBytes;
  }
  for (; n >= 8; p += 8, n -= 8) crc = step64(crc, load64(p));
  for (; n > 0; ++p, --n) crc = step8(crc, static_cast<uint8_t>(*p));
  return crc;
}
#endif

uint32_t crc_table(const std::byte* p, size_t n, uint32_t crc) noexcept {
  for (; n >= 8; p += 8, n -= 8) {
    const uint64_t word = load64(p) ^ crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][word >> (8 * k) & 0xFF];
  }
  for (; n > 0; ++p, --n) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint8_t>(*p)) & 0xFF];
  return crc;
}

bool use_instruction() noexcept {
#if defined(OUTRIDER_CRC_TARGET)
  static const bool kUse = has_instruction();
  return kUse;
#else
  return false;
#endif
}

}  // namespace

uint32_t crc32c_scalar(std::span<const std::byte> bytes, uint32_t before) noexcept {
  return ~crc_table(bytes.data(), bytes.size(), ~before);
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) noexcept {
#if defined(OUTRIDER_CRC_TARGET)
  if (use_instruction()) return ~crc_instruction(bytes.data(), bytes.size(), ~before);
#endif
  return crc32c_scalar(bytes, before);
}

const char* crc32c_kernel() noexcept {
#if defined(OUTRIDER_CRC_TARGET)
  if (use_instruction()) return kInstruction;
#endif
  return "scalar";
}

}  // namespace outrider::link::wire
