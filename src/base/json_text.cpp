#include "base/json_text.h"

#include <cstddef>
#include <cstdio>

#include "base/utf8.h"

namespace outrider {
namespace {

// nullptr: as it is.
const char* short_escape(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      return nullptr;
  }
}

}  // namespace

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t n = utf8_sequence_bytes(text);
    if (n == 0) {
      out += '?';
    } else if (const char* escape = short_escape(text[0])) {
      out += escape;
    } else if (n == 1 && text[0] < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(text[0]));
      out += code;
    } else {
      out += text.substr(0, n);
    }
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out + '"';
}

}  // namespace outrider
