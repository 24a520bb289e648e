// Kernel AIO for the writes of one endpoint. A synchronous write to a gadget endpoint cannot time
// out (90 s and more were seen while a host booted), and a signal inside it replays bytes.
//
// FunctionFS copies the bytes while they are submitted, so memory is free again on return.
#pragma once
#include <linux/aio_abi.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "link/transport/transport.h"
#include "link/transport/usb/limits.h"

namespace outrider::link::usb {

class KernelAio {
 public:
  // [setup] Errors: kDevice.
  Result<void> open();
  ~KernelAio();  // requests still in the queue are abandoned with their context

  // GadgetPort::submit and reap.
  long submit(int fd, std::span<const Piece> pieces, size_t offset, size_t bytes) noexcept;
  long reap(int64_t until_ns) noexcept;
  uint32_t n_unfinished() const noexcept { return n_unfinished_; }
  uint64_t n_gathered_bytes() const noexcept { return n_gathered_bytes_; }
  void wake() noexcept;
  void calm() noexcept;

 private:
  // One request: at most this many pieces; a request of more is gathered first and goes alone.
  static constexpr size_t kPiecesPerRequest = 16;
  size_t prepare(int fd, std::span<const Piece> pieces, size_t offset, size_t bytes) noexcept;
  long collect() noexcept;

  aio_context_t context_ = 0;
  int done_fd_ = -1, wake_fd_ = -1;
  std::atomic<uint32_t> n_unfinished_{0};
  std::atomic<uint64_t> n_gathered_bytes_{0};
  std::vector<iocb> requests_;
  std::vector<iovec> vectors_;
  std::vector<std::byte> gathered_;
};

}  // namespace outrider::link::usb
