#include "link/transport/usb/host_listener.h"

#include <algorithm>

#include "base/log.h"
#include "link/transport/usb/host_schedule.h"
#include "link/transport/usb/wait.h"

namespace outrider::link::usb {
namespace {

class HostListener final : public Listener {
 public:
  HostListener(std::unique_ptr<HostBus> bus, std::string serial, const HostTimers& timers)
      : bus_(std::move(bus)),
        serial_(std::move(serial)),
        endpoint_("usb:" + serial_),
        timers_(timers) {}
  ~HostListener() override { drop(); }

  Result<std::unique_ptr<Transport>> accept(int64_t deadline_ns) override;
  void shut() noexcept override {
    std::lock_guard lock(mutex_);
    shut_ = true;
    changed_.notify_all();
  }
  const std::string& endpoint() const noexcept override { return endpoint_; }
  bool local_only() const noexcept override { return false; }

 private:
  void pause(int64_t until_ns);
  bool is_shut();
  Result<void> open_one();
  void drop();
  bool wait_for_last(int64_t until_ns);

  const std::unique_ptr<HostBus> bus_;
  const std::string serial_, endpoint_;
  const HostTimers timers_;
  HostSchedule schedule_;
  std::shared_ptr<HostSession> session_;
  int64_t opened_ns_ = 0;
  bool lent_ = false;  // session_ has a stream somewhere
  uint32_t speed_mbit_s_ = 0;
  std::string told_;    // the reason that was last reported
  std::string unsure_;  // what the device lacked when it was looked at; it may be on its way
  std::mutex mutex_;
  std::condition_variable changed_;
  bool shut_ = false;
};

void HostListener::pause(int64_t until_ns) {
  std::unique_lock lock(mutex_);
  wait_until(changed_, lock, until_ns, [&] { return shut_; });
}

bool HostListener::is_shut() {
  std::lock_guard lock(mutex_);
  return shut_;
}

void HostListener::drop() {
  if (session_ && !lent_) session_->finish();
  // A lent session ends with its stream; only its thread may be waited for here.
  if (session_ && lent_ && session_.use_count() == 1) session_->finish();
  session_.reset();
  lent_ = false;
}

// False: the last session still has its stream or still drops bytes.
bool HostListener::wait_for_last(int64_t until_ns) {
  if (!session_ || !lent_) return true;
  if (!session_->wait_finished(until_ns)) return false;
  session_.reset();
  lent_ = false;
  schedule_.ended_heard(now_ns());
  return true;
}

// Looks for the device and opens it when there is one. An error is one worth telling.
Result<void> HostListener::open_one() {
  const auto found = bus_->find();
  auto device = bus_->choose(found, serial_);
  if (!device && device.code() == Code::kNotFound) {
    schedule_.nothing_there(now_ns());
    told_.clear();
    unsure_.clear();
    return {};
  }
  // Between plug and configuration a device is there without interfaces: told when it stays so.
  if (!device && unsure_ != device.error().text) {
    unsure_ = device.error().text;
    schedule_.nothing_there(now_ns());
    return {};
  }
  Error error = device ? Error{} : device.error();
  if (device) {
    auto port = bus_->open(device.value());
    if (port) {
      auto session = port.value()->open_session();
      if (session) {
        speed_mbit_s_ = device.value().speed_mbit_s;
        session_ =
            std::make_shared<HostSession>(std::move(port.value()), device.value().serial, timers_);
        opened_ns_ = now_ns();
        lent_ = false;
        told_.clear();
        unsure_.clear();
        return {};
      }
      if (session.code() == Code::kNotReady) {  // there, but not yet speaking
        schedule_.ended_silent(now_ns());
        return {};
      }
      error = session.error();
    } else {
      error = port.error();
    }
  }
  schedule_.open_failed(now_ns());
  if (error.code == Code::kNotFound || told_ == error.text) return {};
  told_ = error.text;
  return make_error(Code::kDevice, "%s", error.text);
}

Result<std::unique_ptr<Transport>> HostListener::accept(int64_t deadline_ns) {
  for (;;) {
    if (is_shut()) return make_error(Code::kInvalid, "%s: the listener is shut", endpoint_.c_str());
    const int64_t slice_ns = soon_ns(kEventSliceNs, deadline_ns);
    if (!wait_for_last(slice_ns)) {
      // the stream of the last session is still in use
    } else if (session_) {
      if (session_->wait_first_byte(std::min(slice_ns, opened_ns_ + kFirstWordNs))) {
        lent_ = true;
        return make_host_stream(session_, speed_mbit_s_);
      }
      if (session_->wait_finished(0) || now_ns() >= opened_ns_ + kFirstWordNs) {
        drop();
        schedule_.ended_silent(now_ns());
      }
    } else if (now_ns() >= schedule_.next_open_ns()) {
      OUTRIDER_TRY(open_one());
    } else {
      pause(std::min(schedule_.next_open_ns(), deadline_ns));
    }
    if (now_ns() >= deadline_ns && !is_shut())
      return make_error(Code::kNotReady, "%s: no device opened the link%s%s", endpoint_.c_str(),
                        told_.empty() ? "" : "; ", told_.c_str());
  }
}

}  // namespace

std::unique_ptr<Listener> make_host_listener(std::unique_ptr<HostBus> bus, std::string serial,
                                             const HostTimers& timers) {
  return std::make_unique<HostListener>(std::move(bus), std::move(serial), timers);
}

}  // namespace outrider::link::usb
