#include "link/transport/usb/gadget.h"

#include <cstring>

#include "base/log.h"
#include "link/transport/usb/limits.h"
#include "link/transport/usb/wait.h"

namespace outrider::link::usb {

const char* host_event_name(HostEvent event) {
  static constexpr const char* kNames[] = {"none",      "enabled", "disabled", "opened", "closed",
                                           "suspended", "resumed", "stalled",  "dead"};
  return kNames[static_cast<size_t>(event)];
}

bool EndpointErrors::again(int error, int64_t at_ns) const noexcept {
  const bool not_ready = error == ENODEV || error == EIO || error == ESHUTDOWN || error == EAGAIN;
  return error == EINTR ||
         (not_ready && !seen_.load(std::memory_order_relaxed) && at_ns < until_ns_);
}

Io GadgetState::on(HostEvent event) noexcept {
  const bool was_open = open_;
  switch (event) {
    case HostEvent::kEnabled: {
      ++n_enabled_;
      const bool again = enabled_;  // configured twice without a goodbye: the host began anew
      enabled_ = true;
      open_ = false;
      return was_open && again ? Io::kReset : Io::kDone;
    }
    case HostEvent::kDisabled:
      enabled_ = open_ = false;
      return was_open ? Io::kGone : Io::kDone;
    case HostEvent::kOpened:
      open_ = enabled_;
      // The old session's host is gone without a word. The new one has to come again after our
      // next turn on the bus.
      return was_open ? Io::kReset : Io::kDone;
    case HostEvent::kClosed:
      open_ = false;
      return was_open ? Io::kClosed : Io::kDone;
    case HostEvent::kDead:
      dead_ = true;
      enabled_ = open_ = false;
      return was_open ? Io::kGone : Io::kDone;
    case HostEvent::kNone:
    case HostEvent::kSuspended:
    case HostEvent::kResumed:
    case HostEvent::kStalled:
      return Io::kDone;
  }
  return Io::kDone;
}

GadgetTimers GadgetTimers::standard() noexcept {
  return {kOffBusNs, kEnableGraceNs, kCloseFlushNs, kCloseAbortNs, kCloseJoinNs};
}

Gadget::Gadget(std::unique_ptr<GadgetPort> port, std::string serial, const GadgetTimers& timers)
    : port_(std::move(port)), serial_(std::move(serial)), timers_(timers) {
  events_ = std::thread([this] { follow_events(); });
}

Gadget::~Gadget() {
  if (port_ == nullptr) return;
  end_session();
  stop_ = true;
  port_->wake_events();
  events_.join();
}

std::unique_ptr<GadgetPort> Gadget::release() noexcept {
  stop_ = true;
  port_->wake_events();
  events_.join();
  on_bus_ = false;
  return std::move(port_);
}

void Gadget::follow_events() noexcept {
  while (!stop_) {
    const HostEvent event = port_->next_event(soon_ns(kEventSliceNs));
    if (event == HostEvent::kNone) continue;
    std::lock_guard lock(mutex_);
    log_line(LogLevel::kDebug, "usb gadget %s: %s", serial_.c_str(), host_event_name(event));
    const Io end = state_.on(event);
    if (end != Io::kDone) {
      if (follower_ != nullptr)
        follower_->session_ended(end);
      else
        early_end_ = end;
    }
    changed_.notify_all();
    if (event == HostEvent::kDead) return;
  }
}

Result<void> Gadget::get_on_bus(int64_t deadline_ns) {
  if (on_bus_) return {};
  // A host that polls, or a hub, must see the device gone before it comes back.
  if (left_bus_ns_ != INT64_MIN) {
    const int64_t back_ns = left_bus_ns_ + timers_.off_bus_ns;
    std::unique_lock lock(mutex_);
    wait_until(changed_, lock, back_ns < deadline_ns ? back_ns : deadline_ns, [] { return false; });
    if (now_ns() < back_ns)
      return make_error(Code::kNotReady, "usb:%s: still off the bus after the last session",
                        serial_.c_str());
  }
  if (const int error = port_->bind(); error != 0)
    return make_error(Code::kDevice, "usb:%s: cannot put the gadget on its controller: %s",
                      serial_.c_str(), std::strerror(-error));
  on_bus_ = true;
  return {};
}

Result<void> Gadget::wait_session(int64_t deadline_ns) {
  OUTRIDER_TRY(get_on_bus(deadline_ns));
  {
    std::unique_lock lock(mutex_);
    wait_until(changed_, lock, deadline_ns, [&] { return state_.open() || state_.dead(); });
    if (state_.dead())
      return make_error(Code::kDevice, "usb:%s: the gadget's control endpoint failed",
                        serial_.c_str());
    if (!state_.open()) {
      return make_error(Code::kNotReady, "usb:%s: %s; %s", serial_.c_str(),
                        state_.enabled() ? "a host is plugged in but no program opened the link"
                                         : "no host has configured the device",
                        state_.enabled() ? "start `outrider serve` there"
                                         : "check the cable and that the port is in device role");
    }
  }
  const EndpointErrors errors(now_ns(), timers_.enable_grace_ns);
  for (;;) {
    // The state file can lag behind ep0; opening too early would cost the controller.
    const int error = port_->configured() ? port_->open_endpoints() : -EAGAIN;
    if (error == 0) break;
    const int64_t now = now_ns();
    if (now >= deadline_ns)
      return make_error(Code::kNotReady, "usb:%s: the endpoints do not open: %s", serial_.c_str(),
                        std::strerror(-error));
    if (!errors.again(-error, now))
      return make_error(Code::kDevice, "usb:%s: the endpoints do not open: %s%s", serial_.c_str(),
                        std::strerror(-error), error == -EBUSY ? "; another process has them" : "");
    std::unique_lock lock(mutex_);
    wait_until(changed_, lock, soon_ns(kEnablePollNs, deadline_ns), [] { return false; });
  }
  endpoints_open_ = true;
  return {};
}

void Gadget::follow(SessionEnd* end) noexcept {
  std::lock_guard lock(mutex_);
  follower_ = end;
  if (end == nullptr) return;
  if (early_end_ != Io::kDone)
    end->session_ended(early_end_);
  else if (!state_.open())
    end->session_ended(Io::kGone);
}

void Gadget::leave_bus() noexcept {
  follow(nullptr);
  if (on_bus_) {
    if (const int error = port_->unbind(); error != 0)
      log_line(LogLevel::kWarn, "usb:%s: cannot leave the bus: %s", serial_.c_str(),
               std::strerror(-error));
    on_bus_ = false;
    left_bus_ns_ = now_ns();
  }
  std::lock_guard lock(mutex_);
  state_.left_bus();
  early_end_ = Io::kDone;
}

void Gadget::end_session() noexcept {
  leave_bus();
  if (endpoints_open_) port_->close_endpoints();
  endpoints_open_ = false;
}

bool Gadget::dead() const noexcept {
  std::lock_guard lock(mutex_);
  return state_.dead();
}

}  // namespace outrider::link::usb
