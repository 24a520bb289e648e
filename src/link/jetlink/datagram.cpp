#include "link/jetlink/datagram.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/assert.h"
#include "link/jetlink/wire.h"

namespace outrider::link::jetlink {
namespace {

constexpr uint32_t kMaxTotal = kHeaderBytes + kMaxPayloadBytes + kGadgetGrid;

}  // namespace

void encode(const PieceHead& head, std::span<std::byte> out) noexcept {
  OUTRIDER_ASSERT(out.size() >= kPieceHeadBytes);
  const uint32_t words[] = {head.magic, head.token, head.seq, head.offset, head.total};
  for (size_t i = 0; i < std::size(words); ++i) write_u32(&out[4 * i], words[i]);
}

PieceHead decode_piece_head(std::span<const std::byte> in) noexcept {
  OUTRIDER_ASSERT(in.size() >= kPieceHeadBytes);
  return {read_u32(&in[0]), read_u32(&in[4]), read_u32(&in[8]), read_u32(&in[12]),
          read_u32(&in[16])};
}

uint32_t n_pieces(uint32_t total) noexcept {
  return total / kPieceBytes + (total % kPieceBytes != 0 ? 1 : 0);
}

PieceRange piece_range(uint32_t total, uint32_t index) noexcept {
  const uint32_t n = n_pieces(total), small = total / n, n_large = total % n;
  OUTRIDER_ASSERT(index < n);
  const uint32_t before = index < n_large ? index : n_large;
  return {index * small + before, small + (index < n_large ? 1 : 0)};
}

void Assembler::begin(uint32_t token) {
  token_ = token;
  open_ = false;
  last_done_ = 0;
  have_.reserve(kMostRanges);
}

bool Assembler::drop() {
  ++dropped_;
  return false;
}

// False: some of it is there already, or there are too many gaps.
bool Assembler::place(Range piece) {
  const auto after = std::ranges::upper_bound(have_, piece.begin, {}, &Range::begin);
  const bool is_first = after == have_.begin(), is_last = after == have_.end();
  if (!is_last && after->begin < piece.end) return false;
  if (!is_first && std::prev(after)->end > piece.begin) return false;
  const bool joins_before = !is_first && std::prev(after)->end == piece.begin;
  const bool joins_after = !is_last && after->begin == piece.end;
  if (joins_before) std::prev(after)->end = joins_after ? after->end : piece.end;
  if (joins_before && joins_after)
    have_.erase(after);
  else if (joins_after)
    after->begin = piece.begin;
  else if (!joins_before && have_.size() == kMostRanges)
    return false;
  else if (!joins_before)
    have_.insert(after, piece);
  return true;
}

// The first piece of a message that is newer than what there was.
void Assembler::start(const PieceHead& head) {
  if (open_) ++abandoned_;
  if (buffer_.size() < head.total) buffer_.resize(head.total);
  have_.clear();
  seq_ = head.seq;
  total_ = head.total;
  open_ = true;
}

bool Assembler::take(std::span<const std::byte> datagram) {
  if (datagram.size() <= kPieceHeadBytes) return drop();
  const PieceHead head = decode_piece_head(datagram);
  const std::span<const std::byte> piece = datagram.subspan(kPieceHeadBytes);
  if (head.magic != kDatagramMagic || token_ == 0 || head.token != token_) return drop();
  if (!is_newer(head.seq, last_done_)) return drop();
  if (head.total < kHeaderBytes || head.total > kMaxTotal) return drop();
  if (head.offset >= head.total || piece.size() > head.total - head.offset) return drop();
  if (!open_ || head.seq != seq_) {
    if (open_ && !is_newer(head.seq, seq_)) return drop();
    start(head);
  }
  if (head.total != total_) return drop();
  const auto end = static_cast<uint32_t>(head.offset + piece.size());
  if (!place({head.offset, end})) return drop();
  std::memcpy(buffer_.data() + head.offset, piece.data(), piece.size());
  if (have_.front().begin != 0 || have_.front().end != total_) return false;
  open_ = false;
  last_done_ = seq_;
  // What the pieces add up to must be one message and nothing else.
  Header header;
  if (decode_header(buffer_, header) != HeaderState::kGood || header.seq != seq_) return drop();
  if (uint64_t{kHeaderBytes} + header.length + pad_of(header, 1) != total_) return drop();
  return true;
}

}  // namespace outrider::link::jetlink
