#include "text/unigram.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "text/unicode.h"

namespace outrider {
namespace {

constexpr double kUnknownPenalty = 10;
constexpr size_t kMaxNodes = size_t{1} << 26;

}  // namespace

Result<void> Unigram::build(std::span<const Piece> pieces) {
  slots_.assign(1024, Slot{});
  ends_.assign(1, End{});
  n_used_ = 0;
  double lowest = std::numeric_limits<double>::max();
  for (size_t id = 0; id < pieces.size(); ++id) {
    const Piece& piece = pieces[id];
    if (piece.type != PieceType::kNormal && piece.type != PieceType::kUserDefined) continue;
    if (piece.text.empty()) continue;
    if (piece.type == PieceType::kNormal) lowest = std::min(lowest, double{piece.score});
    uint32_t node = 0;
    for (const char c : piece.text) node = insert(node, static_cast<uint8_t>(c));
    ends_[node] = {static_cast<int32_t>(id), piece.score};
    if (ends_.size() > kMaxNodes)
      return make_error(Code::kUnsupported, "vocabulary: more than %zu different beginnings",
                        kMaxNodes);
  }
  unknown_score_ = (lowest == std::numeric_limits<double>::max() ? 0 : lowest) - kUnknownPenalty;
  return {};
}

void Unigram::run(std::string_view text, UnigramScratch& scratch) const noexcept {
  OUTRIDER_ASSERT(text.size() < scratch.best.size());
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  auto& best = scratch.best;
  best[0] = {};
  for (size_t i = 1; i <= text.size(); ++i) best[i] = {kNever, 0, kUnknown};
  for (size_t at = 0; at < text.size();) {
    const uint32_t character_bytes = first_character(text.substr(at)).bytes;
    const double here = best[at].score;
    bool whole_character = false;
    uint32_t node = 0;
    for (size_t end = at; end < text.size();) {
      node = step(node, static_cast<uint8_t>(text[end++]));
      if (node == 0) break;
      if (ends_[node].id < 0) continue;
      if (end - at == character_bytes) whole_character = true;
      if (const double score = here + ends_[node].score; score > best[end].score)
        best[end] = {score, static_cast<uint32_t>(at), ends_[node].id};
    }
    const size_t next = at + character_bytes;
    if (!whole_character && here + unknown_score_ > best[next].score)
      best[next] = {here + unknown_score_, static_cast<uint32_t>(at), kUnknown};
    at = next;
  }
}

size_t Unigram::home(uint64_t key) const noexcept {
  key *= 0x9E3779B97F4A7C15u;
  return (key ^ key >> 32) & (slots_.size() - 1);
}

uint32_t Unigram::step(uint32_t node, uint8_t byte) const noexcept {
  const uint64_t key = uint64_t{node} << 8 | byte;
  for (size_t at = home(key);; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].key == key) return slots_[at].child;
    if (slots_[at].key == UINT64_MAX) return 0;
  }
}

uint32_t Unigram::insert(uint32_t node, uint8_t byte) {
  if (const uint32_t child = step(node, byte); child != 0) return child;
  if (2 * (n_used_ + 1) > slots_.size()) grow();
  const uint64_t key = uint64_t{node} << 8 | byte;
  size_t at = home(key);
  while (slots_[at].key != UINT64_MAX) at = (at + 1) & (slots_.size() - 1);
  const auto child = static_cast<uint32_t>(ends_.size());
  slots_[at] = {key, child};
  ends_.push_back({});
  ++n_used_;
  return child;
}

void Unigram::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.key == UINT64_MAX) continue;
    size_t at = home(slot.key);
    while (slots_[at].key != UINT64_MAX) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

}  // namespace outrider
