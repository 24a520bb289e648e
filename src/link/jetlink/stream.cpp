#include "link/jetlink/stream.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "base/assert.h"

namespace outrider::link::jetlink {
namespace {

constexpr size_t kFirstBytes = 128u << 10;
constexpr std::array<std::byte, kGadgetGrid> kZeros{};

}  // namespace

Stream::Stream(std::unique_ptr<Transport> transport, uint16_t version, uint32_t read_grid,
               std::span<const std::byte> begun)
    : transport_(std::move(transport)),
      buffer_(std::max(kFirstBytes, begun.size())),
      end_(begun.size()),
      version_(version),
      read_grid_(read_grid) {
  if (!begun.empty()) std::memcpy(buffer_.data(), begun.data(), begun.size());
}

// Until `need` unread bytes are there. The buffer doubles only once it is full of them.
bool Stream::fill(size_t need, int64_t deadline_ns, Got& got) {
  while (end_ - start_ < need) {
    if (start_ + need > buffer_.size() && start_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + start_, end_ - start_);
      end_ -= start_;
      start_ = 0;
    }
    if (end_ == buffer_.size()) buffer_.resize(std::min(buffer_.size() * 2, start_ + need));
    const size_t most = std::min(buffer_.size(), start_ + need) - end_;
    const Moved moved = transport_->receive(std::span(buffer_).subspan(end_, most), deadline_ns);
    end_ += moved.bytes;
    if (moved.io == Io::kDone) continue;
    got = moved.io == Io::kLate ? Got::kLate : Got::kEnded;
    if (got == Got::kEnded) ended_ = moved.io;
    return false;
  }
  return true;
}

Got Stream::desync(HeaderState state, const Header& header) {
  desynced_ = true;
  if (state == HeaderState::kNoMagic)
    std::snprintf(complaint_, sizeof complaint_, "what came is no header of this protocol");
  else if (state == HeaderState::kTooLong)
    std::snprintf(complaint_, sizeof complaint_, "a message of %u bytes, allowed: %u",
                  header.length, kMaxPayloadBytes);
  else
    std::snprintf(complaint_, sizeof complaint_, "a header of version %u, allowed: %s",
                  header.version,
                  version_ == 0           ? "2 or 3"
                  : version_ == kVersion2 ? "2, as this connection began"
                                          : "3, as this connection began");
  return Got::kDesynced;
}

Got Stream::read(Message& out, int64_t deadline_ns) {
  if (desynced_) return Got::kDesynced;
  if (ended_ != Io::kDone) return Got::kEnded;
  start_ += std::exchange(taken_, 0);
  if (start_ == end_) start_ = end_ = 0;
  Got got = Got::kMessage;
  if (!fill(kHeaderBytes, deadline_ns, got)) return got;
  Header header;
  HeaderState state =
      decode_header(std::span<const std::byte>(buffer_).subspan(start_, kHeaderBytes), header);
  if (state != HeaderState::kNoMagic && version_ != 0 && header.version != version_)
    state = HeaderState::kOtherVersion;
  if (state != HeaderState::kGood) return desync(state, header);
  version_ = header.version;
  const size_t whole = kHeaderBytes + header.length + pad_of(header, read_grid_);
  if (!fill(whole, deadline_ns, got)) return got;
  out.header = header;
  out.payload = std::span<const std::byte>(buffer_).subspan(start_ + kHeaderBytes, header.length);
  taken_ = whole;
  return Got::kMessage;
}

void Stream::frame(Type type, uint32_t seq, std::span<const Piece> payload,
                   Framed& out) const noexcept {
  OUTRIDER_ASSERT(payload.size() <= kMostPieces);
  Header header;
  header.version = version_ == 0 ? kVersion3 : version_;
  header.type = static_cast<uint16_t>(type);
  header.seq = seq;
  uint64_t length = 0;
  for (const Piece& piece : payload) length += piece.size();
  OUTRIDER_ASSERT(length <= kMaxPayloadBytes);
  header.length = static_cast<uint32_t>(length);
  const uint32_t pad = add_pad(header, transport_->facts().pad_grid_bytes);
  encode_header(header, out.head);
  out.n = 0;
  out.parts[out.n++] = out.head;
  for (const Piece& piece : payload) out.parts[out.n++] = piece;
  if (pad > 0) out.parts[out.n++] = std::span(kZeros).first(pad);
}

Io Stream::send(Type type, uint32_t seq, std::span<const Piece> payload, int64_t deadline_ns) {
  if (broken_send_) return Io::kBroken;
  Framed message;
  frame(type, seq, payload, message);
  const Moved moved = transport_->send(message.all(), deadline_ns);
  if (moved.io != Io::kDone && moved.bytes > 0) broken_send_ = true;
  return moved.io;
}

}  // namespace outrider::link::jetlink
