#include "link/transport/usb/host_session.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/assert.h"
#include "base/log.h"
#include "link/transport/usb/wait.h"

namespace outrider::link::usb {
namespace {

// An unplugged device gives transfer errors first and leaves the bus a moment later.
constexpr int64_t kLeavingNs = 300 * kMillisecond;

}  // namespace

HostSession::HostSession(std::unique_ptr<HostPort> port, std::string serial,
                         const HostTimers& timers)
    : port_(std::move(port)),
      serial_(std::move(serial)),
      timers_(timers),
      ring_(kHostReadSlots, kGridBytes),
      posted_(kHostReadSlots),
      back_(kHostReadSlots),
      is_back_(kHostReadSlots, false) {
  for (Outgoing& slot : outgoing_) slot.memory.resize(kHostWriteBytes);
  thread_ = std::thread([this] { run(); });
}

HostSession::~HostSession() {
  finish();
}

void HostSession::end(Io io) noexcept {
  Io none = Io::kDone;
  end_.compare_exchange_strong(none, io);
  ring_.end(io);
  {
    std::lock_guard lock(write_mutex_);
    write_freed_.notify_all();
  }
  std::lock_guard lock(state_mutex_);
  state_changed_.notify_all();
}

Io HostSession::cause_of(TransferDone::Status status) noexcept {
  switch (status) {
    case TransferDone::kGone:
      return Io::kGone;
    case TransferDone::kOverflow:
      return Io::kBroken;
    case TransferDone::kCancelled:
      return Io::kShut;
    default:
      break;
  }
  if (status == TransferDone::kTimeout) return Io::kReset;
  const int64_t until_ns = soon_ns(kLeavingNs);
  while (port_->present() && now_ns() < until_ns)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return port_->present() ? Io::kReset : Io::kGone;
}

// ---- reads

void HostSession::post_free_reads() noexcept {
  std::lock_guard lock(post_mutex_);
  for (;;) {
    const auto memory = ring_.reserve();
    if (memory.empty()) return;
    const uint32_t slot = next_post_;
    next_post_ = (next_post_ + 1) % kHostReadSlots;
    posted_[slot] = memory;
    if (const int error = port_->post_read(slot, memory); error != 0) {
      log_line(LogLevel::kDebug, "usb:%s: a read is refused: %s", serial_.c_str(),
               std::strerror(-error));
      end(error == -ENODEV ? Io::kGone : Io::kReset);
      return;
    }
  }
}

void HostSession::read_back(const TransferDone& done) noexcept {
  OUTRIDER_ASSERT(done.slot < kHostReadSlots && done.bytes <= kGridBytes);
  if (done.bytes > 0) last_heard_ns_ = now_ns();
  if (dropping_) {
    const bool alive = done.status == TransferDone::kDone;
    if (!alive || port_->post_read(done.slot, posted_[done.slot]) != 0) stop_ = true;
    return;
  }
  OUTRIDER_ASSERT(!is_back_[done.slot]);
  back_[done.slot] = done;
  is_back_[done.slot] = true;
}

// Hands over what is complete from the oldest posted read on.
void HostSession::deliver_in_order() noexcept {
  while (end_.load() == Io::kDone && is_back_[next_fill_]) {
    const TransferDone& done = back_[next_fill_];
    is_back_[next_fill_] = false;
    next_fill_ = (next_fill_ + 1) % kHostReadSlots;
    if (done.status != TransferDone::kDone) return end(cause_of(done.status));
    if (done.bytes % kGridBytes != 0) {
      log_line(LogLevel::kWarn,
               "usb:%s: a read of %u bytes, wanted a multiple of %u: the stream cannot be trusted, "
               "the session ends",
               serial_.c_str(), done.bytes, kGridBytes);
      return end(Io::kBroken);
    }
    ring_.fill(done.bytes);
    if (done.bytes > 0 && !heard_.exchange(true)) {
      std::lock_guard lock(state_mutex_);
      state_changed_.notify_all();
    }
  }
}

Moved HostSession::receive(std::span<std::byte> into, int64_t deadline_ns) noexcept {
  const Moved moved = ring_.take(into, deadline_ns);
  // Half of the reads are still posted: time enough to post the others from here.
  if (moved.bytes > 0 && ring_.n_free() >= kHostReadSlots / 2) post_free_reads();
  return moved;
}

// ---- writes

void HostSession::start_oldest_write() noexcept {
  const Io io_now = end_.load();
  if (writing_ || n_written_ == n_queued_) return;
  if (io_now != Io::kDone && !(io_now == Io::kShut && !failed_writes_)) return;
  const uint32_t slot = n_written_ % kHostWriteSlots;
  const Outgoing& out = outgoing_[slot];
  const auto rest = std::span(out.memory).subspan(out.done_bytes, out.bytes - out.done_bytes);
  writing_ = true;
  if (const int error = port_->start_write(slot, rest, out.zero_packet, timers_.write_stall_ns);
      error != 0) {
    writing_ = false;
    failed_writes_ = true;
    Io none = Io::kDone;  // end() would take write_mutex_ again
    const Io io = error == -ENODEV ? Io::kGone : Io::kReset;
    end_.compare_exchange_strong(none, io);
    ring_.end(io);
    write_freed_.notify_all();
  }
}

void HostSession::write_back(const TransferDone& done) noexcept {
  {
    std::lock_guard lock(write_mutex_);
    Outgoing& out = outgoing_[done.slot];
    OUTRIDER_ASSERT(writing_ && done.bytes <= out.bytes - out.done_bytes);
    writing_ = false;
    out.done_bytes += done.bytes;
    const bool slow = done.status == TransferDone::kTimeout && done.bytes > 0;
    // Timed out between the last byte and the empty packet that must follow it: that one is sent
    // as the (empty) rest.
    const bool lacks_end = out.zero_packet && out.bytes % port_->max_packet() == 0;
    const bool whole = out.done_bytes == out.bytes && !lacks_end;
    if (done.status == TransferDone::kDone || (slow && whole)) {
      ++n_written_;
      write_freed_.notify_all();
    } else if (!slow) {
      failed_writes_ = true;
    }
    if (!failed_writes_) start_oldest_write();  // the next one, or the rest of a slow one
    if (!failed_writes_) return;
  }
  if (done.status == TransferDone::kDone) return;  // the next one could not be started
  if (done.status == TransferDone::kTimeout)
    log_line(LogLevel::kWarn, "usb:%s: the device took nothing for %.1f s, the session ends",
             serial_.c_str(), static_cast<double>(timers_.write_stall_ns) * 1e-9);
  end(cause_of(done.status));
}

Moved HostSession::send(std::span<const Piece> pieces, int64_t deadline_ns) noexcept {
  size_t total = 0, sent = 0;
  for (const Piece& piece : pieces) total += piece.size();
  size_t piece_index = 0, piece_offset = 0;
  while (sent < total) {
    std::unique_lock lock(write_mutex_);
    const bool free = wait_until(write_freed_, lock, deadline_ns, [&] {
      return n_queued_ - n_written_ < kHostWriteSlots || end_.load() != Io::kDone;
    });
    if (const Io io = end_.load(); io != Io::kDone) return {io, sent};
    if (!free) return {Io::kLate, sent};
    Outgoing& out = outgoing_[n_queued_ % kHostWriteSlots];
    out.bytes = std::min<size_t>(total - sent, kHostWriteBytes);
    out.done_bytes = 0;
    // A reader that asks for more must see the end of a message that fills its last packet.
    out.zero_packet = sent + out.bytes == total;
    for (size_t at = 0; at < out.bytes;) {
      const Piece rest = pieces[piece_index].subspan(piece_offset);
      const size_t bytes = std::min(rest.size(), out.bytes - at);
      if (bytes > 0) std::memcpy(out.memory.data() + at, rest.data(), bytes);
      at += bytes;
      piece_offset += bytes;
      if (bytes == rest.size()) ++piece_index, piece_offset = 0;
    }
    sent += out.bytes;
    n_copied_bytes_ += out.bytes;
    ++n_queued_;
    start_oldest_write();
  }
  return {Io::kDone, sent};
}

// ---- the thread

void HostSession::dispatch(int64_t until_ns) noexcept {
  TransferDone done[kHostReadSlots + kHostWriteSlots];
  const size_t n_done = port_->wait(done, until_ns);
  for (size_t i = 0; i < n_done; ++i) done[i].write ? write_back(done[i]) : read_back(done[i]);
}

void HostSession::look_at_silence() noexcept {
  const bool silent = now_ns() - last_heard_ns_ >= timers_.power_back_ns;
  if (silent == saving_power_) return;
  saving_power_ = silent;
  port_->save_power(silent);
}

void HostSession::run() noexcept {
  pthread_setname_np(pthread_self(), "usb-host");
  last_heard_ns_ = now_ns();
  post_free_reads();
  while (!stop_ && end_.load() == Io::kDone) {
    look_at_silence();
    dispatch(soon_ns(kEventSliceNs));
    deliver_in_order();
    post_free_reads();
  }
  if (end_.load() == Io::kBroken)
    drop_until_quiet();
  else if (end_.load() == Io::kShut)
    flush_writes();
  if (end_.load() != Io::kGone) port_->close_session();
  collect();
  if (!saving_power_) port_->save_power(true);
  std::lock_guard lock(state_mutex_);
  finished_ = true;
  state_changed_.notify_all();
}

// What send() took before an orderly end still goes out.
void HostSession::flush_writes() noexcept {
  const int64_t until_ns = soon_ns(timers_.close_ns);
  const auto unwritten = [&] {
    std::lock_guard lock(write_mutex_);
    return !failed_writes_ && n_written_ != n_queued_;
  };
  while (unwritten() && now_ns() < until_ns) dispatch(soon_ns(kEventSliceNs, until_ns));
}

void HostSession::drop_until_quiet() noexcept {
  const int64_t start_ns = now_ns();
  dropping_ = true;
  last_heard_ns_ = start_ns;
  for (uint32_t slot = 0; slot < kHostReadSlots; ++slot) {
    if (is_back_[slot]) is_back_[slot] = false, read_back(back_[slot]);
  }
  while (!stop_) {
    const int64_t quiet_at_ns = last_heard_ns_ + timers_.quiet_ns;
    const int64_t limit_ns = start_ns + timers_.drain_limit_ns;
    const int64_t now = now_ns();
    if (now >= quiet_at_ns || now >= limit_ns) return;
    dispatch(soon_ns(kEventSliceNs, std::min(quiet_at_ns, limit_ns)));
  }
}

// Every transfer must be back before its memory goes.
void HostSession::collect() noexcept {
  dropping_ = true;
  stop_ = true;
  const int64_t until_ns = soon_ns(timers_.close_ns);
  port_->cancel_all();
  TransferDone done[kHostReadSlots + kHostWriteSlots];
  while (port_->n_pending() > 0 && now_ns() < until_ns)
    port_->wait(done, soon_ns(kEventSliceNs, until_ns));
}

bool HostSession::wait_first_byte(int64_t until_ns) noexcept {
  std::unique_lock lock(state_mutex_);
  wait_until(state_changed_, lock, until_ns, [&] { return heard() || end_.load() != Io::kDone; });
  return heard();
}

size_t HostSession::unsent_bytes() noexcept {
  std::lock_guard lock(write_mutex_);
  size_t bytes = 0;
  for (uint64_t i = n_written_; i < n_queued_; ++i) bytes += outgoing_[i % kHostWriteSlots].bytes;
  return bytes;
}

bool HostSession::wait_finished(int64_t until_ns) noexcept {
  std::unique_lock lock(state_mutex_);
  return wait_until(state_changed_, lock, until_ns, [&] { return finished_; });
}

void HostSession::finish() noexcept {
  end(Io::kShut);
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

// ---- the Transport

namespace {

class HostStream final : public Transport {
 public:
  HostStream(std::shared_ptr<HostSession> session, uint32_t speed_mbit_s)
      : session_(std::move(session)) {
    facts_.kind = TransportKind::kUsb;
    std::snprintf(facts_.peer, sizeof facts_.peer, "usb:%s", session_->serial().c_str());
    facts_.encrypted = true;  // a cable between two machines
    facts_.speed_mbit_s = speed_mbit_s;
  }
  ~HostStream() override { shut(); }
  Moved send(std::span<const Piece> pieces, int64_t deadline_ns) noexcept override {
    return shut_ ? Moved{Io::kShut, 0} : session_->send(pieces, deadline_ns);
  }
  Moved receive(std::span<std::byte> into, int64_t deadline_ns) noexcept override {
    return session_->receive(into, deadline_ns);
  }
  void shut() noexcept override {
    shut_ = true;
    session_->end(Io::kShut);
  }
  const TransportFacts& facts() const noexcept override { return facts_; }
  size_t unsent_bytes() const noexcept override { return session_->unsent_bytes(); }
  uint64_t copied_bytes() const noexcept override { return session_->n_copied_bytes(); }

 private:
  const std::shared_ptr<HostSession> session_;
  TransportFacts facts_;
  std::atomic<bool> shut_{false};
};

}  // namespace

std::unique_ptr<Transport> make_host_stream(std::shared_ptr<HostSession> session,
                                            uint32_t speed_mbit_s) {
  return std::make_unique<HostStream>(std::move(session), speed_mbit_s);
}

}  // namespace outrider::link::usb
