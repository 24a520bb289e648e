#include "link/transport/usb/socket_bus.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "link/transport/usb/limits.h"
#include "link/transport/usb/wait.h"

namespace outrider::link::usb {
namespace {

constexpr size_t kMaxPacket = 1024;

bool poll_until(const Turn& turn, int fd, short what, int64_t until_ns) {
  for (;;) {
    if (!turn.alive) return false;
    pollfd waiting{fd, what, 0};
    if (poll(&waiting, 1, 1) > 0) return true;
    if (now_ns() >= until_ns) return false;
  }
}

}  // namespace

Turn::Turn() {
  OUTRIDER_ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, out) == 0);
  OUTRIDER_ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, in) == 0);
}

Turn::~Turn() {
  for (int fd : {out[0], out[1], in[0], in[1]}) close(fd);
}

bool put_packet(const Turn& turn, int fd, std::span<const std::byte> packet, int64_t until_ns) {
  std::array<std::byte, kMaxPacket + 1> framed{};
  OUTRIDER_ASSERT(packet.size() <= kMaxPacket);
  std::copy(packet.begin(), packet.end(), framed.begin() + 1);
  for (;;) {
    if (!poll_until(turn, fd, POLLOUT, until_ns)) return false;
    if (send(fd, framed.data(), packet.size() + 1, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
    if (errno != EAGAIN) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (now_ns() >= until_ns) return false;
  }
}

long get_packet(const Turn& turn, int fd, std::span<std::byte> into, int64_t until_ns) {
  if (!poll_until(turn, fd, POLLIN, until_ns)) return kNoPacket;
  std::array<std::byte, kMaxPacket + 1> framed{};
  const ssize_t got = recv(fd, framed.data(), framed.size(), MSG_DONTWAIT);
  if (got <= 0) return kNoPacket;
  const size_t bytes = static_cast<size_t>(got) - 1;
  OUTRIDER_ASSERT(bytes <= into.size());
  std::copy_n(framed.begin() + 1, bytes, into.begin());
  return static_cast<long>(bytes);
}

void SocketBus::configure_locked() {
  turn_ = std::make_shared<Turn>();
  configured_ = true;
  events_.push_back(HostEvent::kEnabled);
  changed_.notify_all();
}

void SocketBus::plug() {
  std::lock_guard lock(mutex_);
  plugged_ = true;
  if (bound_ && !configured_) configure_locked();
}

void SocketBus::unplug() {
  std::lock_guard lock(mutex_);
  plugged_ = configured_ = false;
  if (turn_) turn_->alive = false;
  events_.push_back(HostEvent::kDisabled);
  changed_.notify_all();
}

void SocketBus::configure_again() {
  std::lock_guard lock(mutex_);
  if (turn_) turn_->alive = false;
  configure_locked();
}

bool SocketBus::host_opens() {
  std::lock_guard lock(mutex_);
  if (!configured_ || no_answer) return false;
  events_.push_back(HostEvent::kOpened);
  changed_.notify_all();
  return true;
}

void SocketBus::host_closes() {
  push(HostEvent::kClosed);
}

void SocketBus::push(HostEvent event) {
  std::lock_guard lock(mutex_);
  events_.push_back(event);
  changed_.notify_all();
}

bool SocketBus::configured() {
  std::lock_guard lock(mutex_);
  return configured_ && !late_state;
}

std::shared_ptr<Turn> SocketBus::turn() {
  std::lock_guard lock(mutex_);
  return turn_;
}

int SocketBus::bind() {
  std::lock_guard lock(mutex_);
  ++n_binds;
  bound_ = true;
  if (plugged_ && !configured_) configure_locked();
  return 0;
}

int SocketBus::unbind() {
  std::lock_guard lock(mutex_);
  bound_ = configured_ = false;
  if (turn_) turn_->alive = false;
  return 0;
}

HostEvent SocketBus::next_event(int64_t until_ns) {
  std::unique_lock lock(mutex_);
  wait_until(changed_, lock, until_ns, [&] { return !events_.empty() || woken_; });
  if (events_.empty()) return HostEvent::kNone;
  const HostEvent event = events_.front();
  events_.pop_front();
  return event;
}

void SocketBus::wake_events() {
  std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

int SocketBus::scripted(std::deque<int>& errors) {
  std::lock_guard lock(script_mutex);
  if (errors.empty()) return 0;
  const int error = errors.front();
  errors.pop_front();
  return error;
}

namespace {

// ---- the device

class SocketGadget final : public GadgetPort {
 public:
  explicit SocketGadget(std::shared_ptr<SocketBus> bus) : bus_(std::move(bus)) {
    pump_ = std::thread([this] { pump(); });
  }
  ~SocketGadget() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    pump_.join();
  }
  bool configured() noexcept override { return bus_->configured(); }
  HostEvent next_event(int64_t until_ns) noexcept override { return bus_->next_event(until_ns); }
  void wake_events() noexcept override { bus_->wake_events(); }

  int open_endpoints() noexcept override {
    if (!configured()) ++bus_->n_opens_too_early;
    if (const int error = bus_->scripted(bus_->open_errors)) return -error;
    std::lock_guard lock(mutex_);
    turn_ = bus_->turn();
    return 0;
  }
  void close_endpoints() noexcept override {
    std::lock_guard lock(mutex_);
    turn_.reset();
    requests_.clear();
    done_bytes_ = 0, failed_ = 0;
  }

  long read(std::span<std::byte> into) noexcept override {
    if (!configured()) ++bus_->n_reads_too_early;
    if (const int error = bus_->scripted(bus_->read_errors)) return -error;
    const auto turn = current_turn();
    size_t got = 0;
    while (got < into.size()) {
      const long packet =
          turn ? get_packet(*turn, turn->out[0], into.subspan(got), kForever) : kNoPacket;
      if (packet == kNoPacket) {
        while (bus_->keeps_read) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return -ESHUTDOWN;
      }
      got += static_cast<size_t>(packet);
      if (packet < long{bus_->max_packet}) break;
    }
    return static_cast<long>(got);
  }

  long submit(std::span<const Piece> pieces, size_t offset, size_t bytes) noexcept override {
    if (const int error = bus_->scripted(bus_->submit_errors)) return -error;
    std::vector<std::byte> all;
    for (const Piece& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
    OUTRIDER_ASSERT(offset + bytes <= all.size() && bytes % kWriteRequestBytes == 0);
    std::lock_guard lock(mutex_);
    if (!turn_ || !turn_->alive) return -ESHUTDOWN;
    for (size_t at = offset; at < offset + bytes; at += kWriteRequestBytes)
      requests_.emplace_back(all.begin() + long(at), all.begin() + long(at + kWriteRequestBytes));
    changed_.notify_all();
    return static_cast<long>(bytes);
  }
  long reap(int64_t until_ns) noexcept override {
    std::unique_lock lock(mutex_);
    wait_until(changed_, lock, until_ns, [&] { return done_bytes_ > 0 || failed_ != 0 || woken_; });
    if (done_bytes_ == 0 && failed_ != 0) return -std::exchange(failed_, 0);
    return static_cast<long>(std::exchange(done_bytes_, 0));
  }
  uint32_t n_unfinished() const noexcept override {
    std::lock_guard lock(mutex_);
    return static_cast<uint32_t>(requests_.size());
  }
  void wake_writes() noexcept override { set_woken(true); }
  void calm_writes() noexcept override { set_woken(false); }
  int bind() noexcept override { return bus_->bind(); }
  int unbind() noexcept override { return bus_->unbind(); }

 private:
  std::shared_ptr<Turn> current_turn() {
    std::lock_guard lock(mutex_);
    return turn_;
  }
  void set_woken(bool woken) {
    std::lock_guard lock(mutex_);
    woken_ = woken;
    changed_.notify_all();
  }
  // The controller: sends one request after the other in packets.
  void pump() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      wait_until(changed_, lock, soon_ns(kMillisecond), [&] { return stop_; });
      while (!requests_.empty() && turn_ && !stop_) {
        const auto turn = turn_;
        if (!turn->alive) {
          if (bus_->keeps_writes) break;
          requests_.clear();
          failed_ = ESHUTDOWN;
          changed_.notify_all();
          break;
        }
        if (bus_->stuck_writes) break;
        const auto request = requests_.front();
        lock.unlock();
        bool sent = true;
        for (size_t at = 0; at < request.size() && sent; at += bus_->max_packet)
          sent = put_packet(*turn, turn->in[0],
                            std::span(request).subspan(
                                at, std::min<size_t>(bus_->max_packet, request.size() - at)),
                            kForever);
        lock.lock();
        if (sent && !requests_.empty()) {
          done_bytes_ += requests_.front().size();
          requests_.pop_front();
          changed_.notify_all();
        }
      }
    }
  }

  const std::shared_ptr<SocketBus> bus_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Turn> turn_;
  std::deque<std::vector<std::byte>> requests_;
  size_t done_bytes_ = 0;
  int failed_ = 0;
  bool stop_ = false, woken_ = false;
  std::thread pump_;
};

// ---- the host

class SocketHost final : public HostPort {
 public:
  SocketHost(std::shared_ptr<SocketBus> bus, std::shared_ptr<HostSeen> seen)
      : bus_(std::move(bus)), seen_(std::move(seen)), turn_(bus_->turn()) {
    OUTRIDER_ASSERT(turn_ != nullptr);
    reader_ = std::thread([this] { read_pump(); });
    writer_ = std::thread([this] { write_pump(); });
  }
  ~SocketHost() override {
    OUTRIDER_ASSERT(n_pending() == 0);
    stop_ = true;
    reader_.join(), writer_.join();
  }
  uint32_t max_packet() const noexcept override { return bus_->max_packet; }
  Result<void> open_session() override {
    if (!bus_->host_opens()) return make_error(Code::kNotReady, "usb: no answer");
    return {};
  }
  void close_session() noexcept override {
    seen_->closed_session = true;
    if (turn_->alive) bus_->host_closes();
  }
  int post_read(uint32_t slot, std::span<std::byte> into) noexcept override {
    std::lock_guard lock(mutex_);
    if (!turn_->alive) return -ENODEV;
    reads_.push_back({slot, into});
    ++n_pending_;
    return 0;
  }
  int start_write(uint32_t slot, std::span<const std::byte> from, bool zero_packet,
                  int64_t timeout_ns) noexcept override {
    std::lock_guard lock(mutex_);
    if (!turn_->alive) return -ENODEV;
    OUTRIDER_ASSERT(!write_);  // one at a time
    write_ = Write{slot, from, zero_packet, soon_ns(timeout_ns)};
    ++n_pending_;
    return 0;
  }
  size_t wait(std::span<TransferDone> done, int64_t until_ns) noexcept override {
    std::unique_lock lock(mutex_);
    wait_until(changed_, lock, until_ns, [&] { return !done_.empty(); });
    size_t n = 0;
    for (; n < done.size() && !done_.empty(); ++n) {
      done[n] = done_.front();
      done_.pop_front();
      --n_pending_;
    }
    return n;
  }
  void cancel_all() noexcept override { cancel_ = true; }
  uint32_t n_pending() const noexcept override {
    std::lock_guard lock(mutex_);
    return n_pending_;
  }
  bool present() const noexcept override { return turn_->alive; }
  void save_power(bool on) noexcept override { ++(on ? seen_->n_power_on : seen_->n_power_off); }

 private:
  struct Read {
    uint32_t slot;
    std::span<std::byte> into;
  };
  struct Write {
    uint32_t slot;
    std::span<const std::byte> from;
    bool zero_packet;
    int64_t until_ns;
  };
  void finished(const TransferDone& done) {
    std::lock_guard lock(mutex_);
    done_.push_back(done);
    changed_.notify_all();
  }
  bool next_read(Read& read) {
    std::lock_guard lock(mutex_);
    if (reads_.empty()) return false;
    read = reads_.front();
    reads_.pop_front();
    return true;
  }
  void read_pump() {
    while (!stop_) {
      Read read;
      if (!next_read(read)) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        continue;
      }
      TransferDone done{.slot = read.slot};
      while (done.bytes < read.into.size()) {
        const long packet = cancel_
                                ? kNoPacket
                                : get_packet(*turn_, turn_->in[1], read.into.subspan(done.bytes),
                                             soon_ns(2 * kMillisecond));
        if (packet == kNoPacket) {
          if (cancel_)
            done.status = TransferDone::kCancelled;
          else if (!turn_->alive)
            done.status = TransferDone::kGone;
          else
            continue;
          break;
        }
        done.bytes += static_cast<uint32_t>(packet);
        if (packet < long{bus_->max_packet}) break;
      }
      finished(done);
    }
  }
  void write_pump() {
    while (!stop_) {
      std::optional<Write> write;
      {
        std::lock_guard lock(mutex_);
        write = write_;
      }
      if (!write) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        continue;
      }
      const TransferDone done = send_all(*write);
      std::lock_guard lock(mutex_);
      write_.reset();
      done_.push_back(done);
      changed_.notify_all();
    }
  }
  TransferDone send_all(const Write& write) {
    TransferDone done{.write = true, .slot = write.slot};
    const auto put = [&](std::span<const std::byte> packet) {
      while (!put_packet(*turn_, turn_->out[1], packet, soon_ns(2 * kMillisecond))) {
        if (cancel_)
          done.status = TransferDone::kCancelled;
        else if (!turn_->alive)
          done.status = TransferDone::kGone;
        else if (now_ns() >= write.until_ns)
          done.status = TransferDone::kTimeout;
        else
          continue;
        return false;
      }
      return true;
    };
    while (done.bytes < write.from.size()) {
      const size_t bytes = std::min<size_t>(bus_->max_packet, write.from.size() - done.bytes);
      if (!put(write.from.subspan(done.bytes, bytes))) return done;
      done.bytes += static_cast<uint32_t>(bytes);
    }
    if (write.zero_packet && write.from.size() % bus_->max_packet == 0) put({});
    return done;
  }

  const std::shared_ptr<SocketBus> bus_;
  const std::shared_ptr<HostSeen> seen_;
  const std::shared_ptr<Turn> turn_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Read> reads_;
  std::optional<Write> write_;
  std::deque<TransferDone> done_;
  uint32_t n_pending_ = 0;
  std::atomic<bool> stop_{false}, cancel_{false};
  std::thread reader_, writer_;
};

}  // namespace

std::unique_ptr<GadgetPort> make_socket_gadget(std::shared_ptr<SocketBus> bus) {
  return std::make_unique<SocketGadget>(std::move(bus));
}

std::unique_ptr<HostPort> make_socket_host(std::shared_ptr<SocketBus> bus,
                                           std::shared_ptr<HostSeen> seen) {
  return std::make_unique<SocketHost>(std::move(bus), std::move(seen));
}

}  // namespace outrider::link::usb
