// The printable stand-ins of byte-level BPE: bytes 33..126, 161..172, 174..255 are the characters
// of the same number, the other 68 are U+0100 onwards in ascending order.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace outrider {

class ByteLetters {
 public:
  ByteLetters();
  std::string_view letter(uint8_t byte) const { return letters_[byte]; }
  // The byte of a stand-in, -1 for any other character.
  int byte(uint32_t code) const noexcept { return code < bytes_.size() ? bytes_[code] : -1; }
  // Bytes of a text of stand-ins; characters that are none stay as they are.
  std::string bytes(std::string_view text) const;

 private:
  std::array<std::string, 256> letters_;
  std::array<int16_t, 0x144> bytes_;
};

}  // namespace outrider
