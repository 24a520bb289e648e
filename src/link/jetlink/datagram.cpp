#include "link/jetlink/datagram.h"

#include <cstring>

#include "base/assert.h"
#include "link/jetlink/wire.h"

namespace outrider::link::jetlink {
namespace {

constexpr uint32_t kMaxTotal = kHeaderBytes + kMaxPayloadBytes + kGadgetGrid;

// Index of the piece that begins at `offset`; n_pieces(total) when none does.
uint32_t index_of(uint32_t total, uint32_t offset) noexcept {
  const uint32_t n = n_pieces(total), small = total / n, n_large = total % n;
  const uint64_t edge = uint64_t{n_large} * (small + 1);
  if (offset < edge) return offset % (small + 1) == 0 ? offset / (small + 1) : n;
  const auto rest = static_cast<uint32_t>(offset - edge);
  return rest % small == 0 && rest / small < n - n_large ? n_large + rest / small : n;
}

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
}

bool Assembler::drop() {
  ++dropped_;
  return false;
}

// The first piece of a message that is newer than what there was.
bool Assembler::start(const PieceHead& head, std::span<const std::byte> piece) {
  if (head.total < kHeaderBytes || head.total > kMaxTotal) return false;
  const uint32_t index = index_of(head.total, head.offset);
  if (index >= n_pieces(head.total) || piece.size() != piece_range(head.total, index).bytes)
    return false;
  if (open_) ++abandoned_;
  if (buffer_.size() < head.total) buffer_.resize(head.total);
  have_.assign(n_pieces(head.total), false);
  seq_ = head.seq;
  total_ = head.total;
  n_have_ = 0;
  open_ = true;
  return true;
}

bool Assembler::take(std::span<const std::byte> datagram) {
  if (datagram.size() <= kPieceHeadBytes) return drop();
  const PieceHead head = decode_piece_head(datagram);
  const std::span<const std::byte> piece = datagram.subspan(kPieceHeadBytes);
  if (head.magic != kDatagramMagic || token_ == 0 || head.token != token_) return drop();
  if (!is_newer(head.seq, last_done_)) return drop();
  if (!open_ || head.seq != seq_) {
    if (open_ && !is_newer(head.seq, seq_)) return drop();
    if (!start(head, piece)) return drop();
  }
  if (head.total != total_) return drop();
  const uint32_t index = index_of(total_, head.offset);
  if (index >= have_.size() || piece.size() != piece_range(total_, index).bytes || have_[index])
    return drop();
  std::memcpy(buffer_.data() + head.offset, piece.data(), piece.size());
  have_[index] = true;
  if (++n_have_ < have_.size()) return false;
  open_ = false;
  last_done_ = seq_;
  // What the pieces add up to must be one message and nothing else.
  Header header;
  if (decode_header(buffer_, header) != HeaderState::kGood || header.seq != seq_) return drop();
  if (uint64_t{kHeaderBytes} + header.length + pad_of(header, 1) != total_) return drop();
  return true;
}

}  // namespace outrider::link::jetlink
