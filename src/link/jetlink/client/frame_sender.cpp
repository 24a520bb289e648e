#include "link/jetlink/client/frame_sender.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/assert.h"

namespace outrider::link::jetlink {
namespace {

// As many bytes of the parts from `offset` on as the range has, behind the head.
size_t gather(std::span<const Piece> parts, PieceRange range, std::span<iovec> out) {
  size_t n = 0, skip = range.offset, left = range.bytes;
  for (const Piece& part : parts) {
    if (left == 0) break;
    const size_t begin = std::min(skip, part.size());
    skip -= begin;
    const size_t take = std::min(left, part.size() - begin);
    if (take == 0) continue;
    out[n++] = {const_cast<std::byte*>(part.data()) + begin, take};
    left -= take;
  }
  OUTRIDER_ASSERT(left == 0);
  return n;
}

}  // namespace

Result<FrameSender> FrameSender::open(const char* peer, uint16_t port, uint32_t token) {
  const auto at = parse_endpoint(std::string("tcp://") + peer);
  if (!at) return make_error(Code::kUnsupported, "frame datagrams: \"%.90s\" is no address", peer);
  addrinfo want{};
  want.ai_socktype = SOCK_DGRAM;
  want.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(at.value().host.c_str(), std::to_string(port).c_str(), &want, &found) != 0)
    return make_error(Code::kUnsupported, "frame datagrams: \"%.90s\" is no address", peer);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> rows(found, ::freeaddrinfo);
  FrameSender out;
  out.token_ = token;
  out.fd_ = Fd(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  constexpr int kBufferBytes = 4 << 20;  // takes a frame whole
  if (out.fd_)
    ::setsockopt(out.fd_.get(), SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes);
  if (!out.fd_ || ::connect(out.fd_.get(), found->ai_addr, found->ai_addrlen) != 0)
    return make_error(Code::kDevice, "frame datagrams: %s", std::strerror(errno));
  return out;
}

bool FrameSender::send(uint32_t seq, std::span<const Piece> message) noexcept {
  OUTRIDER_ASSERT(message.size() <= kMostParts);
  uint32_t total = 0;
  for (const Piece& part : message) total += static_cast<uint32_t>(part.size());
  for (uint32_t i = 0; i < n_pieces(total); ++i) {
    const PieceRange range = piece_range(total, i);
    std::array<std::byte, kPieceHeadBytes> head;
    encode(PieceHead{kDatagramMagic, token_, seq, range.offset, total}, head);
    std::array<iovec, kMostParts + 1> parts;
    parts[0] = {head.data(), head.size()};
    msghdr datagram{};
    datagram.msg_iov = parts.data();
    datagram.msg_iovlen = 1 + gather(message, range, std::span(parts).subspan(1));
    ssize_t sent = 0;
    while ((sent = ::sendmsg(fd_.get(), &datagram, MSG_DONTWAIT | MSG_NOSIGNAL)) < 0 &&
           errno == EINTR) {
    }
    if (sent >= 0) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS;
  }
  return true;
}

}  // namespace outrider::link::jetlink
