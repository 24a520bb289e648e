#include "link/faults/fault_proxy.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace outrider::link::faults {
namespace {

constexpr size_t kChunkBytes = 16 << 10, kTailBytes = 4096;
// What one lane holds back. A lane with a rate holds little, so that its sender feels the rate.
constexpr size_t kHeldBytes = 4 << 20, kHeldByRate = 32 << 10;
constexpr int kSocketBytes = 64 << 10;

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void dress(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  for (const int option : {SO_SNDBUF, SO_RCVBUF})
    ::setsockopt(fd, SOL_SOCKET, option, &kSocketBytes, sizeof kSocketBytes);
}

void reset_at_close(int fd) {
  const linger at_once = {1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

}  // namespace

FaultProxy::FaultProxy(uint16_t host_port, uint64_t seed)
    : host_port_(host_port),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      draw_(seed) {
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  dress(listener_.get());
  EXPECT_EQ(::listen(listener_.get(), 16), 0);
  EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

FaultProxy::~FaultProxy() {
  stop_ = true;
  thread_.join();
}

void FaultProxy::next(const Rules& rules) {
  std::scoped_lock lock(lock_);
  next_.push_back(rules);
}

void FaultProxy::now(const Rules& rules) {
  std::scoped_lock lock(lock_);
  rules_ = rules;
  for (Pair& pair : pairs_) {
    for (const auto& [stream, lane] :
         {std::pair(&pair.forth, &rules.forth), std::pair(&pair.back, &rules.back)}) {
      stream->rule = *lane;
      if (lane->at != UINT64_MAX) stream->rule.at += stream->seen;
      stream->silent = stream->stalled = false;
    }
  }
}

// ---- the thread --------------------------------------------------------------------------------

void FaultProxy::run() {
  while (!stop_) {
    std::vector<pollfd> fds = {{listener_.get(), POLLIN, 0}};
    int64_t wait_ns = 10'000'000;
    {
      std::scoped_lock lock(lock_);
      const int64_t now = steady_now_ns();
      for (Pair& pair : pairs_) {
        const auto add = [&](Stream& in, const Stream& out, int fd) {
          const size_t most = in.rule.bytes_per_s > 0 ? kHeldByRate : kHeldBytes;
          short events = 0;
          if (!in.stalled && !in.ended && in.queued < most) events |= POLLIN;
          if (!out.queue.empty()) {
            const int64_t left = out.queue.front().due_ns - now;
            if (left <= 0) events |= POLLOUT;
            wait_ns = std::min(wait_ns, std::max<int64_t>(left, left <= 0 ? 10'000'000 : 0));
          }
          // Without events a hang-up would still be told, again and again.
          fds.push_back({events == 0 ? -1 : fd, events, 0});
        };
        add(pair.forth, pair.back, pair.device.get());
        add(pair.back, pair.forth, pair.host.get());
      }
    }
    const timespec wait = {0, static_cast<long>(wait_ns)};
    if (::ppoll(fds.data(), fds.size(), &wait, nullptr) < 0) continue;
    if (fds[0].revents != 0) accept();
    std::scoped_lock lock(lock_);
    for (Pair& pair : pairs_) serve(pair);
    pairs_.remove_if([](const Pair& pair) { return pair.over; });
  }
}

void FaultProxy::accept() {
  Fd device(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!device) return;
  Fd host(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  dress(device.get());
  dress(host.get());
  const sockaddr_in address = loopback(host_port_);
  if (::connect(host.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    reset_at_close(device.get());
    return;
  }
  ++n_connections_;
  std::scoped_lock lock(lock_);
  Pair& pair = pairs_.emplace_back();
  pair.device = std::move(device);
  pair.host = std::move(host);
  Rules rules = rules_;
  if (!next_.empty()) {
    rules = next_.front();
    next_.pop_front();
  }
  pair.forth.rule = rules.forth;
  pair.back.rule = rules.back;
}

void FaultProxy::serve(Pair& pair) {
  const bool good = read(pair, pair.forth, pair.device.get()) && !pair.over &&
                    read(pair, pair.back, pair.host.get()) && !pair.over &&
                    write(pair.forth, pair.host ? pair.host.get() : -1) &&
                    write(pair.back, pair.device ? pair.device.get() : -1);
  if (!good && !pair.over) end(pair, true, true);
  // An end that was read is passed on once everything before it is; a lane that is silent keeps it.
  const auto ended = [](const Stream& s) { return s.ended && s.queue.empty() && !s.silent; };
  const bool all_gone = (pair.forth.ended || !pair.device) && (pair.back.ended || !pair.host);
  if (!pair.over && (ended(pair.forth) || ended(pair.back) || all_gone)) end(pair, false, false);
}

bool FaultProxy::read(Pair& pair, Stream& stream, int from) {
  const size_t most = stream.rule.bytes_per_s > 0 ? kHeldByRate : kHeldBytes;
  while (!stream.stalled && !stream.ended && stream.queued < most) {
    std::array<char, kChunkBytes> buffer;
    size_t want = buffer.size();
    if (stream.rule.bytes_per_s > 0)
      want = std::clamp<size_t>(stream.rule.bytes_per_s / 200, 256, want);
    // A rule at a byte ends a chunk there, and a flipped byte is one of its own.
    if (stream.rule.at > stream.seen)
      want = std::min<uint64_t>(want, stream.rule.at - stream.seen);
    else if (stream.rule.then == Then::kFlip)
      want = 1;
    else if (!happen(pair, stream, nullptr))
      return true;
    if (pair.over || stream.stalled) return true;
    const ssize_t n = ::recv(from, buffer.data(), want, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n < 0) return false;
    if (n == 0) {
      stream.ended = true;
      return true;
    }
    if (stream.rule.at <= stream.seen && stream.rule.then == Then::kFlip)
      happen(pair, stream, buffer.data());
    stream.seen += static_cast<uint64_t>(n);
    if (!stream.silent) queue(stream, buffer.data(), static_cast<size_t>(n));
  }
  return true;
}

void FaultProxy::queue(Stream& stream, const char* bytes, size_t n) {
  const size_t skipped = std::min<uint64_t>(stream.skip, n);
  stream.skip -= skipped;
  bytes += skipped, n -= skipped;
  if (n == 0) return;
  stream.tail.insert(stream.tail.end(), bytes, bytes + n);
  if (stream.tail.size() > kTailBytes)
    stream.tail.erase(stream.tail.begin(), stream.tail.end() - kTailBytes);
  const Lane& rule = stream.rule;
  int64_t due = steady_now_ns() + rule.delay_ns;
  if (rule.jitter_ns > 0)
    due += static_cast<int64_t>(draw_.below(static_cast<uint64_t>(rule.jitter_ns)));
  if (rule.bytes_per_s > 0)
    due = std::max(due, stream.last_due_ns) +
          static_cast<int64_t>(n * 1'000'000'000 / rule.bytes_per_s);
  stream.last_due_ns = due = std::max(due, stream.last_due_ns);
  stream.queue.push_back({due, std::vector<char>(bytes, bytes + n)});
  stream.queued += n;
}

// False: nothing more is read now.
bool FaultProxy::happen(Pair& pair, Stream& stream, char* at) {
  const Then then = std::exchange(stream.rule.then, Then::kNothing);
  stream.rule.at = UINT64_MAX;
  if (then == Then::kNothing) return true;
  ++n_events_;
  const bool forth = &stream == &pair.forth;
  switch (then) {
    case Then::kNothing:
      break;
    case Then::kClose:
    case Then::kReset:
      write(stream, forth ? pair.host.get() : pair.device.get());  // what came before it
      end(pair, then == Then::kReset, then == Then::kReset);
      return false;
    case Then::kHalfOpen:
      if (forth) {
        reset_at_close(pair.host.get());
        pair.host = Fd();
      } else {
        reset_at_close(pair.device.get());
        pair.device = Fd();
      }
      pair.forth.silent = pair.back.silent = true;
      (forth ? pair.back : pair.forth).stalled = true;
      pair.forth.queue.clear();
      pair.back.queue.clear();
      break;
    case Then::kSilence:
      stream.silent = true;
      break;
    case Then::kStall:
      stream.stalled = true;
      return false;
    case Then::kFlip:
      *at = static_cast<char>(*at ^ (1 << draw_.below(8)));
      break;
    case Then::kRepeat: {
      const std::vector<char> again(stream.tail.end() - static_cast<ptrdiff_t>(std::min<uint64_t>(
                                                            stream.rule.n, stream.tail.size())),
                                    stream.tail.end());
      queue(stream, again.data(), again.size());
      break;
    }
    case Then::kSkip:
      stream.skip = stream.rule.n;
      break;
  }
  return true;
}

bool FaultProxy::write(Stream& stream, int to) {
  while (!stream.queue.empty() && stream.queue.front().due_ns <= steady_now_ns()) {
    Chunk& chunk = stream.queue.front();
    const ssize_t n = ::send(to, chunk.bytes.data() + chunk.sent, chunk.bytes.size() - chunk.sent,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    chunk.sent += static_cast<size_t>(n);
    n_bytes_ += static_cast<uint64_t>(n);
    if (chunk.sent < chunk.bytes.size()) return true;
    stream.queued -= chunk.bytes.size();
    stream.queue.pop_front();
  }
  return true;
}

void FaultProxy::end(Pair& pair, bool reset_device, bool reset_host) {
  if (reset_device && pair.device) reset_at_close(pair.device.get());
  if (reset_host && pair.host) reset_at_close(pair.host.get());
  pair.device = Fd();
  pair.host = Fd();
  pair.over = true;
}

}  // namespace outrider::link::faults
