// The system calls of the host side for one opened device, behind an interface: libusb
// (libusb_port.h) or a script (tests).
//
// What the system does, and what every implementation therefore does:
// - reads complete in the order in which they were posted, each full, or short where the device
//   ended a write off the packet size;
// - a write is one transfer; when it makes no end in time, what was moved until then is reported;
// - after the device is gone every transfer comes back with kGone, soon but not at once, and an
//   event loop without a time limit may sleep for ever.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "link/transport/transport.h"

namespace outrider::link::usb {

struct TransferDone {
  enum Status : uint8_t { kDone, kTimeout, kGone, kError, kOverflow, kCancelled };
  bool write = false;
  Status status = kDone;
  uint32_t slot = 0;   // as posted
  uint32_t bytes = 0;  // moved, also when not kDone
};

class HostPort {
 public:
  HostPort() = default;
  HostPort(const HostPort&) = delete;
  HostPort& operator=(const HostPort&) = delete;
  // Every transfer must be back (n_pending() == 0); one that is not is leaked on purpose.
  virtual ~HostPort() = default;

  virtual uint32_t max_packet() const noexcept = 0;  // of the endpoint that is written to

  // The session requests of descriptors.h. Errors: kDevice (gone), kNotReady (no answer),
  // kUnsupported (an answer that is none of ours).
  virtual Result<void> open_session() = 0;
  virtual void close_session() noexcept = 0;

  // [any] 0 or -errno. The memory belongs to the port until the transfer is back.
  virtual int post_read(uint32_t slot, std::span<std::byte> into) noexcept = 0;
  // `zero_packet`: an empty packet follows when the last packet was a full one.
  virtual int start_write(uint32_t slot, std::span<const std::byte> from, bool zero_packet,
                          int64_t timeout_ns) noexcept = 0;
  // One thread. Lets the system work until something came back or until_ns; returns how many.
  virtual size_t wait(std::span<TransferDone> done, int64_t until_ns) noexcept = 0;
  virtual void cancel_all() noexcept = 0;
  virtual uint32_t n_pending() const noexcept = 0;
  // The device is still on its bus. After an unplugging this may stay true for a moment.
  virtual bool present() const noexcept = 0;

  // Best effort: link power saving of the port that the device hangs on.
  virtual void save_power(bool on) noexcept = 0;
};

}  // namespace outrider::link::usb
