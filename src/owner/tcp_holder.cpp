#include <sys/socket.h>

#include <cerrno>

#include "base/log.h"
#include "owner/holder.h"

namespace outrider::owner {

Result<void> TcpHolder::open() {
  if (socket_.fd) return {};
  auto bound = link::bind_tcp(endpoint_);
  if (!bound) return bound.error();
  socket_ = std::move(bound.value());
  log_line(LogLevel::kInfo, "owner: listening on %s", socket_.endpoint.c_str());
  return {};
}

Result<Loan> TcpHolder::lend() {
  if (!socket_.fd) return make_error(Code::kNotReady, "the socket is not there yet");
  Loan loan;
  loan.reply.ok = true;
  loan.reply.medium = Medium::kTcp;
  loan.reply.endpoint = socket_.endpoint;
  loan.reply.local_only = socket_.local_only;
  loan.descriptors[0] = socket_.fd.get();
  loan.n_descriptors = 1;
  if (dial_) loan.descriptors[loan.n_descriptors++] = dial_.get();
  return loan;
}

// The newest is kept, what it replaces is closed.
void TcpHolder::accept_dials() {
  constexpr int kMost = 64;
  for (int i = 0; i < kMost && socket_.fd; ++i) {
    link::Fd dial(::accept4(socket_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!dial) return;
    const int on = 1;
    ::setsockopt(dial.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    dial_ = std::move(dial);
  }
}

// A far end that says something before it is asked is there, too.
bool TcpHolder::dial_lives() {
  if (!dial_) return false;
  char byte = 0;
  const ssize_t got = ::recv(dial_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

void TcpHolder::step(int64_t, bool lent) {
  if (lent) {
    dial_ = {};  // the borrower's copy is the one that counts
    return;
  }
  accept_dials();
  if (!dial_lives()) dial_ = {};
}

// A dial that waited for the last borrower is not for the next one.
void TcpHolder::take_back(int64_t) {
  accept_dials();
  dial_ = {};
}

Result<void> TcpHolder::bounce(int64_t now_ns) {
  take_back(now_ns);
  return {};
}

Presence TcpHolder::presence() {
  Presence now;
  now.here = dial_lives();
  now.program = now.here;
  return now;
}

}  // namespace outrider::owner
