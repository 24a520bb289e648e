#include "link/transport/usb/kernel_aio.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "link/transport/usb/wait.h"

namespace outrider::link::usb {
namespace {

void add_to(int fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = ::write(fd, &one, sizeof one);
}

void clear(int fd) {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(fd, &count, sizeof count);
}

// Walks through pieces byte by byte range.
class Walk {
 public:
  Walk(std::span<const Piece> pieces, size_t offset) : pieces_(pieces) {
    while (offset > 0) offset -= next(offset).size();
  }
  // The next stretch of at most `bytes` that lies in one piece.
  Piece next(size_t bytes) {
    while (at_ == pieces_[index_].size()) ++index_, at_ = 0;
    const Piece out = pieces_[index_].subspan(at_, std::min(bytes, pieces_[index_].size() - at_));
    at_ += out.size();
    return out;
  }

 private:
  std::span<const Piece> pieces_;
  size_t index_ = 0, at_ = 0;
};

}  // namespace

Result<void> KernelAio::open() {
  done_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  wake_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (done_fd_ < 0 || wake_fd_ < 0 || ::syscall(SYS_io_setup, long{kWriteRequests}, &context_) != 0)
    return make_error(Code::kDevice, "usb gadget: no kernel AIO context: %s; see fs.aio-max-nr",
                      std::strerror(errno));
  requests_.resize(kWriteRequests);
  vectors_.resize(kWriteRequests * kPiecesPerRequest);
  gathered_.resize(kWriteRequestBytes);
  return {};
}

KernelAio::~KernelAio() {
  // Destroying a context waits for its requests; a stuck one would hang this thread for good.
  if (context_ != 0 && n_unfinished_ == 0) ::syscall(SYS_io_destroy, context_);
  if (done_fd_ >= 0 && n_unfinished_ == 0) ::close(done_fd_);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

// Cuts into requests; returns how many.
size_t KernelAio::prepare(int fd, std::span<const Piece> pieces, size_t offset,
                          size_t bytes) noexcept {
  Walk walk(pieces, offset);
  size_t n_requests = 0;
  for (size_t at = 0; at < bytes && n_requests < requests_.size(); at += kWriteRequestBytes) {
    iovec* const first = vectors_.data() + n_requests * kPiecesPerRequest;
    Walk before = walk;
    size_t n_vectors = 0, taken = 0;
    while (taken < kWriteRequestBytes && n_vectors < kPiecesPerRequest) {
      const Piece part = walk.next(kWriteRequestBytes - taken);
      first[n_vectors++] = {const_cast<std::byte*>(part.data()), part.size()};
      taken += part.size();
    }
    const bool many_pieces = taken < kWriteRequestBytes;
    if (many_pieces && n_requests > 0) break;  // the next call begins with it
    if (many_pieces) {
      for (taken = 0; taken < kWriteRequestBytes;) {
        const Piece part = before.next(kWriteRequestBytes - taken);
        std::memcpy(gathered_.data() + taken, part.data(), part.size());
        taken += part.size();
      }
      n_gathered_bytes_ += kWriteRequestBytes;
      first[0] = {gathered_.data(), kWriteRequestBytes};
      n_vectors = 1;
    }
    iocb& request = requests_[n_requests++];
    request = {};
    request.aio_lio_opcode = IOCB_CMD_PWRITEV;
    request.aio_fildes = static_cast<uint32_t>(fd);
    request.aio_buf = reinterpret_cast<uint64_t>(first);
    request.aio_nbytes = n_vectors;
    request.aio_flags = IOCB_FLAG_RESFD;
    request.aio_resfd = static_cast<uint32_t>(done_fd_);
    if (many_pieces) break;
  }
  return n_requests;
}

long KernelAio::submit(int fd, std::span<const Piece> pieces, size_t offset,
                       size_t bytes) noexcept {
  OUTRIDER_ASSERT(bytes > 0 && bytes % kWriteRequestBytes == 0);
  const size_t n_requests = prepare(fd, pieces, offset, bytes);
  iocb* list[kWriteRequests];
  for (size_t i = 0; i < n_requests; ++i) list[i] = &requests_[i];
  const long n = ::syscall(SYS_io_submit, context_, static_cast<long>(n_requests), list);
  if (n < 0) return -errno;
  n_unfinished_ += static_cast<uint32_t>(n);
  return n * long{kWriteRequestBytes};
}

// What has completed, without waiting.
long KernelAio::collect() noexcept {
  io_event events[kWriteRequests];
  timespec none{};
  const long n = ::syscall(SYS_io_getevents, context_, 0L, long{kWriteRequests}, events, &none);
  if (n <= 0) return n < 0 && errno != EINTR ? -errno : 0;
  n_unfinished_ -= static_cast<uint32_t>(n);
  long bytes = 0, error = 0;
  for (long i = 0; i < n; ++i) {
    const auto result = static_cast<int64_t>(events[i].res);
    if (result == int64_t{kWriteRequestBytes})
      bytes += result;
    else if (error == 0)
      error = result < 0 ? result : -EIO;
  }
  return error != 0 ? error : bytes;
}

long KernelAio::reap(int64_t until_ns) noexcept {
  for (;;) {
    clear(done_fd_);
    if (const long done = collect(); done != 0) return done;
    const int64_t left_ns = until_ns - now_ns();
    if (left_ns <= 0) return 0;
    pollfd fds[2] = {{done_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    const int64_t slice_ns = std::min(left_ns, kSecond);
    const timespec timeout{slice_ns / kSecond, slice_ns % kSecond};
    if (::ppoll(fds, 2, &timeout, nullptr) > 0 && fds[1].revents != 0) return collect();
  }
}

void KernelAio::wake() noexcept {
  add_to(wake_fd_);
}
void KernelAio::calm() noexcept {
  clear(wake_fd_);
}

}  // namespace outrider::link::usb
