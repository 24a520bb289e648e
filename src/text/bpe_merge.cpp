#include "text/bpe_merge.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace outrider {
namespace {

constexpr size_t kMaxMerges = size_t{1} << 22;

// Heap order: the lowest rank on top, then the leftmost pair.
bool worse(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) noexcept {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

class Merger {
 public:
  Merger(const BpeMerges& merges, BpeScratch& scratch) noexcept
      : merges_(merges), symbols_(scratch.symbols), heap_(scratch.heap) {}

  void run(size_t n) noexcept {
    for (size_t i = 0; i < n; ++i) {
      const auto index = static_cast<int32_t>(i);
      symbols_[i].prev = index - 1;
      symbols_[i].next = i + 1 < n ? index + 1 : -1;
      symbols_[i].gone = false;
    }
    for (size_t i = 0; i + 1 < n; ++i) consider(static_cast<int32_t>(i));
    std::make_heap(heap_.begin(), end(), worse);
    while (n_heap_ > 0) {
      std::pop_heap(heap_.begin(), end(), worse);
      const BpeScratch::Candidate best = heap_[--n_heap_];
      auto& left = symbols_[static_cast<size_t>(best.at)];
      if (left.gone || left.symbol != best.left || left.next < 0) continue;
      auto& right = symbols_[static_cast<size_t>(left.next)];
      if (right.symbol != best.right) continue;
      right.gone = true;
      left.symbol = best.joined;
      left.next = right.next;
      if (left.next >= 0) symbols_[static_cast<size_t>(left.next)].prev = best.at;
      if (left.prev >= 0 && consider(left.prev)) std::push_heap(heap_.begin(), end(), worse);
      if (left.next >= 0 && consider(best.at)) std::push_heap(heap_.begin(), end(), worse);
    }
  }

 private:
  bool consider(int32_t at) noexcept {
    const auto& left = symbols_[static_cast<size_t>(at)];
    const auto& right = symbols_[static_cast<size_t>(left.next)];
    const BpeMerges::Join join = merges_.find(left.symbol, right.symbol);
    if (join.symbol == PieceTable::kNone) return false;
    // Each join takes one entry and brings at most two: never more than two per symbol.
    OUTRIDER_ASSERT(n_heap_ < heap_.size());
    heap_[n_heap_++] = {join.rank, at, left.symbol, right.symbol, join.symbol};
    return true;
  }
  std::vector<BpeScratch::Candidate>::iterator end() noexcept {
    return heap_.begin() + static_cast<ptrdiff_t>(n_heap_);
  }

  const BpeMerges& merges_;
  std::vector<BpeScratch::Symbol>& symbols_;
  std::vector<BpeScratch::Candidate>& heap_;
  size_t n_heap_ = 0;
};

}  // namespace

void bpe_merge(const BpeMerges& merges, size_t n, BpeScratch& scratch) noexcept {
  OUTRIDER_ASSERT(n <= scratch.symbols.size());
  Merger(merges, scratch).run(n);
}

Result<void> BpeMerges::build(std::span<const Pair> merges, const PieceTable& table,
                              std::span<const Piece> pieces) {
  if (merges.size() > kMaxMerges)
    return make_error(Code::kUnsupported, "merges: %zu, at most %zu", merges.size(), kMaxMerges);
  table_ = &table;
  pieces_ = pieces;
  slots_.assign(std::bit_ceil(2 * merges.size() + 1), Slot{});
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Pair& merge = merges[rank];
    if (merge.left.empty() || merge.right.empty())
      return make_error(Code::kNotFound, "merges: number %zu does not have two sides", rank);
    const int32_t left = symbol_of(merge.left), right = symbol_of(merge.right);
    joined.assign(merge.left).append(merge.right);
    const uint64_t pair =
        uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    const size_t mask = slots_.size() - 1;
    size_t at = home(pair);
    while (slots_[at].pair != UINT64_MAX && slots_[at].pair != pair) at = (at + 1) & mask;
    if (slots_[at].pair == UINT64_MAX)
      slots_[at] = {pair, static_cast<uint32_t>(rank), symbol_of(joined)};
  }
  return {};
}

int32_t BpeMerges::symbol_of(std::string_view text) {
  if (const int32_t id = table_->find(text); id != PieceTable::kNone) return id;
  const auto next = static_cast<int32_t>(pieces_.size() + other_texts_.size());
  const auto [at, added] = others_.emplace(std::string(text), next);
  if (added) other_texts_.push_back(&at->first);
  return at->second;
}

std::string_view BpeMerges::text(int32_t symbol) const noexcept {
  const auto index = static_cast<size_t>(symbol);
  return index < pieces_.size() ? std::string_view(pieces_[index].text)
                                : std::string_view(*other_texts_[index - pieces_.size()]);
}

size_t BpeMerges::home(uint64_t pair) const noexcept {
  pair ^= pair >> 31;
  pair *= 0x9E3779B97F4A7C15u;
  return (pair ^ pair >> 32) & (slots_.size() - 1);
}

BpeMerges::Join BpeMerges::find(int32_t left, int32_t right) const noexcept {
  const uint64_t pair = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  const size_t mask = slots_.size() - 1;
  for (size_t at = home(pair);; at = (at + 1) & mask) {  // ends: the table is half empty
    if (slots_[at].pair == pair) return {slots_[at].rank, slots_[at].symbol};
    if (slots_[at].pair == UINT64_MAX) return {};
  }
}

}  // namespace outrider
