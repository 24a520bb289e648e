#include "link/jetlink/server/server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "link/jetlink/server/frame_socket.h"

namespace outrider::link::jetlink {
namespace {

constexpr int64_t kPollNs = 200'000'000;

// The IPv4 address of one end as text; "" for anything else.
std::string address_of(int fd, bool peer) {
  sockaddr_storage address{};
  socklen_t n = sizeof address;
  const int failed = peer ? ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &n)
                          : ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &n);
  char text[INET_ADDRSTRLEN] = {};
  if (failed != 0 || address.ss_family != AF_INET) return "";
  ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  return text;
}

uint32_t random_token() {
  uint32_t token = 0;
  while (token == 0)
    if (::getrandom(&token, sizeof token, 0) != sizeof token)
      token = static_cast<uint32_t>(steady_now_ns());
  return token;
}

}  // namespace

Server::Server(const ServerOptions& options, Host& host, const Clock& clock)
    : options_(options), host_(&host), clock_(&clock) {}

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, Host& host,
                                              const Clock& clock) {
  auto socket = bind_tcp(options.listen);
  if (!socket) return socket.error();
  std::unique_ptr<Server> server(new Server(options, host, clock));
  server->listening_ = std::move(socket.value().fd);
  server->endpoint_ = socket.value().endpoint;
  server->local_only_ = socket.value().local_only;
  server->wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->wake_) return make_error(Code::kDevice, "eventfd: %s", std::strerror(errno));
  server->acceptor_ = std::thread([&s = *server] { s.accept_all(); });
  server->server_ = std::thread([&s = *server] { s.serve_all(); });
  return server;
}

Server::~Server() {
  if (!acceptor_.joinable()) return;
  {
    std::scoped_lock hold(lock_);
    stop_ = true;
    if (served_ != nullptr) served_->stop();
  }
  came_.notify_all();
  const uint64_t one = 1;
  const ssize_t ignored = ::write(wake_.get(), &one, sizeof one);
  (void)ignored;
  acceptor_.join();
  server_.join();
}

// ---- newcomers --------------------------------------------------------------------------------

void Server::accept_all() {
  while (!stop_) {
    std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}};
    for (const auto& newcomer : silent_) fds.push_back({newcomer->fd, POLLIN, 0});
    const int timeout_ms = silent_.empty() ? -1 : static_cast<int>(kPollNs / 1'000'000);
    if (::poll(fds.data(), fds.size(), timeout_ms) < 0 && errno != EINTR) return;
    if (stop_) return;
    std::vector<std::unique_ptr<Newcomer>> still;
    for (auto& newcomer : silent_) {
      if (!hear(*newcomer)) continue;
      if (newcomer->version != 0)
        place(std::move(newcomer));
      else
        still.push_back(std::move(newcomer));
    }
    silent_ = std::move(still);
    if ((fds[1].revents & POLLIN) != 0) accept_one();
  }
}

void Server::accept_one() {
  Fd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) ::usleep(50'000);
    return;
  }
  auto newcomer = std::make_unique<Newcomer>();
  newcomer->fd = fd.get();
  newcomer->peer_address = address_of(fd.get(), true);
  newcomer->cable =
      newcomer->peer_address == kCableAddress || address_of(fd.get(), false) == kCableAddress;
  newcomer->begun_ns = clock_->now_ns();
  auto transport = adopt_tcp_stream(std::move(fd));
  if (!transport) return;
  newcomer->transport = std::move(transport.value());
  if (silent_.size() >= kMaxWaiting) silent_.erase(silent_.begin());  // silence gets no place
  silent_.push_back(std::move(newcomer));
}

// False: it ended, was silent for too long, or what it sent is no header.
bool Server::hear(Newcomer& newcomer) {
  while (newcomer.n_head < kHeaderBytes) {
    const Moved moved =
        newcomer.transport->receive(std::span(newcomer.head).subspan(newcomer.n_head), 0);
    newcomer.n_head += moved.bytes;
    if (moved.io == Io::kLate) return clock_->now_ns() - newcomer.begun_ns < kFirstHeaderNs;
    if (moved.io != Io::kDone) return false;
  }
  Header header;
  const HeaderState state = decode_header(newcomer.head, header);
  const bool known = options_.version == 0 || header.version == options_.version;
  if (state != HeaderState::kGood || !known) {
    log_line(LogLevel::kInfo, "jetlink: %s began with no header of this protocol",
             newcomer.transport->facts().peer);
    return false;
  }
  newcomer.version = header.version;
  return true;
}

void Server::place(std::unique_ptr<Newcomer> newcomer) {
  std::scoped_lock hold(lock_);
  if (ready_.size() >= kMaxWaiting) return;
  if (newcomer->version == kVersion2) {
    ready_.push_back(std::move(newcomer));
  } else {
    // The newest is the client; who waited with version 3 before it is gone.
    std::erase_if(ready_, [](const auto& other) { return other->version == kVersion3; });
    ready_.push_front(std::move(newcomer));
    if (served_ != nullptr) {
      ++takeovers_;
      log_line(LogLevel::kInfo, "jetlink: a new connection takes over from %s",
               served_->client().c_str());
      served_->stop();
    }
  }
  came_.notify_all();
}

// ---- the served connection --------------------------------------------------------------------

void Server::serve_all() {
  for (;;) {
    std::unique_ptr<Newcomer> next;
    {
      std::unique_lock hold(lock_);
      came_.wait(hold, [this] { return stop_ || !ready_.empty(); });
      if (stop_) return;
      next = std::move(ready_.front());
      ready_.pop_front();
    }
    serve(*next);
  }
}

void Server::serve(Newcomer& newcomer) {
  std::optional<FrameSocket> frames;
  if (newcomer.version >= kVersion3 && (newcomer.cable || options_.datagrams_everywhere)) {
    auto opened = FrameSocket::open(newcomer.fd);
    if (opened)
      frames = std::move(opened.value());
    else
      log_line(LogLevel::kWarn, "jetlink: %s", opened.error().text);
  }
  SessionOptions options = options_.session;
  if (frames)
    options.offer = [&frames] {
      const uint32_t token = random_token();
      frames->begin(token);
      return std::pair(frames->port(), token);
    };
  const int fd = newcomer.fd;
  Session session(
      std::make_unique<Stream>(std::move(newcomer.transport), uint16_t{0}, 1, newcomer.head),
      *host_, options, *clock_);
  {
    std::scoped_lock hold(lock_);
    // Somebody newer came before this one was served.
    if (stop_ || (!ready_.empty() && ready_.front()->version == kVersion3)) return;
    served_ = &session;
  }
  Stream& stream = session.stream();
  Message message;
  for (bool more = true; more && !stop_;) {
    // The stream goes first: a frame that came by datagram is never ahead of what it relies on.
    const Got got = stream.read(message, 0);
    if (got == Got::kMessage) {
      more = session.handle(message);
      continue;
    }
    if (got != Got::kLate) break;
    if (frames && frames->read(message, stream.version())) {
      more = session.handle(message);
      continue;
    }
    pollfd fds[2] = {{fd, POLLIN, 0}, {frames ? frames->fd() : -1, POLLIN, 0}};
    ::poll(fds, 2, static_cast<int>(kPollNs / 1'000'000));
  }
  {
    std::scoped_lock hold(lock_);
    served_ = nullptr;
  }
  log_line(LogLevel::kInfo, "jetlink: %s ended after %lld frames%s%s", session.client().c_str(),
           static_cast<long long>(session.frames()), stream.desynced() ? ": " : "",
           stream.complaint());
  if (session.fatal() && options_.fatal) options_.fatal();
}

}  // namespace outrider::link::jetlink
