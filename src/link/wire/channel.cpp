#include "link/wire/channel.h"

#include <algorithm>

#include "link/wire/crc32c.h"

namespace outrider::link::wire {
namespace {

// Before OPEN nothing but measuring carries a payload.
constexpr uint64_t kFirstPayloadBytes = Probe::kMaxBytes;
constexpr size_t kSmallBodyBytes = 8 << 10;
constexpr std::array<std::byte, 4096> kZeros{};
constexpr size_t kMaxPieces = 1024;

}  // namespace

Cause cause_of(Io io) {
  switch (io) {
    case Io::kDone:
      return Cause::kNone;
    case Io::kLate:
      return Cause::kDeadline;
    case Io::kClosed:
    case Io::kReset:
      return Cause::kHost;
    case Io::kGone:
      return Cause::kCable;
    case Io::kShut:
      return Cause::kStopped;
    case Io::kBroken:
      return Cause::kProtocol;
  }
  return Cause::kProtocol;
}

Channel::Channel(std::unique_ptr<Transport> transport, const Clock& clock)
    : transport_(std::move(transport)),
      clock_(&clock),
      max_payload_bytes_(kFirstPayloadBytes),
      out_(kHeaderBytes + kSmallBodyBytes),
      in_(kReadBytes) {
  body_.reserve(kSmallBodyBytes);
  pieces_.reserve(kMaxPieces);
  rest_.reserve(kMaxPieces);
  last_received_ns_ = clock.now_ns();
}

void Channel::set_limits(uint64_t max_payload_bytes, size_t tail_bytes) {
  max_payload_bytes_ = std::max<uint64_t>(max_payload_bytes, kFirstPayloadBytes);
  tail_.reserve(tail_bytes);
}

// ---- sending -----------------------------------------------------------------------------------

std::span<std::byte> Channel::room_for(size_t body_bytes) {
  if (out_.size() < kHeaderBytes + body_bytes) out_.resize(kHeaderBytes + body_bytes);
  return out_;
}

Io Channel::send_encoded(uint16_t type, size_t body_bytes, const Outgoing& facts,
                         std::span<const Piece> payload, int64_t deadline_ns) {
  begun_ = false;
  if (carries_frames_ && message_info(type)->kind.priority == Priority::kTelemetry) {
    if (!is_idle()) return Io::kLate;
    deadline_ns = clock_->now_ns();
  }
  if (const Io io = flush(deadline_ns); io != Io::kDone) return io;
  const std::span<const std::byte> body = std::span(out_).subspan(kHeaderBytes, body_bytes);
  Header header;
  header.type = type;
  header.version = static_cast<uint8_t>(version_);
  header.flags = facts.flags;
  header.body_bytes = static_cast<uint32_t>(body_bytes);
  header.sequence = next_sequence_;
  header.request_id = facts.request_id;
  header.epoch = facts.epoch;
  header.captured_ns = facts.captured_ns;
  header.content_crc = crc32c(body);
  pieces_.clear();
  pieces_.push_back(std::span(out_).first(kHeaderBytes + body_bytes));
  uint64_t payload_bytes = 0;
  for (const Piece& piece : payload) {
    payload_bytes += piece.size();
    header.content_crc = crc32c(piece, header.content_crc);
    pieces_.push_back(piece);
  }
  OUTRIDER_ASSERT(payload_bytes <= kMaxPayloadBytes);
  OUTRIDER_ASSERT(!carries_frames_ || payload_bytes <= kTelemetryPieceBytes ||
                  message_info(type)->kind.priority != Priority::kTelemetry);
  header.payload_bytes = static_cast<uint32_t>(payload_bytes);
  header.pad_bytes =
      pad_for(kHeaderBytes + body_bytes + payload_bytes, transport_->facts().pad_grid_bytes);
  for (uint32_t left = header.pad_bytes; left > 0;) {
    const auto n = std::min<uint32_t>(left, kZeros.size());
    pieces_.push_back(std::span(kZeros).first(n));
    left -= n;
  }
  header.echo_sent_ns = echo_sent_ns_;
  header.echo_received_ns = echo_received_ns_;
  header.sent_ns = clock_->now_ns();
  encode_header(header, out_);
  const Io io = send_pieces(payload.size(), facts.lent, deadline_ns);
  if (begun_) ++next_sequence_, ++counters_.sent;
  return io;
}

// pieces_: header and body, n_payload of the caller, padding.
Io Channel::send_pieces(size_t n_payload, bool lent, int64_t deadline_ns) {
  const uint64_t copied = transport_->copied_bytes();
  const Moved moved = transport_->send(pieces_, deadline_ns);
  counters_.sent_bytes += moved.bytes;
  const uint64_t more = transport_->copied_bytes() - copied, own = pieces_[0].size();
  if (n_payload > 0 && more > own) counters_.copied_bytes += more - own;
  begun_ = moved.bytes > 0;
  if (moved.io == Io::kLate && begun_) keep_rest(n_payload, lent, moved.bytes);
  return moved.io;
}

// Padding is nobody's and stays; a lent payload stays where it is; the rest is copied.
void Channel::keep_rest(size_t n_payload, bool lent, size_t sent) {
  const auto stays = [&](size_t i) { return i > n_payload || (lent && i > 0); };
  const auto for_rest = [&](auto&& visit) {
    size_t skip = sent;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const size_t gone = std::min(skip, pieces_[i].size());
      skip -= gone;
      if (gone < pieces_[i].size()) visit(i, pieces_[i].subspan(gone));
    }
  };
  size_t n_copied = 0, at = 0;
  for_rest([&](size_t i, Piece rest) { n_copied += stays(i) ? 0 : rest.size(); });
  tail_.resize(n_copied);
  rest_.clear();
  rest_at_ = 0;
  rest_lent_ = lent;
  for_rest([&](size_t i, Piece rest) {
    if (!stays(i)) {
      const auto copy = std::span(tail_).subspan(at, rest.size());
      std::memcpy(copy.data(), rest.data(), rest.size());
      at += rest.size();
      if (i > 0) counters_.copied_bytes += rest.size();
      rest = copy;
    }
    rest_.push_back(rest);
  });
}

Io Channel::flush(int64_t deadline_ns) noexcept {
  if (!has_rest()) return Io::kDone;
  const uint64_t copied = transport_->copied_bytes();
  const Moved moved = transport_->send(std::span(rest_).subspan(rest_at_), deadline_ns);
  counters_.copied_bytes += transport_->copied_bytes() - copied;
  counters_.sent_bytes += moved.bytes;
  for (size_t left = moved.bytes; has_rest();) {
    const size_t gone = std::min(left, rest_[rest_at_].size());
    rest_[rest_at_] = rest_[rest_at_].subspan(gone);
    left -= gone;
    if (!rest_[rest_at_].empty()) break;
    ++rest_at_;
  }
  return moved.io;
}

// ---- receiving ---------------------------------------------------------------------------------

// Reads more behind what is there. Only called when in_ has room after moving its rest forward.
Got Channel::fill(int64_t deadline_ns, Incoming& out) {
  if (in_begin_ == in_end_) {
    in_begin_ = in_end_ = 0;
  } else if (in_end_ == in_.size()) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  const Moved moved = transport_->receive(std::span(in_).subspan(in_end_), deadline_ns);
  in_end_ += moved.bytes;
  note_received(moved.bytes);
  if (moved.io == Io::kDone) return Got::kMessage;
  out.io = moved.io;
  return moved.io == Io::kLate ? Got::kLate : Got::kLost;
}

// A header at the front of what is there, after taking away what is none. Pad bytes of a message
// whose header was lost are among it. False: more bytes are needed.
bool Channel::find_header() {
  while (in_end_ - in_begin_ >= kHeaderBytes) {
    const auto at = std::span<const std::byte>(in_).subspan(in_begin_, kHeaderBytes);
    if (decode_header(at, header_) != HeaderState::kNoHeader) return true;
    if (synced_) ++counters_.resyncs;
    synced_ = false;
    ++in_begin_, ++counters_.skipped_bytes, ++skipped_in_row_;
  }
  return false;
}

Got Channel::check_header() {
  const MessageInfo* info = message_info(header_.type);
  const uint64_t body_limit =
      info == nullptr ? kMaxBodyBytes : info->max_body_bytes + kNewerRoomBytes;
  const uint64_t payload_limit =
      info == nullptr ? max_payload_bytes_
                      : std::min<uint64_t>(info->kind.max_payload_bytes, max_payload_bytes_);
  const bool good = header_.body_bytes <= body_limit && header_.payload_bytes <= payload_limit &&
                    header_.pad_bytes <= kMaxPadBytes;
  return good ? Got::kMessage : Got::kRules;
}

// Behind a header only: noise is no sign of life.
void Channel::note_received(size_t bytes) noexcept {
  counters_.received_bytes += bytes;
  if (state_ == State::kHeader) return;
  life_bytes_ += bytes;
  if (life_bytes_ < kLifeBytes) return;
  life_bytes_ = 0;
  last_received_ns_ = clock_->now_ns();
}

bool Channel::is_leaving() noexcept {
  const uint64_t unsent = transport_->unsent_bytes();
  const uint64_t left = counters_.sent_bytes - std::min(unsent, counters_.sent_bytes);
  if ((!has_rest() && unsent == 0) || left < left_bytes_ + kLifeBytes) return false;
  left_bytes_ = left;
  return true;
}

void Channel::stamp(const Header& header) {
  life_bytes_ = 0;
  header_ns_ = last_received_ns_ = clock_->now_ns();
  if (header.echo_sent_ns != 0)
    sync_.add(header.echo_sent_ns, header.echo_received_ns, header.sent_ns, header_ns_);
  echo_sent_ns_ = header.sent_ns;
  echo_received_ns_ = header_ns_;
  if (header.sequence > peer_sequence_ + 1) counters_.gaps += header.sequence - peer_sequence_ - 1;
  peer_sequence_ = header.sequence;
}

// Appends what is there; the body grows as its bytes arrive, not as the header promises.
void Channel::take_body() {
  const size_t n = std::min<size_t>(in_end_ - in_begin_, header_.body_bytes - body_.size());
  const auto part = std::span(in_).subspan(in_begin_, n);
  body_.insert(body_.end(), part.begin(), part.end());
  in_begin_ += n;
}

void Channel::open_payload(PayloadPlace* place) {
  crc_ = crc32c(body_);
  payload_at_ = 0;
  place_ = {};
  if (header_.payload_bytes > 0 && place != nullptr && message_info(header_.type) != nullptr)
    place_ = place->place(header_, body_);
  keep_payload_ = place_.size() >= header_.payload_bytes;
  place_ = keep_payload_ ? place_.first(header_.payload_bytes) : std::span<std::byte>();
  state_ = State::kPayload;
}

Got Channel::take_payload(int64_t deadline_ns, Incoming& out) {
  while (payload_at_ < header_.payload_bytes) {
    const uint64_t left = header_.payload_bytes - payload_at_;
    if (in_begin_ == in_end_ && keep_payload_) {  // straight into its place
      const auto into = place_.subspan(payload_at_);
      const Moved moved = transport_->receive(into, deadline_ns);
      note_received(moved.bytes);
      crc_ = crc32c(into.first(moved.bytes), crc_);
      payload_at_ += moved.bytes;
      if (moved.io == Io::kDone) continue;
      out.io = moved.io;
      return moved.io == Io::kLate ? Got::kLate : Got::kLost;
    }
    if (in_begin_ == in_end_)
      if (const Got got = fill(deadline_ns, out); got != Got::kMessage) return got;
    const auto part =
        std::span(in_).subspan(in_begin_, std::min<uint64_t>(left, in_end_ - in_begin_));
    if (keep_payload_) std::memcpy(place_.data() + payload_at_, part.data(), part.size());
    crc_ = crc32c(part, crc_);
    payload_at_ += part.size();
    in_begin_ += part.size();
  }
  pad_left_ = header_.pad_bytes;
  state_ = State::kPad;
  return Got::kMessage;
}

Got Channel::finish(Incoming& out) {
  state_ = State::kHeader;
  out.header = header_;
  out.received_ns = header_ns_;
  out.body = body_;
  out.payload = place_;
  ++counters_.received;
  if (crc_ == header_.content_crc) return Got::kMessage;
  ++counters_.corrupted;
  out.body = out.payload = {};
  return Got::kCorrupted;
}

Got Channel::receive(Incoming& out, PayloadPlace* place, int64_t deadline_ns) {
  for (;;) {
    switch (state_) {
      case State::kHeader:
        if (!find_header()) {
          if (skipped_in_row_ > (header_first_ ? 0 : kMaxSkippedBytes)) return Got::kRules;
          if (const Got got = fill(deadline_ns, out); got != Got::kMessage) return got;
          break;
        }
        if (header_first_ && skipped_in_row_ > 0) return Got::kRules;
        header_first_ = false;
        synced_ = true, skipped_in_row_ = 0;
        if (const Got got = check_header(); got != Got::kMessage) {
          out.header = header_;
          return got;
        }
        in_begin_ += kHeaderBytes;
        stamp(header_);
        body_.clear();
        state_ = State::kBody;
        break;
      case State::kBody:
        take_body();
        if (body_.size() == header_.body_bytes)
          open_payload(place);
        else if (const Got got = fill(deadline_ns, out); got != Got::kMessage)
          return got;
        break;
      case State::kPayload:
        if (const Got got = take_payload(deadline_ns, out); got != Got::kMessage) return got;
        break;
      case State::kPad: {
        const auto n = std::min<uint64_t>(pad_left_, in_end_ - in_begin_);
        in_begin_ += n, pad_left_ -= n;
        if (pad_left_ == 0)
          state_ = State::kDone;
        else if (const Got got = fill(deadline_ns, out); got != Got::kMessage)
          return got;
        break;
      }
      case State::kDone: {
        const Got got = finish(out);
        if (message_info(out.header.type) != nullptr) return got;
        ++counters_.unknown;
        if ((out.header.flags & kMustKnow) != 0) {
          Fault fault;
          fault.cause = static_cast<uint8_t>(Cause::kProtocol);
          fault.code = to_abi(Code::kUnsupported);
          fault.about = out.header.type;
          fault.text.assign("this end does not know the message");
          send(fault, {out.header.request_id, out.header.epoch, 0, 0}, {}, deadline_ns);
        }
        break;
      }
    }
  }
}

}  // namespace outrider::link::wire
