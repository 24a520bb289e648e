#include "loop/stream.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/clock.h"

namespace outrider::loop {
namespace {

constexpr int kPollMs = 50;
constexpr int64_t kPollNs = kPollMs * 1000000LL, kDrainNs = 1000000000;
constexpr size_t kPieceBytes = 4096;  // what a pipe that says it has room takes without waiting

// True when fd is ready; false after a while, or when it never will be.
bool ready(int fd, short what) {
  pollfd p = {fd, what, 0};
  return ::poll(&p, 1, kPollMs) > 0;
}

}  // namespace

Result<void> check_frame(const outrider_loop_frame& f, uint32_t payload_bytes, uint64_t index) {
  const auto i = static_cast<unsigned long long>(index);
  if (f.magic != OUTRIDER_LOOP_FRAME_MAGIC)
    return make_error(
        Code::kInvalid,
        "loop: input frame %llu: magic is 0x%08x, a frame begins with 0x%08x (\"OFRM\")", i,
        f.magic, OUTRIDER_LOOP_FRAME_MAGIC);
  if (f.bytes != payload_bytes)
    return make_error(
        Code::kInvalid,
        "loop: input frame %llu: payload of %u bytes, the inputs of this runtime have %u", i,
        f.bytes, payload_bytes);
  if (f.origin != 0 || f.reason != 0 ||
      (f.flags & ~static_cast<uint32_t>(OUTRIDER_LOOP_RESET)) != 0)
    return make_error(Code::kInvalid,
                      "loop: input frame %llu: origin %u, reason %u, flags 0x%x; an observation "
                      "has 0, 0 and at most the "
                      "flag 1 (reset)",
                      i, f.origin, f.reason, f.flags);
  return {};
}

StreamIn::StreamIn(int fd, const outrider_loop_view& ring, const std::atomic<uint64_t>* taken,
                   std::atomic<bool>& ended)
    : fd_(fd), ring_(ring), taken_(taken), ended_(ended), thread_([this] { read_all(); }) {}

StreamIn::~StreamIn() {
  stop();
}

void StreamIn::stop() {
  stopping_.store(true);
  if (thread_.joinable()) thread_.join();
}

void StreamIn::read_all() {
  std::vector<unsigned char> room(ring_.payload_bytes);
  Result<bool> more = true;
  while (more && more.value() && !stopping_.load()) {
    more = read_frame(room.data());
    if (taken_ != nullptr)
      while (!stopping_.load() && taken_->load(std::memory_order_acquire) < n_frames_.load())
        ::usleep(50);
  }
  if (!more) outcome_ = more.error();
  ended_.store(true);
}

// False at the end of the stream.
Result<bool> StreamIn::read_frame(unsigned char* room) {
  outrider_loop_frame frame;
  unsigned char head[sizeof frame];
  const uint64_t index = n_frames_.load();
  auto n = read_bytes(head, sizeof head);
  if (!n) return n.error();
  if (n.value() == 0 || stopping_.load()) return false;
  const auto cut = [&](size_t got, size_t wanted) {
    return make_error(Code::kInvalid, "loop: input frame %llu ends after %zu of %zu bytes",
                      static_cast<unsigned long long>(index), got, wanted);
  };
  if (n.value() < sizeof head) return cut(n.value(), sizeof head);
  std::memcpy(&frame, head, sizeof frame);
  OUTRIDER_TRY(check_frame(frame, ring_.payload_bytes, index));
  n = read_bytes(room, ring_.payload_bytes);
  if (!n) return n.error();
  if (stopping_.load()) return false;
  if (n.value() < ring_.payload_bytes)
    return cut(sizeof head + n.value(), sizeof head + ring_.payload_bytes);
  outrider_loop_send(&ring_, room, MonotonicClock().now_ns(), frame.flags);
  n_frames_.fetch_add(1);
  return true;
}

// Fewer than n at the end of the stream, or when stopped.
Result<size_t> StreamIn::read_bytes(unsigned char* to, size_t n) {
  size_t got = 0;
  while (got < n && !stopping_.load()) {
    if (!ready(fd_, POLLIN)) continue;
    const ssize_t now = ::read(fd_, to + got, n - got);
    if (now < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (now < 0) return make_error(Code::kNotFound, "cannot read frames: %s", std::strerror(errno));
    if (now == 0) break;
    got += static_cast<size_t>(now);
  }
  return got;
}

StreamOut::StreamOut(int fd, const outrider_loop_view& ring, std::atomic<bool>& stop)
    : fd_(fd), ring_(ring), stop_(stop), thread_([this] { write_all(); }) {}

StreamOut::~StreamOut() {
  stopping_.store(true);
  if (thread_.joinable()) thread_.join();
}

void StreamOut::drain() {
  const MonotonicClock clock;
  const int64_t until = clock.now_ns() + kDrainNs;
  while (!broken_.load() && next_.load() < outrider_loop_head(&ring_) && clock.now_ns() < until)
    ::usleep(200);
}

void StreamOut::write_all() {
  constexpr size_t kHead = sizeof(outrider_loop_frame);
  std::vector<unsigned char> room(kHead + ring_.payload_bytes);
  outrider_loop_frame frame;
  while (!stopping_.load() && !broken_.load()) {
    const uint64_t next = next_.load();
    const uint64_t head = outrider_loop_wait(&ring_, next, kPollNs);
    if (head <= next) continue;
    if (outrider_loop_read(&ring_, next, &frame, room.data() + kHead) == 0) {
      // Skipped by the loop, replaced meanwhile, or just being written by the other thread.
      if (head > next + 1)
        next_.store(next + 1);
      else
        ::usleep(20);
      if (head > next + ring_.n_slots) n_lost_.fetch_add(1);
      continue;
    }
    std::memcpy(room.data(), &frame, kHead);
    if (!write_bytes(room.data(), room.size())) return;
    n_frames_.fetch_add(1);
    next_.store(next + 1);
  }
}

bool StreamOut::write_bytes(const unsigned char* from, size_t n) {
  while (n > 0) {
    if (stopping_.load()) return false;
    if (!ready(fd_, POLLOUT)) continue;
    const ssize_t now = ::write(fd_, from, std::min(n, kPieceBytes));
    if (now < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (now <= 0) {
      error_.store(now < 0 ? errno : EIO);
      broken_.store(true);
      stop_.store(true);
      return false;
    }
    from += now;
    n -= static_cast<size_t>(now);
  }
  return true;
}

}  // namespace outrider::loop
