// The system calls of the device side, behind an interface: FunctionFS and kernel AIO
// (ffs_port.h), or a script that behaves as listed below (tests).
//
// What the kernel does, and what every implementation therefore does:
// - an endpoint that is opened or read before the host configured the device may sleep without end
//   and keep the controller until a reboot: nothing here may be called before configured() is true,
//   and it is asked again before every read;
// - read() blocks whatever the flags of the file say; only unbind() ends it;
// - a write is taken as a whole by the kernel's queue when submit() returns (its bytes are copied
//   there) and completes later, in order, or never: only unbind() completes a stuck one;
// - after the host is gone reads and writes answer ESHUTDOWN, ENODEV or EIO.
#pragma once
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "link/transport/transport.h"

namespace outrider::link::usb {

// What the host did, as ep0 tells it. One value each, in the order of their happening.
enum class HostEvent : uint8_t {
  kNone,       // nothing until the deadline
  kEnabled,    // the device was configured (also: once more, without a kDisabled before)
  kDisabled,   // unplugged, reset or configured anew
  kOpened,     // the host's program opened a session
  kClosed,     // ... closed it
  kSuspended,  // the bus sleeps; not an end
  kResumed,
  kStalled,  // a request that is none of ours was refused
  kDead,     // ep0 itself failed: the gadget is of no more use
};
const char* host_event_name(HostEvent event);

class GadgetPort {
 public:
  GadgetPort() = default;
  GadgetPort(const GadgetPort&) = delete;
  GadgetPort& operator=(const GadgetPort&) = delete;
  virtual ~GadgetPort() = default;

  // [any] The controller says "configured" and ep0 agrees.
  virtual bool configured() noexcept = 0;

  // ep0. One thread. Session requests are answered inside. Waits until an event, wake_events() or
  // until_ns.
  virtual HostEvent next_event(int64_t until_ns) noexcept = 0;

  // The bulk pair. 0 or -errno. Only when configured().
  virtual int open_endpoints() noexcept = 0;
  virtual void close_endpoints() noexcept = 0;
  // Blocks. Bytes (0: an empty packet) or -errno. One thread.
  virtual long read(std::span<std::byte> into) noexcept = 0;

  // One message, or the part of one that has room: `pieces` from byte `offset` on, `bytes` of
  // them, cut into requests of kWriteRequestBytes and handed over with one system call. Never
  // waits. Returns the bytes that were taken (a multiple of kWriteRequestBytes) or -errno; the
  // pieces belong to the caller again.
  virtual long submit(std::span<const Piece> pieces, size_t offset, size_t bytes) noexcept = 0;
  // Waits for completed writes, wake_writes() or until_ns; returns the bytes completed since the
  // last call (0: none), or -errno of the first request that failed.
  virtual long reap(int64_t until_ns) noexcept = 0;
  virtual uint32_t n_unfinished() const noexcept = 0;  // requests still in the kernel's queue
  // [any] Bytes that submit() had to gather so far: requests of many small pieces.
  virtual uint64_t n_copied_bytes() const noexcept { return 0; }
  // [any] Makes next_event() or reap() return at once, this time and every later time; reap() waits
  // again after calm_writes().
  virtual void wake_events() noexcept = 0;
  virtual void wake_writes() noexcept = 0;
  virtual void calm_writes() noexcept = 0;

  // Takes the device off the bus and puts it back. 0 or -errno.
  virtual int unbind() noexcept = 0;
  virtual int bind() noexcept = 0;
};

// Rule for errors of an endpoint: until a transfer was ever completed, ENODEV, EIO and ESHUTDOWN
// mean "not ready yet" for a grace of kEnableGraceNs; after that, and for every other error, the
// cable is gone at once.
class EndpointErrors {
 public:
  explicit EndpointErrors(int64_t start_ns, int64_t grace_ns) : until_ns_(start_ns + grace_ns) {}
  void completed() noexcept { seen_.store(true, std::memory_order_relaxed); }
  bool again(int error, int64_t at_ns) const noexcept;

 private:
  const int64_t until_ns_;
  std::atomic<bool> seen_{false};
};

}  // namespace outrider::link::usb
