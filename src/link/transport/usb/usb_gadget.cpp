#include "link/transport/usb/usb_gadget.h"

#include <mutex>

#include "base/log.h"
#include "link/transport/usb/ffs_port.h"
#include "link/transport/usb/gadget.h"
#include "link/transport/usb/gadget_setup.h"
#include "link/transport/usb/gadget_stream.h"
#include "link/transport/usb/limits.h"

namespace outrider::link::usb {
namespace {

// The gadget between two streams. Knows whether one is lent out.
class Shelf {
 public:
  ~Shelf() { remove(); }

  Result<std::unique_ptr<Transport>> connect(const std::string& name, int64_t deadline_ns);
  void remove();

 private:
  Result<void> make(const std::string& name);
  void take_back(std::unique_ptr<Gadget> gadget);

  std::mutex mutex_;
  bool lent_ = false, made_ = false;
  std::unique_ptr<Gadget> idle_;
  std::string name_;
  GadgetPlace place_;
  const GadgetSettings settings_{};
};

Shelf& shelf() {
  static Shelf one;
  return one;
}

Result<void> Shelf::make(const std::string& name) {
  if (idle_ && !idle_->dead() && name_ == name) return {};
  idle_.reset();
  const std::string serial = name.empty() ? machine_serial(linux_setup()) : name;
  if (made_) remove_gadget(linux_setup(), settings_);
  made_ = false;
  auto place = make_gadget(linux_setup(), settings_, serial);
  if (!place) return place.error();
  auto port = open_ffs_port(place.value());
  if (!port) {
    remove_gadget(linux_setup(), settings_);
    return port.error();
  }
  made_ = true;
  name_ = name;
  place_ = place.value();
  idle_ = std::make_unique<Gadget>(std::move(port.value()), serial, GadgetTimers::standard());
  log_line(LogLevel::kInfo, "usb:%s: gadget made on controller %s", serial.c_str(),
           place_.controller.c_str());
  return {};
}

Result<std::unique_ptr<Transport>> Shelf::connect(const std::string& name, int64_t deadline_ns) {
  std::lock_guard lock(mutex_);
  if (lent_)
    return make_error(Code::kDevice,
                      "usb:%s: the gadget of this process is in use; one link at a "
                      "time",
                      name.c_str());
  OUTRIDER_TRY(make(name));
  OUTRIDER_TRY(idle_->wait_session(deadline_ns));
  GadgetStreamOptions options;
  options.reader_priority = kReaderPriority;
  options.speed_mbit_s = controller_speed_mbit_s(place_);
  options.take_back = [this](std::unique_ptr<Gadget> gadget) { take_back(std::move(gadget)); };
  lent_ = true;
  return make_gadget_stream(std::move(idle_), std::move(options));
}

void Shelf::take_back(std::unique_ptr<Gadget> gadget) {
  std::lock_guard lock(mutex_);
  lent_ = false;
  idle_ = std::move(gadget);
}

void Shelf::remove() {
  std::lock_guard lock(mutex_);
  if (lent_) return;  // the kernel unbinds it when its files close
  idle_.reset();
  if (made_) remove_gadget(linux_setup(), settings_);
  made_ = false;
}

Result<std::unique_ptr<Transport>> connect_gadget(const Endpoint& endpoint, int64_t deadline_ns) {
  return shelf().connect(endpoint.name, deadline_ns);
}

}  // namespace

TransportMaker usb_gadget_maker() {
  TransportMaker maker;
  maker.kind = TransportKind::kUsb;
  maker.connect = connect_gadget;
  return maker;
}

void register_usb_gadget() {
  register_transport(usb_gadget_maker());
}

void remove_usb_gadget() {
  shelf().remove();
}

}  // namespace outrider::link::usb
