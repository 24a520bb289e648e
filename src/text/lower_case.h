// Lower-casing of UTF-8 by Unicode's simple mappings, the same on every machine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace outrider {

// The lower-case letter of a capital one; anything else is itself. A final capital sigma becomes
// the inner small one: words are not looked at.
uint32_t lower_case(uint32_t code) noexcept;

// A text may grow: capital I with a dot takes 2 bytes, its lower case 3.
inline size_t max_lower_case_bytes(size_t text_bytes) {
  return text_bytes + text_bytes / 2 + 1;
}
// [hot] `text` is well formed (asserted), `out` has max_lower_case_bytes and does not alias it.
// Returns the bytes written.
size_t lower_case(std::string_view text, std::span<char> out) noexcept;

}  // namespace outrider
