#include "link/transport/loopback.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "link/transport/socket_stream.h"

namespace outrider::link {
namespace {

constexpr int kBufferBytes = 1 << 20;

// Abstract: a zero byte, then the name. Returns the length that bind and connect want.
socklen_t fill_address(const Endpoint& endpoint, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const int n = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "outrider-%d-%s",
                              static_cast<int>(::getpid()), endpoint.name.c_str());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(n));
}

TransportFacts facts_of(const std::string& name) {
  TransportFacts facts;
  facts.kind = TransportKind::kLoopback;
  std::snprintf(facts.peer, sizeof facts.peer, "loopback:%s", name.c_str());
  facts.peer_is_local = true;
  facts.encrypted = true;
  return facts;
}

std::unique_ptr<Transport> stream_of(Fd fd, const std::string& name) {
  for (int option : {SO_SNDBUF, SO_RCVBUF})
    ::setsockopt(fd.get(), SOL_SOCKET, option, &kBufferBytes, sizeof kBufferBytes);
  return std::make_unique<SocketStream>(std::move(fd), facts_of(name));
}

Result<std::unique_ptr<Transport>> dress(Fd fd) {
  ucred peer{};
  socklen_t n = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0 || peer.pid != ::getpid())
    return make_error(Code::kDevice, "loopback: a peer of another process was turned away");
  return stream_of(std::move(fd), "peer");
}

}  // namespace

Result<std::unique_ptr<Transport>> connect_loopback(const Endpoint& endpoint, int64_t deadline_ns) {
  sockaddr_un address;
  const socklen_t n = fill_address(endpoint, address);
  for (;;) {
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return make_error(Code::kDevice, "%s: %s", endpoint.text().c_str(), strerror(errno));
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), n) == 0)
      return stream_of(std::move(fd), endpoint.name);
    if (errno != EAGAIN)  // EAGAIN: the listener's queue is full
      return make_error(Code::kNotFound, "%s: nobody in this process listens there (%s)",
                        endpoint.text().c_str(), strerror(errno));
    if (steady_now_ns() >= deadline_ns)
      return make_error(Code::kNotReady, "%s: no answer in time", endpoint.text().c_str());
    constexpr timespec kMillisecond = {0, 1'000'000};
    ::nanosleep(&kMillisecond, nullptr);
  }
}

Result<std::unique_ptr<Listener>> listen_loopback(const Endpoint& endpoint) {
  sockaddr_un address;
  const socklen_t n = fill_address(endpoint, address);
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  constexpr int kBacklog = 128;
  if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), n) != 0 ||
      ::listen(fd.get(), kBacklog) != 0)
    return make_error(Code::kInvalid, "%s: cannot listen: %s", endpoint.text().c_str(),
                      strerror(errno));
  return SocketListener::make(std::move(fd), endpoint.text(), true, dress);
}

Result<std::pair<std::unique_ptr<Transport>, std::unique_ptr<Transport>>> loopback_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
    return make_error(Code::kDevice, "loopback: socketpair: %s", strerror(errno));
  auto a = stream_of(Fd(fds[0]), "pair");
  auto b = stream_of(Fd(fds[1]), "pair");
  return std::pair(std::move(a), std::move(b));
}

}  // namespace outrider::link
