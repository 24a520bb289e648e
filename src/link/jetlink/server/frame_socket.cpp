#include "link/jetlink/server/frame_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace outrider::link::jetlink {
namespace {

// Datagrams that are taken in one go before the stream is looked at again.
constexpr int kMostAtOnce = 64;

std::string address_bytes(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return std::string(reinterpret_cast<const char*>(&v4.sin_addr), sizeof v4.sin_addr);
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return std::string(reinterpret_cast<const char*>(&v6.sin6_addr), sizeof v6.sin6_addr);
}

}  // namespace

Result<FrameSocket> FrameSocket::open(int tcp_fd) {
  sockaddr_storage here{}, there{};
  socklen_t n_here = sizeof here, n_there = sizeof there;
  if (::getsockname(tcp_fd, reinterpret_cast<sockaddr*>(&here), &n_here) != 0 ||
      ::getpeername(tcp_fd, reinterpret_cast<sockaddr*>(&there), &n_there) != 0)
    return make_error(Code::kDevice, "frame datagrams: %s", std::strerror(errno));
  FrameSocket out;
  out.peer_ = address_bytes(there);
  auto& port = here.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(here).sin_port
                                         : reinterpret_cast<sockaddr_in6&>(here).sin6_port;
  port = 0;
  out.fd_ = Fd(::socket(here.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  constexpr int kBufferBytes = 4 << 20;
  if (out.fd_)
    ::setsockopt(out.fd_.get(), SOL_SOCKET, SO_RCVBUF, &kBufferBytes, sizeof kBufferBytes);
  if (!out.fd_ || ::bind(out.fd_.get(), reinterpret_cast<const sockaddr*>(&here), n_here) != 0 ||
      ::getsockname(out.fd_.get(), reinterpret_cast<sockaddr*>(&here), &n_here) != 0)
    return make_error(Code::kDevice, "frame datagrams: %s", std::strerror(errno));
  out.port_ = ntohs(port);
  out.datagram_.resize(65536);
  return out;
}

bool FrameSocket::read(Message& out, uint16_t version) {
  for (int i = 0; i < kMostAtOnce; ++i) {
    sockaddr_storage from{};
    socklen_t n_from = sizeof from;
    const ssize_t n = ::recvfrom(fd_.get(), datagram_.data(), datagram_.size(), MSG_DONTWAIT,
                                 reinterpret_cast<sockaddr*>(&from), &n_from);
    if (n < 0) return false;
    if (address_bytes(from) != peer_) continue;
    if (!assembler_.take(std::span(datagram_).first(static_cast<size_t>(n)))) continue;
    const auto message = assembler_.message();
    if (decode_header(message, out.header) != HeaderState::kGood) continue;
    // What must not be lost does not come this way.
    if (out.header.version != version || out.type() != Type::kInferReq) continue;
    out.payload = message.subspan(kHeaderBytes, out.header.length);
    return true;
  }
  return false;
}

}  // namespace outrider::link::jetlink
