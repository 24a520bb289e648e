#include "link/transport/tcp.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "link/transport/socket_stream.h"

namespace outrider::link {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t n_bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return v6.sin6_addr.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

uint16_t port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

std::string host_text(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text,
                sizeof text);
    return text;
  }
  ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text,
              sizeof text);
  return "[" + std::string(text) + "]";
}

// ---- names -------------------------------------------------------------------------------------

// A look-up that the system's resolver runs on a thread of its own, so that a deadline holds. One
// that cannot be called back keeps its memory: the resolver still writes there.
struct Lookup {
  std::string host, port;
  addrinfo hints{};
  gaicb request{};
};

Result<std::vector<Address>> addresses_of(addrinfo* list) {
  std::vector<Address> out;
  for (const addrinfo* a = list; a != nullptr && out.size() < 8; a = a->ai_next) {
    if (a->ai_addrlen > sizeof(sockaddr_storage)) continue;
    Address address;
    std::memcpy(&address.storage, a->ai_addr, a->ai_addrlen);
    address.n_bytes = a->ai_addrlen;
    out.push_back(address);
  }
  ::freeaddrinfo(list);
  return out;
}

Result<std::vector<Address>> resolve(const Endpoint& endpoint, int flags, int64_t deadline_ns) {
  auto lookup = std::make_unique<Lookup>();
  lookup->host = endpoint.host == "localhost" ? "127.0.0.1" : endpoint.host;
  lookup->port = std::to_string(endpoint.port);
  lookup->hints.ai_socktype = SOCK_STREAM;
  lookup->hints.ai_flags = flags | AI_NUMERICSERV | AI_NUMERICHOST;
  addrinfo* list = nullptr;
  if (::getaddrinfo(lookup->host.c_str(), lookup->port.c_str(), &lookup->hints, &list) == 0)
    return addresses_of(list);
  lookup->hints.ai_flags = flags | AI_NUMERICSERV;
  lookup->request.ar_name = lookup->host.c_str();
  lookup->request.ar_service = lookup->port.c_str();
  lookup->request.ar_request = &lookup->hints;
  gaicb* requests[] = {&lookup->request};
  if (::getaddrinfo_a(GAI_NOWAIT, requests, 1, nullptr) != 0)
    return make_error(Code::kDevice, "%s: the name cannot be looked up now",
                      endpoint.text().c_str());
  int state = EAI_INPROGRESS;
  while ((state = ::gai_error(&lookup->request)) == EAI_INPROGRESS) {
    const int64_t left = deadline_ns - steady_now_ns();
    if (left <= 0) {
      if (::gai_cancel(&lookup->request) != EAI_CANCELED) lookup.release();
      return make_error(Code::kNotReady, "%s: looking up the name took too long",
                        endpoint.text().c_str());
    }
    const timespec wait = {static_cast<time_t>(left / 1'000'000'000),
                           static_cast<long>(left % 1'000'000'000)};
    ::gai_suspend(requests, 1, &wait);
  }
  if (state != 0)
    return make_error(Code::kNotFound, "%s: host name: %s", endpoint.text().c_str(),
                      ::gai_strerror(state));
  return addresses_of(lookup->request.ar_result);
}

// ---- sockets -----------------------------------------------------------------------------------

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof value);
}

Result<std::unique_ptr<Transport>> dress(Fd fd) {
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, kTcpKeepIdleS);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL, kTcpKeepIntervalS);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPCNT, kTcpKeepProbes);
  set_option(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, kTcpUserTimeoutMs);
  set_option(fd.get(), SOL_SOCKET, SO_SNDBUF, kTcpSendBufferBytes);
  TransportFacts facts;
  facts.kind = TransportKind::kTcp;
  sockaddr_storage peer{};
  socklen_t n = sizeof peer;
  if (::getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer), &n) == 0) {
    const std::string text = host_text(peer) + ":" + std::to_string(port_of(peer));
    std::strncpy(facts.peer, text.c_str(), sizeof facts.peer - 1);
    facts.peer_is_local = is_loopback(peer);
  }
  return std::unique_ptr<Transport>(std::make_unique<SocketStream>(std::move(fd), facts));
}

// 0 when connected, else errno.
int connect_one(const Address& address, int64_t deadline_ns, Fd& out) {
  Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  if (::connect(fd.get(), address.get(), address.n_bytes) != 0) {
    if (errno != EINPROGRESS) return errno;
    const int n = wait_fd(fd.get(), POLLOUT, deadline_ns);
    if (n <= 0) return n == 0 ? EAGAIN : errno;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return error;
  }
  // A port of the ephemeral range with nobody there may connect to itself.
  sockaddr_storage here{}, there{};
  socklen_t a = sizeof here, b = sizeof there;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&here), &a);
  ::getpeername(fd.get(), reinterpret_cast<sockaddr*>(&there), &b);
  if (a == b && std::memcmp(&here, &there, a) == 0) return ECONNREFUSED;
  out = std::move(fd);
  return 0;
}

Error connect_error(const Endpoint& endpoint, int error) {
  const std::string name = endpoint.text();
  switch (error) {
    case EAGAIN:
    case ETIMEDOUT:
      return make_error(Code::kNotReady, "%s: no answer in time", name.c_str());
    case ECONNREFUSED:
      return make_error(Code::kNotFound, "%s: nobody listens there (connection refused)",
                        name.c_str());
    default:
      return make_error(Code::kDevice, "%s: %s", name.c_str(), strerror(error));
  }
}

}  // namespace

Result<std::unique_ptr<Transport>> connect_tcp(const Endpoint& endpoint, int64_t deadline_ns) {
  auto addresses = resolve(endpoint, 0, deadline_ns);
  if (!addresses) return addresses.error();
  int error = EADDRNOTAVAIL;
  for (const Address& address : addresses.value()) {
    Fd fd;
    error = connect_one(address, deadline_ns, fd);
    if (error == 0) return dress(std::move(fd));
    if (error == EAGAIN) break;
  }
  return connect_error(endpoint, error);
}

Result<TcpSocket> bind_tcp(const Endpoint& endpoint) {
  constexpr int64_t kLookupNs = 5'000'000'000;
  auto addresses = resolve(endpoint, AI_PASSIVE, steady_now_ns() + kLookupNs);
  if (!addresses) return addresses.error();
  if (addresses.value().empty())
    return make_error(Code::kInvalid, "%s: no address", endpoint.text().c_str());
  const Address& address = addresses.value().front();
  Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd) set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  constexpr int kBacklog = 128;  // a hall of devices comes back at once after a switch restarts
  if (!fd || ::bind(fd.get(), address.get(), address.n_bytes) != 0 ||
      ::listen(fd.get(), kBacklog) != 0)
    return make_error(Code::kInvalid, "%s: cannot listen: %s", endpoint.text().c_str(),
                      strerror(errno));
  sockaddr_storage here{};
  socklen_t n = sizeof here;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&here), &n);
  const std::string text = "tcp://" + host_text(here) + ":" + std::to_string(port_of(here));
  return TcpSocket{std::move(fd), text, is_loopback(here)};
}

Result<std::unique_ptr<Listener>> adopt_tcp(TcpSocket socket) {
  return SocketListener::make(std::move(socket.fd), std::move(socket.endpoint), socket.local_only,
                              dress);
}

Result<std::unique_ptr<Transport>> adopt_tcp_stream(Fd fd) {
  return dress(std::move(fd));
}

Result<std::unique_ptr<Listener>> listen_tcp(const Endpoint& endpoint) {
  auto socket = bind_tcp(endpoint);
  if (!socket) return socket.error();
  return adopt_tcp(std::move(socket.value()));
}

}  // namespace outrider::link
