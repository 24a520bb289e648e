#include <cstring>

#include "base/log.h"
#include "link/transport/usb/limits.h"
#include "owner/holder.h"

namespace outrider::owner {

using namespace link::usb;

UsbHolder::UsbHolder(SetupSystem& setup, GadgetSettings settings, std::string serial,
                     OpenPort open_port)
    : setup_(setup),
      settings_(std::move(settings)),
      serial_(std::move(serial)),
      open_port_(std::move(open_port)) {}

Result<void> UsbHolder::open() {
  if (port_ != nullptr) return {};
  auto place = make_gadget(setup_, settings_, serial_);
  if (!place) return place.error();
  auto port = open_port_(place.value());
  if (!port) {
    remove_gadget(setup_, settings_);
    return port.error();
  }
  place_ = place.value();
  port_ = std::move(port.value());
  on_bus_ = told_ = false;
  back_ns_ = 0;
  log_line(LogLevel::kInfo, "owner: usb:%s on controller %s", serial_.c_str(),
           place_.controller.c_str());
  return {};
}

void UsbHolder::close() {
  if (port_ == nullptr) return;
  (void)port_->unbind();
  port_.reset();
  on_bus_ = false;
  remove_gadget(setup_, settings_);
}

void UsbHolder::get_on_bus(int64_t now_ns) {
  if (on_bus_ || now_ns < back_ns_) return;
  const int error = port_->bind();
  on_bus_ = error == 0;
  if (error != 0 && !told_)
    log_line(LogLevel::kWarn, "owner: usb:%s cannot be put on the bus: %s", serial_.c_str(),
             std::strerror(-error));
  told_ = error != 0;
  if (error != 0) back_ns_ = now_ns + kOpenRetryNs;
}

Result<Loan> UsbHolder::lend() {
  if (port_ == nullptr) return make_error(Code::kNotReady, "the gadget is not there yet");
  if (!on_bus_) return make_error(Code::kNotReady, "the gadget is off the bus for a moment");
  const LentGadget lent = port_->lend();
  Loan loan;
  loan.reply.ok = true;
  loan.reply.medium = Medium::kUsb;
  loan.reply.gadget = place_.gadget;
  loan.reply.mount = place_.mount;
  loan.reply.controller = place_.controller;
  loan.reply.controllers = place_.controllers;
  loan.reply.serial = serial_;
  loan.reply.enabled = lent.enabled;
  loan.reply.opened = lent.opened;
  loan.reply.n_sessions = lent.n_sessions;
  loan.descriptors = {lent.ep0, lent.udc};
  loan.n_descriptors = 2;
  return loan;
}

// Only leaving the bus ends what a dead borrower may have left in the controller's queue.
void UsbHolder::take_back(int64_t now_ns) {
  if (port_ == nullptr) return;
  if (const int error = port_->unbind(); error != 0)
    log_line(LogLevel::kWarn, "owner: usb:%s cannot leave the bus: %s", serial_.c_str(),
             std::strerror(-error));
  on_bus_ = false;
  back_ns_ = now_ns + kOffBusNs;
}

void UsbHolder::returned_unused(const Request& seen) {
  if (port_ == nullptr) return;
  port_->take_back(seen.enabled, seen.opened, static_cast<uint32_t>(seen.n_sessions));
}

Result<void> UsbHolder::bounce(int64_t now_ns) {
  if (port_ == nullptr) return make_error(Code::kNotReady, "the gadget is not there");
  take_back(now_ns);
  return {};
}

void UsbHolder::step(int64_t now_ns, bool lent) {
  if (port_ == nullptr) return;
  get_on_bus(now_ns);
  if (lent) return;  // its events are the borrower's
  for (int i = 0; i < 16; ++i) {
    const HostEvent event = port_->next_event(0);
    if (event == HostEvent::kNone) return;
    if (event != HostEvent::kDead) continue;
    log_line(LogLevel::kError, "owner: usb:%s: the control endpoint failed; made anew",
             serial_.c_str());
    return close();
  }
}

bool UsbHolder::controller_says(const char* state) {
  std::string text;
  return setup_.read(place_.controllers + "/" + place_.controller + "/state", text) == 0 &&
         text == state;
}

Presence UsbHolder::presence() {
  Presence now;
  if (port_ == nullptr) return now;
  now.here = on_bus_ && controller_says("configured");
  now.program = now.here && port_->lend().opened;
  if (now.here) now.speed_mbit_s = controller_speed_mbit_s(place_);
  return now;
}

int UsbHolder::descriptor() const {
  return port_ == nullptr ? -1 : port_->lend().ep0;
}

}  // namespace outrider::owner
