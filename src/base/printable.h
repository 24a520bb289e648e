// Text that came from outside, made fit for a one-line message.
#pragma once
#include <string>
#include <string_view>

namespace outrider {

// At most max_bytes of it; everything outside printable ASCII becomes '?'.
inline std::string printable(std::string_view text, size_t max_bytes = 80) {
  std::string out(text.substr(0, max_bytes));
  for (char& c : out) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  if (text.size() > max_bytes) out += "...";
  return out;
}

// A path: its end is what tells files apart.
inline std::string short_path(std::string_view path) {
  constexpr size_t kMaxBytes = 160;
  if (path.size() <= kMaxBytes) return std::string(path);
  return "..." + std::string(path.substr(path.size() - kMaxBytes));
}

}  // namespace outrider
