// Messages over a Transport: reads with bounded memory, keeps what a deadline left behind, latches
// the first thing that is none, writes each message as one vectored write.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "link/jetlink/wire.h"
#include "link/transport/transport.h"

namespace outrider::link::jetlink {

struct Message {
  Header header;
  std::span<const std::byte> payload;  // valid until the next read
  Type type() const { return static_cast<Type>(header.type); }
};

enum class Got : uint8_t { kMessage, kLate, kEnded, kDesynced };

class Stream {
 public:
  // `version` 0: that of the first header; else any other is no header. `begun`: bytes that were
  // read from the transport already. `read_grid`: 1, or kGadgetGrid when the peer is a gadget.
  Stream(std::unique_ptr<Transport> transport, uint16_t version, uint32_t read_grid = 1,
         std::span<const std::byte> begun = {});

  // [hot] The next message, or kLate at the deadline: what came until then is kept. A deadline in
  // the past still takes what is there. Memory grows with the bytes that arrive, never with what a
  // header says. After kEnded or kDesynced every read is that again.
  Got read(Message& out, int64_t deadline_ns);
  // [hot] Appends the padding. A deadline that passes in the middle breaks the stream for good.
  // One thread at a time.
  Io send(Type type, uint32_t seq, std::span<const Piece> payload, int64_t deadline_ns);

  // [hot] One message as it would be sent: head, payload, padding. The views are valid as long as
  // this and the payload are.
  static constexpr size_t kMostPieces = 6;  // of a payload
  struct Framed {
    std::array<std::byte, kHeaderBytes> head;
    std::array<Piece, kMostPieces + 2> parts;
    size_t n = 0;
    std::span<const Piece> all() const { return std::span(parts).first(n); }
  };
  void frame(Type type, uint32_t seq, std::span<const Piece> payload, Framed& out) const noexcept;

  uint16_t version() const { return version_; }  // 0: nothing was read yet
  bool desynced() const { return desynced_; }
  Io ended() const { return ended_; }  // why, after kEnded
  // What the header that broke the stream said, for one line of log. "" before.
  const char* complaint() const { return complaint_; }
  Transport& transport() { return *transport_; }

 private:
  bool fill(size_t need, int64_t deadline_ns, Got& got);
  Got desync(HeaderState state, const Header& header);

  std::unique_ptr<Transport> transport_;
  std::vector<std::byte> buffer_;
  size_t start_ = 0, end_ = 0;  // of what is unread in buffer_
  size_t taken_ = 0;            // bytes of the message that read() gave out last
  uint16_t version_;
  uint32_t read_grid_;
  bool desynced_ = false, broken_send_ = false;
  Io ended_ = Io::kDone;
  char complaint_[160] = {};
};

}  // namespace outrider::link::jetlink
