#include "link/transport/usb/link_power.h"

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "link/transport/usb/gadget_setup.h"

namespace outrider::link::usb {

LinkPower::LinkPower(const std::string& device) : path_(device + "/port/usb3_lpm_permit") {}

void LinkPower::switch_off() noexcept {
  if (is_off_) return;
  int error = linux_setup().read(path_, found_);
  if (error == 0 && found_ == "0") return;  // off already, and not by us
  if (error == 0) error = linux_setup().write(path_, "0");
  is_off_ = error == 0;
  if (told_) return;
  told_ = true;
  if (is_off_)
    log_line(LogLevel::kInfo, "usb: link power saving off at %s", path_.c_str());
  else
    log_line(LogLevel::kInfo, "usb: link power saving stays as it is (%s: %s)", path_.c_str(),
             std::strerror(-error));
}

void LinkPower::restore() noexcept {
  if (!is_off_) return;
  is_off_ = false;
  if (const int error = linux_setup().write(path_, found_); error != 0 && error != -ENOENT)
    log_line(LogLevel::kInfo, "usb: link power saving stays off (%s: %s)", path_.c_str(),
             std::strerror(-error));
}

}  // namespace outrider::link::usb
