// The merging step of a SentencePiece-style tokenizer: characters grow into pieces.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/piece_table.h"
#include "text/tokenizer.h"

namespace outrider {

struct SpmSymbol {
  uint32_t at = 0, bytes = 0;      // in the text; bytes 0 once merged into its left neighbour
  int32_t prev = -1, next = -1;    // living neighbours, -1 at the ends
  int32_t id = PieceTable::kNone;  // piece of exactly this text
};

struct SpmMergeScratch {
  struct Candidate {
    float score;
    int32_t left;    // symbol
    uint32_t bytes;  // of both symbols when the pair was seen: another sum means it is gone
    int32_t id;
  };
  explicit SpmMergeScratch(size_t max_chars) : symbols(max_chars), heap(2 * max_chars) {}
  std::vector<SpmSymbol> symbols;
  std::vector<Candidate> heap;
};

// Which pieces a text may turn into.
struct SpmMergeRule {
  const PieceTable& table;
  std::span<const Piece> pieces;
  bool allow_control;  // false: control and unknown pieces are never made from characters
};

// [hot] Repeatedly joins the adjacent pair whose text is the piece with the highest score (ties:
// leftmost), until no pair is a piece. text: valid UTF-8, not longer than the scratch was made for.
// The result is the chain scratch.symbols[0], [.next], ...; a symbol of several characters always
// has an id. Cost O(n log n) for n characters. No heap.
// Source: gguf-models.md C.1; the quadratic form is the oracle in tests/text/spm_oracle.h.
void spm_merge(const SpmMergeRule& rule, std::string_view text, SpmMergeScratch& scratch) noexcept;

}  // namespace outrider
