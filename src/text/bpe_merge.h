// Byte pair encoding by rank: which two neighbours become one symbol, and in what order.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/piece_table.h"
#include "text/tokenizer.h"

namespace outrider {

// A symbol is the id of a piece, or, for a text that only merges know, a number from n_pieces on.
class BpeMerges {
 public:
  struct Pair {
    std::string_view left, right;
  };
  // [setup] rank = position; a repeated pair keeps its first rank. `table` and `pieces` must
  // outlive this. Errors: kNotFound naming the merge (an empty side), kUnsupported (too many).
  Result<void> build(std::span<const Pair> merges, const PieceTable& table,
                     std::span<const Piece> pieces);

  struct Join {
    uint32_t rank = 0;
    int32_t symbol = PieceTable::kNone;  // kNone: these two do not join
  };
  Join find(int32_t left, int32_t right) const noexcept;  // [hot]
  // [setup] Symbol of a text that may be in no merge and no piece: then a new one.
  int32_t symbol_of(std::string_view text);
  // [hot] Text of a symbol.
  std::string_view text(int32_t symbol) const noexcept;

 private:
  struct Slot {
    uint64_t pair = UINT64_MAX;
    uint32_t rank = 0;
    int32_t symbol = 0;
  };
  size_t home(uint64_t pair) const noexcept;

  const PieceTable* table_ = nullptr;
  std::span<const Piece> pieces_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  std::unordered_map<std::string, int32_t> others_;
  std::vector<const std::string*> other_texts_;
};

struct BpeScratch {
  struct Symbol {
    int32_t symbol = 0, prev = -1, next = -1;  // neighbours, -1 at the ends
    bool gone = false;
  };
  struct Candidate {
    uint32_t rank;
    int32_t at;           // left symbol
    int32_t left, right;  // what both were when the pair was seen
    int32_t joined;
  };
  explicit BpeScratch(size_t max_symbols) : symbols(max_symbols), heap(2 * max_symbols) {}
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

// [hot] Joins the first n of scratch.symbols (only .symbol is read) by rank, ties leftmost. The
// result is the chain symbols[0], [.next], ... O(n log n). No heap.
void bpe_merge(const BpeMerges& merges, size_t n, BpeScratch& scratch) noexcept;

}  // namespace outrider
