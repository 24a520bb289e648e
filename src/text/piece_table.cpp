#include "text/piece_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <random>

namespace outrider {
namespace {

uint64_t mix(uint64_t a, uint64_t b) noexcept {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t random_seed() {
  try {
    std::random_device entropy;
    return (uint64_t{entropy()} << 32 | entropy()) | 1;
  } catch (const std::exception&) {
    return 0xA0761D6478BD642Fu;  // no source of entropy: still correct, only predictable
  }
}

}  // namespace

int32_t PieceTable::find(std::string_view text) const noexcept {
  if (text.empty() || text.size() > longest_bytes_) return kNone;
  const uint64_t h = hash(text);
  const size_t mask = slots_.size() - 1;
  for (size_t at = h & mask;; at = (at + 1) & mask) {  // ends: the table is half empty
    const Slot& slot = slots_[at];
    if (slot.id == kNone) return kNone;
    if (slot.tag == static_cast<uint32_t>(h >> 32) && pieces_[slot.id].text == text) return slot.id;
  }
}

Result<void> PieceTable::build(std::span<const Piece> pieces) {
  pieces_ = pieces;
  // Seeds differ from load to load: a file cannot be written so that its pieces all collide.
  // Results do not depend on them.
  for (uint64_t& seed : seeds_) seed = random_seed();
  slots_.assign(std::bit_ceil(2 * pieces.size() + 1), Slot{});
  longest_bytes_ = 0;

  const size_t mask = slots_.size() - 1;
  for (size_t id = 0; id < pieces.size(); ++id) {
    const std::string_view text = pieces[id].text;
    if (text.empty()) continue;
    longest_bytes_ = std::max(longest_bytes_, text.size());
    const int32_t other = find(text);
    if (other != kNone) {
      return make_error(Code::kNotFound,
                        "tokenizer.ggml.tokens: pieces %d and %zu have the same text (%zu bytes); "
                        "every text must be there once: write the vocabulary again",
                        other, id, text.size());
    }
    const uint64_t h = hash(text);
    size_t at = h & mask;
    while (slots_[at].id != kNone) at = (at + 1) & mask;
    slots_[at] = {static_cast<uint32_t>(h >> 32), static_cast<int32_t>(id)};
  }
  return {};
}

uint64_t PieceTable::hash(std::string_view text) const noexcept {
  uint64_t h = seeds_[0] ^ text.size();
  const char* at = text.data();
  size_t left = text.size();
  for (; left > 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    h = mix(h ^ word, seeds_[1]);
  }
  uint64_t tail = 0;
  std::memcpy(&tail, at, left);
  h = mix(h ^ tail, seeds_[1]);
  return mix(h ^ seeds_[0], 0x9E3779B97F4A7C15u);
}

}  // namespace outrider
