// Piece text -> id: open addressing over the vocabulary's own strings. No heap in a look-up.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace outrider {

class PieceTable {
 public:
  static constexpr int32_t kNone = -1;

  // [setup] `pieces` must stay where it is for the life of the table. Empty texts get no entry.
  // Errors: kNotFound naming both ids of a repeated text.
  Result<void> build(std::span<const Piece> pieces);

  // [hot] Id of exactly this text, or kNone. One cache line for most misses.
  int32_t find(std::string_view text) const noexcept;

  size_t longest_piece_bytes() const { return longest_bytes_; }

 private:
  struct Slot {
    uint32_t tag = 0;  // upper half of the hash: a miss rarely has to read the piece itself
    int32_t id = kNone;
  };
  uint64_t hash(std::string_view text) const noexcept;

  std::span<const Piece> pieces_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  uint64_t seeds_[2] = {};
  size_t longest_bytes_ = 0;
};

}  // namespace outrider
