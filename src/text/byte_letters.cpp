#include "text/byte_letters.h"

#include "base/utf8.h"
#include "text/unicode.h"

namespace outrider {

ByteLetters::ByteLetters() {
  bytes_.fill(-1);
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const uint32_t code = itself ? byte : next++;
    utf8_append(letters_[byte], code);
    bytes_[code] = static_cast<int16_t>(byte);
  }
}

std::string ByteLetters::bytes(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    const Character c = first_character(text);
    if (const int value = byte(c.code); value >= 0) {
      out += static_cast<char>(value);
    } else {
      out += text.substr(0, c.bytes);
    }
    text.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace outrider
