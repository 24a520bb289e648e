#include <sys/socket.h>

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
  return loan;
}

// A dial that waited for the last borrower is not for the next one.
void TcpHolder::drop_dials() {
  constexpr int kMost = 64;
  for (int i = 0; i < kMost && socket_.fd; ++i) {
    const link::Fd dial(
        ::accept4(socket_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!dial) return;
  }
}

void TcpHolder::take_back(int64_t) {
  drop_dials();
}

Result<void> TcpHolder::bounce(int64_t) {
  drop_dials();
  return {};
}

// Nobody accepts while it is not lent: a far end that dialled waits in the queue of the kernel.
Presence TcpHolder::presence() {
  pollfd waits{socket_.fd.get(), POLLIN, 0};
  Presence now;
  now.here = socket_.fd && ::poll(&waits, 1, 0) == 1 && (waits.revents & POLLIN) != 0;
  now.program = now.here;
  return now;
}

}  // namespace outrider::owner
