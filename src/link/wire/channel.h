// Messages over a Transport: framing, checks, resync, stamps. One end of one connection.
//
// One thread at a time. After the making nothing allocates on the way of a frame: bodies of frame
// messages are small, payloads go from and to memory of the caller.
//
// Sending. A message whose deadline passes half way goes on its way with the next call: what is
// left of it is kept (rest) and sent first. The caller learns kLate and may use its memory again:
// it was copied; or, when the payload was lent, not before has_lent() is false. Receiving. Partial
// messages are kept over any number of deadlines.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "link/transport/transport.h"
#include "link/wire/clock_sync.h"
#include "link/wire/messages.h"

namespace outrider::link::wire {

// Where the payload of a message goes. Asked once per message that has one, when its body is here.
// A place shorter than the payload: the payload is read and thrown away.
class PayloadPlace {
 public:
  virtual std::span<std::byte> place(const Header& header, std::span<const std::byte> body) = 0;

 protected:
  ~PayloadPlace() = default;
};

enum class Got : uint8_t {
  kMessage,    // header, body and payload are whole
  kCorrupted,  // the header is true, the content is not: nothing of it may be used
  kLate,
  kLost,  // the stream ended: Incoming::io
  kRules  // a true header that breaks a limit, or no header where one must be: the stream must end
};

struct Incoming {
  Header header;
  std::span<const std::byte> body;     // valid until the next receive
  std::span<const std::byte> payload;  // in the place that was given; empty when thrown away
  int64_t received_ns = 0;             // when the header was here
  Io io = Io::kDone;
};

struct Outgoing {
  uint64_t request_id = 0;
  uint32_t epoch = 0;
  int64_t captured_ns = 0;
  uint8_t flags = 0;
  bool lent = false;  // the payload stays as it is until has_lent() is false
};

struct ChannelCounters {
  uint64_t sent = 0, received = 0, sent_bytes = 0, received_bytes = 0;
  uint64_t corrupted = 0;      // contents whose CRC disagreed
  uint64_t resyncs = 0;        // times that no header was where one should be
  uint64_t skipped_bytes = 0;  // taken away until there was one again
  uint64_t gaps = 0;           // messages missing between two that came
  uint64_t unknown = 0;        // messages of a type that is not known here
  uint64_t copied_bytes = 0;   // of payloads, in user space: by the transport, and what was left of
                               // late sends
};

class Channel {
 public:
  static constexpr size_t kReadBytes = 16 << 10;
  // What may stand in front of a frame: payload of one piece of telemetry.
  static constexpr uint32_t kTelemetryPieceBytes = 64 << 10;
  // So much of a message that is on its way is a sign of life of the peer; a trickle is none.
  static constexpr uint64_t kLifeBytes = 16 << 10;
  // Without a header for so long in a row the stream is no link.
  static constexpr uint64_t kMaxSkippedBytes = uint64_t{1} << 28;

  // [setup] Takes the transport over. `max_payload_bytes`: what one received payload may have.
  Channel(std::unique_ptr<Transport> transport, const Clock& clock);

  // [setup] Narrows what the peer may send, and takes memory for the rest of a late message of at
  // most tail_bytes.
  void set_limits(uint64_t max_payload_bytes, size_t tail_bytes);
  // [setup] The stream must begin with a header: what does not is no link, and nothing behind it is
  // looked at (kRules). Without it noise in front is skipped, as behind a replug of USB.
  void begin_with_header() { header_first_ = true; }
  // [setup] Frames travel here from now on: telemetry is only sent in pieces of at most
  // kTelemetryPieceBytes, without waiting, and only while is_idle().
  void set_carries_frames() { carries_frames_ = true; }
  void set_version(uint16_t version) { version_ = version; }
  uint16_t version() const { return version_; }

  // [hot] Sends a message; pieces are the payload. kDone or kLate: it is on its way (kLate with
  // nothing begun: `begun()` is false and the message was not sent at all). Others: the stream
  // ended.
  template <class M>
  Io send(const M& message, const Outgoing& facts, std::span<const Piece> payload,
          int64_t deadline_ns) {
    std::span<std::byte> out = room_for(max_bytes<M>());
    const size_t n = encode(message, out.subspan(kHeaderBytes), version_ == 0 ? 1 : version_);
    return send_encoded(type_of<M>(), n, facts, payload, deadline_ns);
  }
  bool begun() const { return begun_; }
  // [hot] Sends what is left of a late message. kDone when nothing is left.
  Io flush(int64_t deadline_ns) noexcept;
  bool has_rest() const { return rest_at_ < rest_.size(); }
  // Memory of a caller is still to be read.
  bool has_lent() const { return rest_lent_ && has_rest(); }
  // Never reads it again; the stream is over.
  void forget_rest() noexcept { rest_.clear(), rest_at_ = 0, rest_lent_ = false; }
  // [hot] Everything that was sent has reached the peer, as far as the medium tells.
  bool is_idle() const noexcept { return !has_rest() && transport_->unsent_bytes() == 0; }

  // [hot] The next message, of any known type. Messages of unknown types are skipped (answered with
  // FAULT when the peer asks for that). `place` may be nullptr: payloads are thrown away.
  Got receive(Incoming& out, PayloadPlace* place, int64_t deadline_ns);
  // [hot] The place that was given belongs to its owner again: the rest of a payload that is still
  // on its way is thrown away.
  void forget_place() noexcept { keep_payload_ = false, place_ = {}; }
  // Bytes of a further message are already here.
  bool has_buffered() const { return in_begin_ < in_end_; }
  // When the last header, or the last kLifeBytes of what is behind one, came.
  int64_t last_received_ns() const { return last_received_ns_; }
  // [hot] Something is still to leave, and kLifeBytes of it did since this last said so: the peer
  // reads, and has not come to the last message yet.
  bool is_leaving() noexcept;

  const ClockSync& clock_sync() const { return sync_; }
  const ChannelCounters& counters() const { return counters_; }
  Transport& transport() { return *transport_; }
  const TransportFacts& facts() const { return transport_->facts(); }

 private:
  enum class State : uint8_t { kHeader, kBody, kPayload, kPad, kDone };

  std::span<std::byte> room_for(size_t body_bytes);
  Io send_encoded(uint16_t type, size_t body_bytes, const Outgoing& facts,
                  std::span<const Piece> payload, int64_t deadline_ns);
  Io send_pieces(size_t n_payload, bool lent, int64_t deadline_ns);
  void keep_rest(size_t n_payload, bool lent, size_t sent);

  Got fill(int64_t deadline_ns, Incoming& out);
  bool find_header();
  Got check_header();
  void stamp(const Header& header);
  void note_received(size_t bytes) noexcept;
  void take_body();
  void open_payload(PayloadPlace* place);
  Got take_payload(int64_t deadline_ns, Incoming& out);
  Got finish(Incoming& out);

  std::unique_ptr<Transport> transport_;
  const Clock* clock_;
  uint16_t version_ = 0;
  uint64_t max_payload_bytes_ = 0;

  // sending
  std::vector<std::byte> out_;
  std::vector<Piece> pieces_;
  std::vector<std::byte> tail_;  // copies of what is in rest_
  std::vector<Piece> rest_;      // of a message that was late
  size_t rest_at_ = 0;
  bool rest_lent_ = false;
  uint32_t next_sequence_ = 1;
  bool begun_ = false, carries_frames_ = false;

  // receiving
  bool header_first_ = false;  // until there was one
  std::vector<std::byte> in_;
  size_t in_begin_ = 0, in_end_ = 0;
  State state_ = State::kHeader;
  Header header_;
  int64_t header_ns_ = 0;
  std::vector<std::byte> body_;
  std::span<std::byte> place_;
  uint64_t payload_at_ = 0, pad_left_ = 0, skipped_in_row_ = 0;
  uint32_t crc_ = 0, peer_sequence_ = 0;
  bool keep_payload_ = false, synced_ = true;

  uint64_t life_bytes_ = 0, left_bytes_ = 0;
  int64_t last_received_ns_ = 0, echo_sent_ns_ = 0, echo_received_ns_ = 0;
  ClockSync sync_;
  ChannelCounters counters_;
};

// How an end of a stream is named.
Cause cause_of(Io io);

}  // namespace outrider::link::wire
