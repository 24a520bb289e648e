#include "link/transport/usb/libusb_port.h"

#include <fcntl.h>
#include <libusb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>

#include "base/assert.h"
#include "base/log.h"
#include "link/transport/usb/config_descriptor.h"
#include "link/transport/usb/descriptors.h"
#include "link/transport/usb/link_power.h"
#include "link/transport/usb/wait.h"

namespace outrider::link::usb {
namespace {

constexpr unsigned kControlTimeoutMs = 1000;
constexpr size_t kMaxConfigBytes = 4096;

int errno_of(int error) {
  switch (error) {
    case LIBUSB_ERROR_ACCESS:
      return EACCES;
    case LIBUSB_ERROR_BUSY:
      return EBUSY;
    case LIBUSB_ERROR_NO_DEVICE:
      return ENODEV;
    case LIBUSB_ERROR_NOT_FOUND:
      return ENOENT;
    case LIBUSB_ERROR_NO_MEM:
      return ENOMEM;
    default:
      return EIO;
  }
}

TransferDone::Status status_of(libusb_transfer_status status) {
  switch (status) {
    case LIBUSB_TRANSFER_COMPLETED:
      return TransferDone::kDone;
    case LIBUSB_TRANSFER_TIMED_OUT:
      return TransferDone::kTimeout;
    case LIBUSB_TRANSFER_NO_DEVICE:
      return TransferDone::kGone;
    case LIBUSB_TRANSFER_CANCELLED:
      return TransferDone::kCancelled;
    case LIBUSB_TRANSFER_OVERFLOW:
      return TransferDone::kOverflow;
    default:
      return TransferDone::kError;
  }
}

class LibusbPort final : public HostPort {
 public:
  LibusbPort(const FoundDevice& device, const SysPaths& paths)
      : device_(device), power_(paths.devices + "/" + device.name) {}
  ~LibusbPort() override;
  Result<void> open(const SysPaths& paths);

  uint32_t max_packet() const noexcept override { return pair_.out_packet; }
  Result<void> open_session() override;
  void close_session() noexcept override;
  int post_read(uint32_t slot, std::span<std::byte> into) noexcept override;
  int start_write(uint32_t slot, std::span<const std::byte> from, bool zero_packet,
                  int64_t timeout_ns) noexcept override;
  size_t wait(std::span<TransferDone> done, int64_t until_ns) noexcept override;
  void cancel_all() noexcept override;
  uint32_t n_pending() const noexcept override { return n_pending_; }
  bool present() const noexcept override;
  void save_power(bool on) noexcept override { on ? power_.restore() : power_.switch_off(); }

 private:
  struct Slot {
    LibusbPort* port = nullptr;
    libusb_transfer* transfer = nullptr;
    bool write = false;
    uint32_t index = 0;
    std::atomic<bool> pending{false};
  };
  static void LIBUSB_CALL came_back(libusb_transfer* transfer);
  int submit(Slot& slot, uint8_t endpoint, std::byte* memory, size_t bytes, uint8_t flags,
             unsigned timeout_ms) noexcept;
  int ask(uint8_t request, std::span<std::byte> reply, unsigned timeout_ms) noexcept;
  void take_done(std::span<TransferDone> done, size_t& n) noexcept;

  const FoundDevice device_;
  LinkPower power_;
  int fd_ = -1;
  dev_t node_device_ = 0;
  libusb_context* context_ = nullptr;
  libusb_device_handle* handle_ = nullptr;
  bool claimed_ = false;
  BulkPair pair_;
  Slot reads_[kHostReadSlots], writes_[kHostWriteSlots];
  std::atomic<uint32_t> n_pending_{0};
  std::mutex done_mutex_;
  std::deque<TransferDone> done_;
};

Result<void> LibusbPort::open(const SysPaths& paths) {
  fd_ = ::open(device_.node.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0) return explain_open(device_, errno, paths);
  struct stat facts {};
  if (::fstat(fd_, &facts) == 0) node_device_ = facts.st_rdev;
  libusb_set_option(nullptr, LIBUSB_OPTION_NO_DEVICE_DISCOVERY);
  if (const int error = libusb_init(&context_); error != 0)
    return make_error(Code::kDevice, "usb: libusb does not start: %s", libusb_error_name(error));
  if (const int error = libusb_wrap_sys_device(context_, fd_, &handle_); error != 0)
    return explain_open(device_, errno_of(error), paths);
  std::byte config[kMaxConfigBytes];
  const int got = libusb_get_descriptor(handle_, LIBUSB_DT_CONFIG, 0,
                                        reinterpret_cast<unsigned char*>(config), sizeof config);
  if (got < 0) return explain_open(device_, errno_of(got), paths);
  auto pair = find_bulk_pair(std::span(config).first(static_cast<size_t>(got)));
  if (!pair) return pair.error();
  pair_ = pair.value();
  if (const int error = libusb_claim_interface(handle_, pair_.interface_number); error != 0)
    return explain_open(device_, errno_of(error), paths);
  claimed_ = true;
  const auto prepare = [&](Slot& slot, uint32_t index, bool write) {
    slot.port = this, slot.index = index, slot.write = write;
    slot.transfer = libusb_alloc_transfer(0);
    return slot.transfer != nullptr;
  };
  bool made = true;
  for (uint32_t i = 0; i < kHostReadSlots; ++i) made = prepare(reads_[i], i, false) && made;
  for (uint32_t i = 0; i < kHostWriteSlots; ++i) made = prepare(writes_[i], i, true) && made;
  if (!made) return make_error(Code::kNoMemory, "usb: no memory for transfers");
  return {};
}

LibusbPort::~LibusbPort() {
  if (n_pending_ != 0) {
    log_line(LogLevel::kWarn, "usb:%s: %u transfers never came back; the device stays open",
             device_.serial.c_str(), n_pending_.load());
    return;  // the library would use freed memory
  }
  for (Slot& slot : reads_) libusb_free_transfer(slot.transfer);
  for (Slot& slot : writes_) libusb_free_transfer(slot.transfer);
  if (claimed_) libusb_release_interface(handle_, pair_.interface_number);
  if (handle_ != nullptr) libusb_close(handle_);
  if (context_ != nullptr) libusb_exit(context_);
  if (fd_ >= 0) ::close(fd_);
}

int LibusbPort::ask(uint8_t request, std::span<std::byte> reply, unsigned timeout_ms) noexcept {
  return libusb_control_transfer(handle_, kSessionRequestType, request, kSessionVersion,
                                 pair_.interface_number,
                                 reinterpret_cast<unsigned char*>(reply.data()),
                                 static_cast<uint16_t>(reply.size()), timeout_ms);
}

Result<void> LibusbPort::open_session() {
  std::byte reply[kSessionReplyBytes];
  const int got = ask(kSessionOpen, reply, kControlTimeoutMs);
  const char* serial = device_.serial.c_str();
  if (got == LIBUSB_ERROR_NO_DEVICE)
    return make_error(Code::kDevice, "usb:%s: the device left while it was opened", serial);
  if (got < 0)
    return make_error(Code::kNotReady,
                      "usb:%s: no answer to the session request: %s; its program "
                      "may still be starting",
                      serial, libusb_error_name(got));
  if (!decode_reply(std::span<const std::byte>(reply).first(static_cast<size_t>(got))))
    return make_error(Code::kUnsupported,
                      "usb:%s: an answer of %d bytes that is none of ours; is it an Outrider of "
                      "another version?",
                      serial, got);
  return {};
}

void LibusbPort::close_session() noexcept {
  std::byte reply[kSessionReplyBytes];
  ask(kSessionClose, reply, kControlTimeoutMs);
}

void LIBUSB_CALL LibusbPort::came_back(libusb_transfer* transfer) {
  Slot& slot = *static_cast<Slot*>(transfer->user_data);
  LibusbPort& port = *slot.port;
  slot.pending = false;
  TransferDone done;
  done.write = slot.write;
  done.status = status_of(transfer->status);
  done.slot = slot.index;
  done.bytes = static_cast<uint32_t>(std::max(0, transfer->actual_length));
  std::lock_guard lock(port.done_mutex_);
  port.done_.push_back(done);
  --port.n_pending_;
}

int LibusbPort::submit(Slot& slot, uint8_t endpoint, std::byte* memory, size_t bytes, uint8_t flags,
                       unsigned timeout_ms) noexcept {
  OUTRIDER_ASSERT(!slot.pending);
  libusb_fill_bulk_transfer(slot.transfer, handle_, endpoint,
                            reinterpret_cast<unsigned char*>(memory), static_cast<int>(bytes),
                            came_back, &slot, timeout_ms);
  slot.transfer->flags = flags;
  slot.pending = true;
  ++n_pending_;
  const int error = libusb_submit_transfer(slot.transfer);
  if (error == 0) return 0;
  slot.pending = false;
  --n_pending_;
  return -errno_of(error);
}

int LibusbPort::post_read(uint32_t slot, std::span<std::byte> into) noexcept {
  return submit(reads_[slot], pair_.in, into.data(), into.size(), 0, 0);
}

int LibusbPort::start_write(uint32_t slot, std::span<const std::byte> from, bool zero_packet,
                            int64_t timeout_ns) noexcept {
  const auto timeout_ms = static_cast<unsigned>(std::max<int64_t>(1, timeout_ns / kMillisecond));
  return submit(writes_[slot], pair_.out, const_cast<std::byte*>(from.data()), from.size(),
                zero_packet ? LIBUSB_TRANSFER_ADD_ZERO_PACKET : 0, timeout_ms);
}

void LibusbPort::take_done(std::span<TransferDone> done, size_t& n) noexcept {
  std::lock_guard lock(done_mutex_);
  for (; n < done.size() && !done_.empty(); ++n) {
    done[n] = done_.front();
    done_.pop_front();
  }
}

size_t LibusbPort::wait(std::span<TransferDone> done, int64_t until_ns) noexcept {
  size_t n = 0;
  for (;;) {
    take_done(done, n);
    const int64_t left_ns = until_ns - now_ns();
    if (n > 0 || left_ns <= 0) return n;
    timeval left{left_ns / kSecond, left_ns % kSecond / 1000};
    // Anything but a time-out here would come back at once, again and again.
    if (libusb_handle_events_timeout_completed(context_, &left, nullptr) != 0)
      ::usleep(static_cast<useconds_t>(std::min<int64_t>(left_ns / 1000, 10'000)));
  }
}

void LibusbPort::cancel_all() noexcept {
  for (Slot& slot : reads_)
    if (slot.pending) libusb_cancel_transfer(slot.transfer);
  for (Slot& slot : writes_)
    if (slot.pending) libusb_cancel_transfer(slot.transfer);
}

// The node is there and still stands for the device that was opened.
bool LibusbPort::present() const noexcept {
  struct stat facts {};
  return ::stat(device_.node.c_str(), &facts) == 0 && facts.st_rdev == node_device_;
}

}  // namespace

Result<std::unique_ptr<HostPort>> open_libusb_port(const FoundDevice& device,
                                                   const SysPaths& paths) {
  auto port = std::make_unique<LibusbPort>(device, paths);
  OUTRIDER_TRY(port->open(paths));
  return std::unique_ptr<HostPort>(std::move(port));
}

}  // namespace outrider::link::usb
