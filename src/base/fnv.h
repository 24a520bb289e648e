// FNV-1a, 64 bits: a guard against mistakes, not a security digest.
#pragma once
#include <cstdint>
#include <string_view>

namespace outrider {

inline constexpr uint64_t kFnv1a64Start = 0xcbf29ce484222325;

// Of the bytes of `text`, going on from `hash`: pieces give what the whole gives.
constexpr uint64_t fnv1a64(std::string_view text, uint64_t hash = kFnv1a64Start) noexcept {
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace outrider
