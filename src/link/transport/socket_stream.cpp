#include "link/transport/socket_stream.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace outrider::link {
namespace {

// Pieces per system call; the kernel takes at most 1024 (UIO_MAXIOV).
constexpr size_t kBatch = 256;

// Fills iov with pieces from (piece, offset) on. Returns how many.
size_t fill_batch(std::span<const Piece> pieces, size_t piece, size_t offset,
                  std::array<iovec, kBatch>& iov) noexcept {
  size_t n = 0;
  for (; piece < pieces.size() && n < kBatch; ++piece, offset = 0) {
    const Piece rest = pieces[piece].subspan(offset);
    if (!rest.empty()) iov[n++] = {const_cast<std::byte*>(rest.data()), rest.size()};
  }
  return n;
}

void advance(std::span<const Piece> pieces, size_t n_bytes, size_t& piece,
             size_t& offset) noexcept {
  while (piece < pieces.size()) {
    const size_t rest = pieces[piece].size() - offset;
    if (n_bytes < rest) {
      offset += n_bytes;
      return;
    }
    n_bytes -= rest;
    ++piece, offset = 0;
  }
}

}  // namespace

int64_t steady_now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Fd& Fd::operator=(Fd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

int wait_fd(int fd, short events, int64_t deadline_ns) noexcept {
  pollfd poll_fd{fd, events, 0};
  for (;;) {
    timespec left{};
    if (deadline_ns != kForever) {
      const int64_t ns = std::max<int64_t>(deadline_ns - steady_now_ns(), 0);
      left = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    }
    const int n = ::ppoll(&poll_fd, 1, deadline_ns == kForever ? nullptr : &left, nullptr);
    if (n >= 0 || errno != EINTR) return n;
  }
}

Io SocketStream::ended(int error) const noexcept {
  if (shut_.load(std::memory_order_acquire)) return Io::kShut;
  switch (error) {
    case 0:
      return Io::kClosed;
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENODEV:
    case ETIMEDOUT:
      return Io::kGone;
    default:
      return Io::kReset;
  }
}

// kDone: try again now.
Io SocketStream::wait(short events, int64_t deadline_ns) const noexcept {
  const int n = wait_fd(fd_.get(), events, deadline_ns);
  if (n > 0) return Io::kDone;
  return n == 0 ? Io::kLate : ended(errno);
}

Moved SocketStream::send(std::span<const Piece> pieces, int64_t deadline_ns) noexcept {
  Moved moved;
  size_t piece = 0, offset = 0;
  std::array<iovec, kBatch> iov;
  for (;;) {
    if (shut_.load(std::memory_order_acquire)) return {Io::kShut, moved.bytes};
    msghdr message{};
    message.msg_iov = iov.data();
    message.msg_iovlen = fill_batch(pieces, piece, offset, iov);
    if (message.msg_iovlen == 0) return moved;
    const ssize_t n = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      moved.bytes += static_cast<size_t>(n);
      advance(pieces, static_cast<size_t>(n), piece, offset);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS)
      return {ended(errno), moved.bytes};
    if (const Io io = wait(POLLOUT, deadline_ns); io != Io::kDone) return {io, moved.bytes};
  }
}

Moved SocketStream::receive(std::span<std::byte> into, int64_t deadline_ns) noexcept {
  for (;;) {
    const ssize_t n = ::recv(fd_.get(), into.data(), into.size(), MSG_DONTWAIT);
    if (n > 0) return {Io::kDone, static_cast<size_t>(n)};
    if (n == 0) return {ended(0), 0};
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return {ended(errno), 0};
    if (shut_.load(std::memory_order_acquire)) return {Io::kShut, 0};
    if (const Io io = wait(POLLIN, deadline_ns); io != Io::kDone) return {io, 0};
  }
}

// Wakes both directions: poll reports a hang-up, recv gives 0, sendmsg EPIPE.
void SocketStream::shut() noexcept {
  if (!shut_.exchange(true, std::memory_order_acq_rel)) ::shutdown(fd_.get(), SHUT_RDWR);
}

size_t SocketStream::unsent_bytes() const noexcept {
  int bytes = 0;
  return ::ioctl(fd_.get(), SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

// Type of service and the queueing class of this machine (bands of pfifo_fast, prio).
void SocketStream::set_urgency(Urgency urgency) noexcept {
  if (facts_.kind != TransportKind::kTcp) return;
  constexpr int kBulkClass = 2, kUrgentClass = 6;  // TC_PRIO_BULK, TC_PRIO_INTERACTIVE
  const int service = urgency == Urgency::kUrgent ? IPTOS_LOWDELAY
                      : urgency == Urgency::kBulk ? IPTOS_THROUGHPUT
                                                  : 0;
  const int queue = urgency == Urgency::kUrgent ? kUrgentClass
                    : urgency == Urgency::kBulk ? kBulkClass
                                                : 0;
  if (::setsockopt(fd_.get(), IPPROTO_IP, IP_TOS, &service, sizeof service) != 0)
    ::setsockopt(fd_.get(), IPPROTO_IPV6, IPV6_TCLASS, &service, sizeof service);
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_PRIORITY, &queue, sizeof queue);
}

Result<std::unique_ptr<Listener>> SocketListener::make(Fd socket, std::string endpoint,
                                                       bool local_only, Dress dress) {
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake)
    return make_error(Code::kDevice, "%.200s: eventfd: %s", endpoint.c_str(), strerror(errno));
  return std::unique_ptr<Listener>(std::make_unique<SocketListener>(
      std::move(socket), std::move(wake), std::move(endpoint), local_only, dress));
}

Result<std::unique_ptr<Transport>> SocketListener::accept(int64_t deadline_ns) {
  for (;;) {
    pollfd fds[2] = {{socket_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    const int64_t left = std::max<int64_t>(deadline_ns - steady_now_ns(), 0);
    const timespec wait = {static_cast<time_t>(left / 1'000'000'000),
                           static_cast<long>(left % 1'000'000'000)};
    const int n = ::ppoll(fds, 2, deadline_ns == kForever ? nullptr : &wait, nullptr);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return make_error(Code::kDevice, "%.200s: poll: %s", endpoint_.c_str(), strerror(errno));
    if (fds[1].revents != 0)
      return make_error(Code::kInvalid, "%.200s: the listener was shut down", endpoint_.c_str());
    if (n == 0)
      return make_error(Code::kNotReady, "%.200s: nobody came in time", endpoint_.c_str());
    Fd peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer) return dress_(std::move(peer));
    // The peer may have left meanwhile.
    if (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED) continue;
    return make_error(Code::kDevice, "%.200s: accept: %s", endpoint_.c_str(), strerror(errno));
  }
}

void SocketListener::shut() noexcept {
  const uint64_t one = 1;
  const ssize_t ignored = ::write(wake_.get(), &one, sizeof one);
  (void)ignored;
}

}  // namespace outrider::link
