#include "text/spm_merge.h"

#include <algorithm>

#include "base/assert.h"
#include "base/utf8.h"

namespace outrider {
namespace {

using Candidate = SpmMergeScratch::Candidate;

// Heap order: the highest score on top, then the leftmost pair.
bool worse(const Candidate& a, const Candidate& b) noexcept {
  return a.score < b.score || (a.score == b.score && a.left > b.left);
}

class Merger {
 public:
  Merger(const SpmMergeRule& rule, std::string_view text, SpmMergeScratch& scratch) noexcept
      : rule_(rule), text_(text), symbols_(scratch.symbols), heap_(scratch.heap) {}

  void run() noexcept {
    const size_t n_symbols = split();
    for (size_t i = 0; i + 1 < n_symbols; ++i) consider(static_cast<int32_t>(i));
    std::make_heap(heap_.begin(), heap_end(), worse);
    while (n_heap_ > 0) {
      std::pop_heap(heap_.begin(), heap_end(), worse);
      const Candidate best = heap_[--n_heap_];
      SpmSymbol& left = symbols_[best.left];
      // Symbols only grow or vanish, so an unchanged sum means an unchanged, still adjacent pair.
      if (left.bytes == 0 || left.next < 0) continue;
      if (left.bytes + symbols_[left.next].bytes != best.bytes) continue;
      join(best);
      if (left.prev >= 0 && consider(left.prev)) sift_last();
      if (left.next >= 0 && consider(best.left)) sift_last();
    }
  }

 private:
  // One symbol per character. Returns their number.
  size_t split() noexcept {
    size_t n = 0;
    for (size_t at = 0; at < text_.size(); ++n) {
      const size_t bytes = utf8_sequence_bytes(text_.substr(at));
      OUTRIDER_ASSERT(bytes > 0 && n < symbols_.size());
      const int32_t index = static_cast<int32_t>(n);
      symbols_[n] = {static_cast<uint32_t>(at), static_cast<uint32_t>(bytes), index - 1, index + 1,
                     find(text_.substr(at, bytes))};
      at += bytes;
    }
    if (n > 0) symbols_[n - 1].next = -1;
    return n;
  }

  // Appends the pair that starts at `left`, if its text is a piece. The heap is not yet in order.
  bool consider(int32_t left) noexcept {
    const SpmSymbol& a = symbols_[left];
    const uint32_t bytes = a.bytes + symbols_[a.next].bytes;
    const int32_t id = find(text_.substr(a.at, bytes));
    if (id == PieceTable::kNone) return false;
    // Each join takes one entry and brings at most two: never more than two per character.
    OUTRIDER_ASSERT(n_heap_ < heap_.size());
    heap_[n_heap_++] = {rule_.pieces[id].score, left, bytes, id};
    return true;
  }

  void join(const Candidate& pair) noexcept {
    SpmSymbol& left = symbols_[pair.left];
    SpmSymbol& right = symbols_[left.next];
    left.bytes = pair.bytes;
    left.id = pair.id;
    left.next = right.next;
    if (right.next >= 0) symbols_[right.next].prev = pair.left;
    right.bytes = 0;
  }

  int32_t find(std::string_view text) const noexcept {
    const int32_t id = rule_.table.find(text);
    if (id == PieceTable::kNone || rule_.allow_control) return id;
    const PieceType type = rule_.pieces[id].type;
    const bool control = type == PieceType::kControl || type == PieceType::kUnknown;
    return control ? PieceTable::kNone : id;
  }

  void sift_last() noexcept { std::push_heap(heap_.begin(), heap_end(), worse); }
  std::vector<Candidate>::iterator heap_end() noexcept {
    return heap_.begin() + static_cast<ptrdiff_t>(n_heap_);
  }

  const SpmMergeRule& rule_;
  std::string_view text_;
  std::vector<SpmSymbol>& symbols_;
  std::vector<Candidate>& heap_;
  size_t n_heap_ = 0;
};

}  // namespace

void spm_merge(const SpmMergeRule& rule, std::string_view text, SpmMergeScratch& scratch) noexcept {
  Merger(rule, text, scratch).run();
}

}  // namespace outrider
