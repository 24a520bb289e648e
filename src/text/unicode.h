// Properties of characters: general category, white space, canonical composition (NFC).
// Tables: unicode_data.inc, written by tools/unicode_table.py; its first line names the version.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace outrider {

// In the order of the generated table.
// clang-format off
enum class Category : uint8_t {
  kCn, kLu, kLl, kLt, kLm, kLo, kMn, kMc, kMe, kNd, kNl, kNo, kPc, kPd, kPs, kPe, kPi, kPf, kPo,
  kSm, kSc, kSk, kSo, kZs, kZl, kZp, kCc, kCf, kCs, kCo
};
// clang-format on

// code: 0 .. 0x10FFFF.
Category unicode_category(uint32_t code) noexcept;
// The White_Space property.
bool unicode_space(uint32_t code) noexcept;

// The character at the start of valid, not empty UTF-8.
struct Character {
  uint32_t code = 0;
  uint32_t bytes = 0;
};
Character first_character(std::string_view text) noexcept;

// Working memory for texts of up to max_bytes. [setup]
struct NfcScratch {
  explicit NfcScratch(size_t max_bytes) : codes(2 * max_bytes + 8), bytes(3 * max_bytes + 32) {}
  std::vector<uint32_t> codes;
  std::vector<char> bytes;
};
// [hot] The canonical composition of valid UTF-8: `text` itself when nothing changes for sure,
// otherwise in scratch.bytes. No heap. A composition has at most three times the bytes. In a run of
// more than 256 marks each is put in order among its 256 nearest only: the bound of the work.
std::string_view to_nfc(std::string_view text, NfcScratch& scratch) noexcept;

}  // namespace outrider
