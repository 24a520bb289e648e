#include "link/transport/usb/ffs_port.h"

#include <fcntl.h>
#include <linux/usb/functionfs.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "link/transport/usb/descriptors.h"
#include "link/transport/usb/kernel_aio.h"
#include "link/transport/usb/wait.h"

namespace outrider::link::usb {
namespace {

// A request that is none of ours is refused by moving data the other way than it asks.
void stall(int ep0, const usb_ctrlrequest& request) {
  const bool in = (request.bRequestType & USB_DIR_IN) != 0;
  [[maybe_unused]] const ssize_t unused = in ? ::read(ep0, nullptr, 0) : ::write(ep0, nullptr, 0);
}

class FfsPort final : public LendablePort {
 public:
  explicit FfsPort(const GadgetPlace& place)
      : place_(place), state_path_(place.controllers + "/" + place.controller + "/state") {}
  ~FfsPort() override;
  Result<void> open();
  Result<void> adopt(const LentGadget& lent);
  LentGadget lend() const noexcept override {
    return {place_, ep0_, udc_, enabled_, opened_, n_sessions_};
  }
  void take_back(bool enabled, bool opened, uint32_t n_sessions) noexcept override {
    enabled_ = enabled;
    opened_ = enabled && opened;
    n_sessions_ = n_sessions;
  }

  bool configured() noexcept override;
  HostEvent next_event(int64_t until_ns) noexcept override;
  int open_endpoints() noexcept override;
  void close_endpoints() noexcept override;
  long read(std::span<std::byte> into) noexcept override {
    const ssize_t got = ::read(out_, into.data(), into.size());
    return got < 0 ? -errno : got;
  }
  long submit(std::span<const Piece> pieces, size_t offset, size_t bytes) noexcept override {
    return aio_.submit(in_, pieces, offset, bytes);
  }
  long reap(int64_t until_ns) noexcept override { return aio_.reap(until_ns); }
  uint32_t n_unfinished() const noexcept override { return aio_.n_unfinished(); }
  uint64_t n_copied_bytes() const noexcept override { return aio_.n_gathered_bytes(); }
  void wake_events() noexcept override {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(wake_, &one, sizeof one);
  }
  void wake_writes() noexcept override { aio_.wake(); }
  void calm_writes() noexcept override { aio_.calm(); }
  int unbind() noexcept override;
  int bind() noexcept override;

 private:
  Result<void> open_basics();
  int write_udc(std::string_view text) noexcept;
  HostEvent event_of(const usb_functionfs_event& event) noexcept;
  HostEvent answer(const usb_ctrlrequest& request) noexcept;

  const GadgetPlace place_;
  const std::string state_path_;
  int ep0_ = -1, udc_ = -1, out_ = -1, in_ = -1, wake_ = -1;
  KernelAio aio_;
  std::atomic<bool> enabled_{false};
  bool opened_ = false, bound_ = false;
  uint32_t n_sessions_ = 0;
  HostEvent early_[2] = {HostEvent::kNone, HostEvent::kNone};  // happened before the loan
  static constexpr size_t kEvents = 8;
  usb_functionfs_event events_[kEvents] = {};
  size_t n_events_ = 0, next_event_ = 0;
};

Result<void> FfsPort::open_basics() {
  OUTRIDER_TRY(aio_.open());
  wake_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return {};
}

Result<void> FfsPort::adopt(const LentGadget& lent) {
  ep0_ = lent.ep0;
  udc_ = lent.udc;
  bound_ = true;
  n_sessions_ = lent.n_sessions;
  if (lent.enabled) early_[0] = HostEvent::kEnabled;
  if (lent.enabled && lent.opened) early_[1] = HostEvent::kOpened;
  enabled_ = lent.enabled;
  return open_basics();
}

Result<void> FfsPort::open() {
  OUTRIDER_TRY(open_basics());
  // Kept open, so that a borrower without the right to open it can leave the bus.
  udc_ = ::open((place_.gadget + "/UDC").c_str(), O_WRONLY | O_CLOEXEC);
  if (udc_ < 0)
    return make_error(Code::kDevice, "usb gadget: cannot open %s/UDC: %s", place_.gadget.c_str(),
                      std::strerror(errno));
  const std::string path = place_.mount + "/ep0";
  ep0_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (ep0_ < 0)
    return make_error(Code::kDevice, "usb gadget: cannot open %s: %s%s", path.c_str(),
                      std::strerror(errno),
                      errno == EBUSY ? "; another process has it, or the controller never gave an "
                                       "endpoint back (only a reboot helps then)"
                                     : "");
  const auto descriptors = descriptor_blob();
  const auto strings = string_blob();
  for (const auto blob :
       {std::span<const std::byte>(descriptors), std::span<const std::byte>(strings)}) {
    const ssize_t put = ::write(ep0_, blob.data(), blob.size());
    if (put != static_cast<ssize_t>(blob.size()))
      return make_error(Code::kDevice, "usb gadget: %s refuses %zu bytes of %s: %s", path.c_str(),
                        blob.size(), blob.size() == descriptors.size() ? "descriptors" : "strings",
                        std::strerror(errno));
  }
  return {};
}

FfsPort::~FfsPort() {
  close_endpoints();
  for (const int fd : {ep0_, udc_, wake_})
    if (fd >= 0) ::close(fd);
}

bool FfsPort::configured() noexcept {
  if (!enabled_) return false;
  char state[32] = {};
  const int fd = ::open(state_path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  [[maybe_unused]] const ssize_t got = ::read(fd, state, sizeof state - 1);
  ::close(fd);
  return std::strncmp(state, "configured", 10) == 0;
}

int FfsPort::open_endpoints() noexcept {
  // O_NONBLOCK is ignored once the endpoint is enabled; before that it keeps an open or a read
  // that comes too early from sleeping.
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NONBLOCK;
  out_ = ::open((place_.mount + "/ep1").c_str(), kFlags);
  const int out_error = errno;
  in_ = out_ < 0 ? -1 : ::open((place_.mount + "/ep2").c_str(), kFlags);
  if (out_ >= 0 && in_ >= 0) return 0;
  const int error = out_ < 0 ? out_error : errno;
  close_endpoints();
  return -error;
}

void FfsPort::close_endpoints() noexcept {
  for (int* fd : {&out_, &in_}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
}

int FfsPort::write_udc(std::string_view text) noexcept {
  ssize_t put = 0;
  do put = ::pwrite(udc_, text.data(), text.size(), 0);
  while (put < 0 && errno == EINTR);
  return put == static_cast<ssize_t>(text.size()) ? 0 : put < 0 ? -errno : -EIO;
}

int FfsPort::bind() noexcept {
  if (bound_) return 0;  // lent while it was on the bus
  const int error = write_udc(place_.controller);
  bound_ = error == 0;
  return error;
}

int FfsPort::unbind() noexcept {
  enabled_ = false;
  opened_ = bound_ = false;
  for (HostEvent& event : early_) event = HostEvent::kNone;
  const int error = write_udc("\n");
  return error == -ENODEV ? 0 : error;  // was not on the bus
}

HostEvent FfsPort::answer(const usb_ctrlrequest& request) noexcept {
  const bool ours = request.bRequestType == kSessionRequestType &&
                    (request.bRequest == kSessionOpen || request.bRequest == kSessionClose);
  if (!ours) {
    stall(ep0_, request);
    return HostEvent::kStalled;
  }
  const bool opens = request.bRequest == kSessionOpen;
  if (opens) ++n_sessions_;
  opened_ = opens;
  const auto reply = encode(SessionReply{.session = std::max(n_sessions_, 1u)});
  const size_t bytes = std::min<size_t>(reply.size(), request.wLength);
  const ssize_t put = ::write(ep0_, reply.data(), bytes);
  if (put < 0) return HostEvent::kStalled;  // the host took its question back
  return opens ? HostEvent::kOpened : HostEvent::kClosed;
}

HostEvent FfsPort::event_of(const usb_functionfs_event& event) noexcept {
  switch (event.type) {
    case FUNCTIONFS_ENABLE:
      enabled_ = true;
      opened_ = false;
      return HostEvent::kEnabled;
    case FUNCTIONFS_UNBIND:
    case FUNCTIONFS_DISABLE:
      enabled_ = opened_ = false;
      return HostEvent::kDisabled;
    case FUNCTIONFS_SUSPEND:
      return HostEvent::kSuspended;
    case FUNCTIONFS_RESUME:
      return HostEvent::kResumed;
    case FUNCTIONFS_SETUP:
      return answer(event.u.setup);
    default:
      return HostEvent::kNone;  // bound
  }
}

HostEvent FfsPort::next_event(int64_t until_ns) noexcept {
  for (HostEvent& event : early_)
    if (event != HostEvent::kNone) return std::exchange(event, HostEvent::kNone);
  for (;;) {
    if (next_event_ < n_events_) return event_of(events_[next_event_++]);
    const int64_t left_ns = std::max<int64_t>(0, until_ns - now_ns());
    pollfd fds[2] = {{ep0_, POLLIN, 0}, {wake_, POLLIN, 0}};
    const int64_t slice_ns = std::min(left_ns, kSecond);
    const timespec timeout{slice_ns / kSecond, slice_ns % kSecond};
    const int ready = ::ppoll(fds, 2, &timeout, nullptr);
    if (ready <= 0 || fds[0].revents == 0) {
      if (fds[1].revents != 0 || now_ns() >= until_ns) return HostEvent::kNone;
      continue;
    }
    const ssize_t got = ::read(ep0_, events_, sizeof events_);
    if (got <= 0) {
      // EIDRM: a request was overtaken by another; the events say what happened.
      if (got < 0 && (errno == EAGAIN || errno == EINTR || errno == EIDRM)) return HostEvent::kNone;
      log_line(LogLevel::kError, "usb gadget: ep0 failed: %s",
               got == 0 ? "closed" : std::strerror(errno));
      return HostEvent::kDead;
    }
    n_events_ = static_cast<size_t>(got) / sizeof events_[0];
    next_event_ = 0;
  }
}

}  // namespace

Result<std::unique_ptr<LendablePort>> open_ffs_port(const GadgetPlace& place) {
  auto port = std::make_unique<FfsPort>(place);
  OUTRIDER_TRY(port->open());
  return std::unique_ptr<LendablePort>(std::move(port));
}

Result<std::unique_ptr<LendablePort>> adopt_ffs_port(const LentGadget& lent) {
  auto port = std::make_unique<FfsPort>(lent.place);
  OUTRIDER_TRY(port->adopt(lent));
  return std::unique_ptr<LendablePort>(std::move(port));
}

uint32_t controller_speed_mbit_s(const GadgetPlace& place) {
  std::string speed;
  linux_setup().read(place.controllers + "/" + place.controller + "/current_speed", speed);
  return speed == "super-speed-plus" ? 10000
         : speed == "super-speed"    ? 5000
         : speed == "high-speed"     ? 480
         : speed == "full-speed"     ? 12
                                     : 0;
}

}  // namespace outrider::link::usb
