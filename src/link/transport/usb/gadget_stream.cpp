#include "link/transport/usb/gadget_stream.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "base/assert.h"
#include "base/log.h"
#include "link/transport/usb/limits.h"
#include "link/transport/usb/slot_ring.h"
#include "link/transport/usb/wait.h"

namespace outrider::link::usb {
namespace {

// How long bytes that the host had written before it closed may still need to reach the ring.
constexpr int64_t kLastBytesNs = 50 * kMillisecond;

// What the reader thread shares with the stream: lives as long as the longer of the two.
struct Core final : SessionEnd {
  Core(std::unique_ptr<Gadget> its, int priority)
      : gadget(std::move(its)),
        ring(kDeviceReadSlots, kDeviceReadBytes),
        errors(now_ns(), gadget->timers().enable_grace_ns),
        reader_priority(priority) {}

  GadgetPort& port() { return gadget->port(); }
  void session_ended(Io io) noexcept override;
  void fail(Io io) noexcept;
  void read_all() noexcept;
  bool read_once(std::span<std::byte> slot) noexcept;
  bool wait_reader(int64_t until_ns) noexcept;

  std::unique_ptr<Gadget> gadget;
  SlotRing ring;
  EndpointErrors errors;
  std::atomic<Io> end{Io::kDone};            // for send; the ring has its own for receive
  std::atomic<int64_t> close_ns{INT64_MAX};  // the host closed: receive ends at this time
  const int reader_priority;
  std::mutex mutex;
  std::condition_variable reader_done;
  bool reader_ended = false;
};

void Core::fail(Io io) noexcept {
  Io none = Io::kDone;
  end.compare_exchange_strong(none, io);
  ring.end(io);
  port().wake_writes();
}

void Core::session_ended(Io io) noexcept {
  if (io != Io::kClosed) return fail(io);
  // The reader may not have handed over the last bytes: receive() ends a moment later.
  Io none = Io::kDone;
  end.compare_exchange_strong(none, io);
  close_ns = soon_ns(kLastBytesNs);
  port().wake_writes();
}

// Fills one slot. False: the stream has ended.
bool Core::read_once(std::span<std::byte> slot) noexcept {
  for (;;) {
    if (ring.ended() != Io::kDone) return false;
    const long got = port().configured() ? port().read(slot) : -ESHUTDOWN;
    if (got >= 0) {
      if (got > 0) errors.completed();
      ring.fill(static_cast<size_t>(got));
      return true;
    }
    if (!errors.again(static_cast<int>(-got), now_ns())) {
      fail(Io::kGone);
      return false;
    }
    std::unique_lock lock(mutex);
    wait_until(reader_done, lock, soon_ns(kEnablePollNs), [] { return false; });
  }
}

void Core::read_all() noexcept {
  if (reader_priority > 0) {
    const sched_param param{.sched_priority = reader_priority};
    if (const int error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &param); error != 0)
      log_line(LogLevel::kInfo, "usb: the reader runs without real-time priority: %s",
               std::strerror(error));
  }
  pthread_setname_np(pthread_self(), "usb-reader");
  while (ring.ended() == Io::kDone) {
    const auto slot = ring.reserve_until(soon_ns(kEventSliceNs));
    if (!slot.empty() && !read_once(slot)) break;
  }
  std::lock_guard lock(mutex);
  reader_ended = true;
  reader_done.notify_all();
}

bool Core::wait_reader(int64_t until_ns) noexcept {
  std::unique_lock lock(mutex);
  return wait_until(reader_done, lock, until_ns, [&] { return reader_ended; });
}

class GadgetStream final : public Transport {
 public:
  GadgetStream(std::shared_ptr<Core> core, GadgetStreamOptions options);
  ~GadgetStream() override;
  Moved send(std::span<const Piece> pieces, int64_t deadline_ns) noexcept override;
  Moved receive(std::span<std::byte> into, int64_t deadline_ns) noexcept override;
  void shut() noexcept override { core_->fail(Io::kShut), core_->end = Io::kShut; }
  const TransportFacts& facts() const noexcept override { return facts_; }
  size_t unsent_bytes() const noexcept override { return unsent_bytes_.load(); }
  uint64_t copied_bytes() const noexcept override { return core_->port().n_copied_bytes(); }

 private:
  bool reap(int64_t until_ns) noexcept;
  long submit(std::span<const Piece> pieces, size_t offset, size_t bytes,
              int64_t deadline_ns) noexcept;
  bool drain(int64_t until_ns) noexcept;

  const std::shared_ptr<Core> core_;
  GadgetStreamOptions options_;
  TransportFacts facts_;
  std::atomic<size_t> unsent_bytes_{0};
  std::thread reader_;
};

GadgetStream::GadgetStream(std::shared_ptr<Core> core, GadgetStreamOptions options)
    : core_(std::move(core)), options_(std::move(options)) {
  if (options_.unsent_limit_bytes == 0) options_.unsent_limit_bytes = kUnsentLimitBytes;
  OUTRIDER_ASSERT(options_.unsent_limit_bytes % kGridBytes == 0);
  OUTRIDER_ASSERT(options_.unsent_limit_bytes <= kUnsentLimitBytes);
  facts_.kind = TransportKind::kUsb;
  std::snprintf(facts_.peer, sizeof facts_.peer, "usb:%s", core_->gadget->serial().c_str());
  facts_.pad_grid_bytes = kGridBytes;
  facts_.encrypted = true;  // a cable between two machines
  facts_.speed_mbit_s = options_.speed_mbit_s;
  core_->port().calm_writes();
  core_->gadget->follow(core_.get());
  reader_ = std::thread([core = core_] { core->read_all(); });
}

// Collects finished writes. False: one of them failed, the stream has ended.
bool GadgetStream::reap(int64_t until_ns) noexcept {
  const long done = core_->port().reap(until_ns);
  if (done < 0) {
    core_->fail(Io::kGone);
    return false;
  }
  if (done > 0) core_->errors.completed();
  OUTRIDER_ASSERT(static_cast<size_t>(done) <= unsent_bytes_);
  unsent_bytes_ -= static_cast<size_t>(done);
  return true;
}

// Bytes taken, 0 at the deadline, -errno when it is over.
long GadgetStream::submit(std::span<const Piece> pieces, size_t offset, size_t bytes,
                          int64_t deadline_ns) noexcept {
  for (;;) {
    const long taken = core_->port().submit(pieces, offset, bytes);
    if (taken > 0) return taken;
    if (!core_->errors.again(static_cast<int>(-taken), now_ns())) return taken;
    if (now_ns() >= deadline_ns) return 0;
    reap(soon_ns(kEnablePollNs, deadline_ns));
    if (core_->end.load() != Io::kDone) return -ESHUTDOWN;
  }
}

Moved GadgetStream::send(std::span<const Piece> pieces, int64_t deadline_ns) noexcept {
  size_t total = 0, sent = 0;
  for (const Piece& piece : pieces) total += piece.size();
  if (total % kGridBytes != 0) return {Io::kBroken, 0};
  while (sent < total) {
    if (const Io io = core_->end.load(); io != Io::kDone) return {io, sent};
    if (!reap(0)) continue;
    const size_t limit = options_.unsent_limit_bytes;
    const size_t room = limit - unsent_bytes_;
    const size_t rest = total - sent;
    const size_t wanted = total <= limit ? rest : std::min(rest, limit / 2);
    if (room >= wanted) {
      const long taken = submit(pieces, sent, std::min(room, rest), deadline_ns);
      if (taken == 0) return {Io::kLate, sent};
      if (taken < 0) {
        core_->fail(Io::kGone);
        continue;
      }
      unsent_bytes_ += static_cast<size_t>(taken);
      sent += static_cast<size_t>(taken);
      continue;
    }
    if (now_ns() >= deadline_ns) return {Io::kLate, sent};
    reap(deadline_ns);
  }
  return {Io::kDone, sent};
}

Moved GadgetStream::receive(std::span<std::byte> into, int64_t deadline_ns) noexcept {
  for (;;) {
    const int64_t close_ns = core_->close_ns.load();
    const Moved moved =
        core_->ring.take(into, std::min(soon_ns(kEventSliceNs, deadline_ns), close_ns));
    if (moved.io != Io::kLate) return moved;
    const int64_t now = now_ns();
    if (now >= close_ns)
      core_->ring.end(Io::kClosed);
    else if (now >= deadline_ns)
      return moved;
  }
}

// Waits until nothing is left in the kernel's queue.
bool GadgetStream::drain(int64_t until_ns) noexcept {
  while (core_->port().n_unfinished() > 0 && now_ns() < until_ns)
    core_->port().reap(soon_ns(kEnablePollNs, until_ns));
  return core_->port().n_unfinished() == 0;
}

GadgetStream::~GadgetStream() {
  const Io ended = core_->end.load();
  shut();
  const GadgetTimers& timers = core_->gadget->timers();
  core_->port().calm_writes();
  if (ended == Io::kDone || ended == Io::kShut) drain(soon_ns(timers.close_flush_ns));
  core_->gadget->leave_bus();
  const bool drained = drain(soon_ns(timers.close_abort_ns));
  const bool joined = core_->wait_reader(soon_ns(timers.close_join_ns));
  if (!drained || !joined) {
    log_line(LogLevel::kWarn,
             "usb:%s: the controller keeps %u writes%s; left to it, replug or restart to use it",
             core_->gadget->serial().c_str(), core_->port().n_unfinished(),
             joined ? "" : " and a read");
    reader_.detach();  // ends when the controller lets go; it keeps the core
    return;
  }
  reader_.join();
  core_->gadget->end_session();
  if (options_.take_back) options_.take_back(std::move(core_->gadget));
}

}  // namespace

std::unique_ptr<Transport> make_gadget_stream(std::unique_ptr<Gadget> gadget,
                                              GadgetStreamOptions options) {
  auto core = std::make_shared<Core>(std::move(gadget), options.reader_priority);
  return std::make_unique<GadgetStream>(std::move(core), std::move(options));
}

}  // namespace outrider::link::usb
