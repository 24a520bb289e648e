#include "owner/borrow/lease.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/printable.h"
#include "link/transport/tcp.h"
#include "link/transport/usb/gadget_stream.h"
#include "link/transport/usb/limits.h"
#include "link/transport/usb/usb_gadget.h"
#include "link/transport/usb/wait.h"

namespace outrider::owner {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kServerNs = 5 * kSecond, kBounceNs = 10 * kSecond;

using link::steady_now_ns;

Result<Fd> dial(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return make_error(Code::kInvalid, "owner: socket path of %zu bytes, allowed are 1 to %zu",
                      path.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path, path.data(), path.size());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return make_error(Code::kDevice, "owner: no socket: %s", std::strerror(errno));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return fd;
  if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR)
    return make_error(Code::kNotFound, "owner: nobody listens at %s", short_path(path).c_str());
  if (errno == EAGAIN)
    return make_error(Code::kNotReady, "owner: %s: busy", short_path(path).c_str());
  return make_error(Code::kDevice, "owner: %s: %s", short_path(path).c_str(), std::strerror(errno));
}

// One line and what came with it. Errors: kNotReady (deadline), kDevice (the owner hung up),
// kInvalid.
Result<Reply> await_reply(int socket, LineReader& lines, std::vector<Fd>& taken,
                          int64_t deadline_ns) {
  std::string line;
  while (!lines.next(line)) {
    const int ready = link::wait_fd(socket, POLLIN, deadline_ns);
    if (ready == 0) return make_error(Code::kNotReady, "owner: no answer in time");
    std::string bytes;
    const int got = receive_some(socket, bytes, taken, kMaxDescriptors);
    if (got == -EAGAIN) continue;
    if (got <= 0) return make_error(Code::kDevice, "owner: it hung up");
    if (!lines.add(bytes)) return make_error(Code::kInvalid, "owner: an answer without end");
  }
  return read_reply(line);
}

bool fits(Medium medium, size_t n_descriptors) {
  return medium == Medium::kUsb ? n_descriptors == 2 : medium == Medium::kTcp && n_descriptors >= 1;
}

void pause_until(int64_t until_ns) {
  const int64_t left_ns = std::max<int64_t>(0, until_ns - steady_now_ns());
  const timespec pause{left_ns / kSecond, left_ns % kSecond};
  ::nanosleep(&pause, nullptr);
}

// A host that does not come costs nobody the bus: it may be about to.
Result<std::unique_ptr<link::Transport>> stream_over_usb(Lease& lease, Fd& ep0, Fd& udc,
                                                         int64_t deadline_ns) {
  const Reply& facts = lease.facts();
  using namespace link::usb;
  LentGadget lent;
  lent.place = {facts.gadget, facts.mount, facts.controller, facts.controllers};
  lent.ep0 = ::fcntl(ep0.get(), F_DUPFD_CLOEXEC, 0);
  lent.udc = ::fcntl(udc.get(), F_DUPFD_CLOEXEC, 0);
  lent.enabled = facts.enabled;
  lent.opened = facts.opened;
  lent.n_sessions = static_cast<uint32_t>(facts.n_sessions);
  auto port = adopt_ffs_port(lent);
  if (!port) return port.error();
  const LendablePort& state = *port.value();
  auto gadget =
      std::make_unique<Gadget>(std::move(port.value()), facts.serial, GadgetTimers::standard());
  if (auto session = gadget->wait_session(deadline_ns); !session) {
    if (session.code() == Code::kNotReady) {
      const auto kept = gadget->release();  // its events are over: the state stands still
      const LentGadget seen = state.lend();
      lease.return_unused(seen.enabled, seen.opened, seen.n_sessions);
    }
    return session.error();
  }
  GadgetStreamOptions options;
  options.reader_priority = kReaderPriority;
  options.speed_mbit_s = controller_speed_mbit_s(lent.place);
  return make_gadget_stream(std::move(gadget), std::move(options));
}

// The far end has one link: of several dials the newest counts, an older one it gave up.
Result<std::unique_ptr<link::Transport>> stream_over_tcp(Lease& lease, std::vector<Fd>& lent,
                                                         int64_t deadline_ns) {
  const Reply& facts = lease.facts();
  link::TcpSocket socket{Fd(::fcntl(lent[0].get(), F_DUPFD_CLOEXEC, 0)), facts.endpoint,
                         facts.local_only};
  auto listener = link::adopt_tcp(std::move(socket));
  if (!listener) return listener.error();
  const bool waits = lent.size() > 1;
  auto stream = listener.value()->accept(waits ? 0 : deadline_ns);
  if (!stream && waits) return link::adopt_tcp_stream(std::move(lent[1]));
  if (!stream) {
    lease.return_unused(false, false, 0);
    return stream.error();
  }
  for (;;) {
    auto newer = listener.value()->accept(0);
    if (!newer) return stream;
    stream = std::move(newer);
  }
}

}  // namespace

// A stream that keeps its lease: returned after the stream has let go of what was lent.
class LentStream final : public link::Transport {
 public:
  LentStream(Lease lease, std::unique_ptr<link::Transport> stream)
      : lease_(std::move(lease)), stream_(std::move(stream)) {}
  ~LentStream() override { stream_.reset(); }
  link::Moved send(std::span<const link::Piece> pieces, int64_t deadline_ns) noexcept override {
    return stream_->send(pieces, deadline_ns);
  }
  link::Moved receive(std::span<std::byte> into, int64_t deadline_ns) noexcept override {
    return stream_->receive(into, deadline_ns);
  }
  void shut() noexcept override { stream_->shut(); }
  const link::TransportFacts& facts() const noexcept override { return stream_->facts(); }
  size_t unsent_bytes() const noexcept override { return stream_->unsent_bytes(); }
  uint64_t copied_bytes() const noexcept override { return stream_->copied_bytes(); }

 private:
  Lease lease_;
  std::unique_ptr<link::Transport> stream_;
};

Result<Lease> Lease::borrow(const std::string& socket_path, std::string_view name,
                            int64_t deadline_ns) {
  if (!is_name(name))
    return make_error(Code::kInvalid,
                      "owner: borrower's name \"%s\", wanted 1 to 64 of A-Z a-z 0-9 . _ -",
                      printable(name, kMaxNameBytes).c_str());
  const int64_t until_ns = std::min(deadline_ns, steady_now_ns() + kBorrowNs);
  Lease lease;
  auto socket = dial(socket_path);
  if (!socket) return socket.error();
  lease.socket_ = std::move(socket.value());
  Request request;
  request.name = name;
  for (;;) {
    auto reply = lease.ask(request, until_ns);
    if (!reply) return reply.error();
    if (reply.value().ok) {
      lease.facts_ = std::move(reply.value());
      if (!fits(lease.facts_.medium, lease.lent_.size()))
        return make_error(Code::kInvalid, "owner: lent %s with %zu descriptors",
                          medium_name(lease.facts_.medium), lease.lent_.size());
      return lease;
    }
    lease.lent_.clear();
    const int64_t next_ns = steady_now_ns() + kRetryNs;
    if (!reply.value().retry || next_ns >= until_ns)
      return make_error(reply.value().retry ? Code::kNotReady : Code::kDevice, "owner: %s",
                        reply.value().detail.c_str());
    pause_until(next_ns);
  }
}

Result<Reply> Lease::ask(const Request& request, int64_t deadline_ns) {
  if (const int error = send_line(socket_.get(), to_line(request)); error != 0)
    return make_error(Code::kDevice, "owner: it does not listen any more: %s",
                      std::strerror(-error));
  auto reply = await_reply(socket_.get(), lines_, lent_, deadline_ns);
  // Answers carry no number: after one that is missing nothing can be told apart.
  if (!reply) socket_ = Fd();
  return reply;
}

Result<void> Lease::tell_server(const ServerFacts& server) {
  Request request;
  request.op = Op::kServer;
  request.server = server;
  auto reply = ask(request, steady_now_ns() + kServerNs);
  if (!reply) return reply.error();
  if (!reply.value().ok)
    return make_error(Code::kDevice, "owner: %s", reply.value().detail.c_str());
  return {};
}

Result<void> Lease::bounce() {
  Request request;
  request.op = Op::kBounce;
  auto reply = ask(request, steady_now_ns() + kBounceNs);
  if (!reply) return reply.error();
  if (!reply.value().ok)
    return make_error(Code::kDevice, "owner: %s", reply.value().detail.c_str());
  return {};
}

void Lease::return_unused(bool enabled, bool opened, uint32_t n_sessions) noexcept {
  try {
    Request request;
    request.op = Op::kReturn;
    request.enabled = enabled;
    request.opened = opened;
    request.n_sessions = n_sessions;
    (void)send_line(socket_.get(), to_line(request));
  } catch (...) {  // no memory for the line: the bus is left for a moment
  }
}

bool Lease::alive() const noexcept {
  if (!socket_) return false;
  char one = 0;
  const ssize_t got = ::recv(socket_.get(), &one, 1, MSG_PEEK | MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

Result<std::unique_ptr<link::Transport>> Lease::connect(Lease lease, int64_t deadline_ns) {
  auto stream = lease.facts_.medium == Medium::kUsb
                    ? stream_over_usb(lease, lease.lent_[0], lease.lent_[1], deadline_ns)
                    : stream_over_tcp(lease, lease.lent_, deadline_ns);
  if (!stream) return stream.error();
  return std::unique_ptr<link::Transport>(
      std::make_unique<LentStream>(std::move(lease), std::move(stream.value())));
}

namespace {

std::string& owner_socket() {
  static std::string path;
  return path;
}

Result<std::unique_ptr<link::Transport>> connect_owned(const link::Endpoint& endpoint,
                                                       int64_t deadline_ns) {
  auto lease = Lease::borrow(owner_socket(), "link", deadline_ns);
  if (!lease && lease.code() == Code::kNotFound)
    return link::usb::usb_gadget_maker().connect(endpoint, deadline_ns);
  if (!lease) return lease.error();
  const Reply& facts = lease.value().facts();
  if (facts.medium == Medium::kUsb && !endpoint.name.empty() && endpoint.name != facts.serial)
    return make_error(Code::kNotFound, "usb:%s: the owner's gadget is usb:%s",
                      endpoint.name.c_str(), facts.serial.c_str());
  return Lease::connect(std::move(lease.value()), deadline_ns);
}

}  // namespace

void register_owned_usb(const std::string& socket_path) {
  owner_socket() = socket_path;
  link::TransportMaker maker = link::usb::usb_gadget_maker();
  maker.connect = connect_owned;
  link::register_transport(maker);
}

}  // namespace outrider::owner
