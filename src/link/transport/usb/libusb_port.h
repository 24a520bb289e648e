// HostPort on libusb: one context and one event loop per opened device. The device node is opened
// by ourselves, so that the reason of a refusal is the system's own, and handed to the library,
// which therefore needs neither enumeration nor a udev daemon.
#pragma once
#include <memory>

#include "link/transport/usb/host_find.h"
#include "link/transport/usb/host_port.h"

namespace outrider::link::usb {

// [setup] Opens, finds the bulk pair, claims the interface. Errors: those of explain_open and
// find_bulk_pair.
Result<std::unique_ptr<HostPort>> open_libusb_port(const FoundDevice& device,
                                                   const SysPaths& paths);

}  // namespace outrider::link::usb
