// Frames as datagrams: one message cut into pieces of one UDP datagram each, and put together
// again. A lost piece is a frame that never ran.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace outrider::link::jetlink {

inline constexpr uint32_t kDatagramMagic = 0x4D52464A;  // bytes "JFRM"
inline constexpr size_t kPieceHeadBytes = 20;
inline constexpr uint32_t kPieceBytes = 65000;  // of the message, at most

struct PieceHead {
  uint32_t magic = kDatagramMagic;
  uint32_t token = 0;   // of the offer in HELLO_RESP
  uint32_t seq = 0;     // of the message
  uint32_t offset = 0;  // of this piece
  uint32_t total = 0;   // bytes of the message as a stream: header, payload, pad
};
void encode(const PieceHead& head, std::span<std::byte> out) noexcept;
PieceHead decode_piece_head(std::span<const std::byte> in) noexcept;

struct PieceRange {
  uint32_t offset = 0, bytes = 0;
};
uint32_t n_pieces(uint32_t total) noexcept;
// Sizes are equal to within a byte, larger ones first. `index` < n_pieces(total).
PieceRange piece_range(uint32_t total, uint32_t index) noexcept;

// Puts the pieces of one message at a time together. Where it was cut is the sender's business:
// pieces must lie inside the message and none over another. Memory: the largest message there was.
class Assembler {
 public:
  static constexpr size_t kMostRanges = 1024;  // stretches with gaps between them

  // A new session: pieces with another token are dropped from now on. 0: everything is.
  void begin(uint32_t token);
  // [hot] One datagram. True: message() is complete; call it before the next datagram.
  bool take(std::span<const std::byte> datagram);
  // Header, payload and pad of the message that was completed.
  std::span<const std::byte> message() const { return {buffer_.data(), total_}; }

  uint64_t dropped() const { return dropped_; }      // pieces that were none of ours
  uint64_t abandoned() const { return abandoned_; }  // messages a newer one replaced

 private:
  struct Range {
    uint32_t begin = 0, end = 0;
  };
  bool drop();
  void start(const PieceHead& head);
  bool place(Range piece);

  std::vector<std::byte> buffer_;
  std::vector<Range> have_;  // in order; none touches the next
  uint32_t token_ = 0, seq_ = 0, total_ = 0, last_done_ = 0;
  bool open_ = false;
  uint64_t dropped_ = 0, abandoned_ = 0;
};

}  // namespace outrider::link::jetlink
