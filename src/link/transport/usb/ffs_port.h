// GadgetPort on FunctionFS: ep0, ep1 (host to device) and ep2 (device to host) of a mount, the
// controller's state file, and the gadget's UDC attribute.
#pragma once
#include <memory>

#include "link/transport/usb/gadget_port.h"
#include "link/transport/usb/gadget_setup.h"

namespace outrider::link::usb {

// [setup] Opens ep0 and writes descriptors and strings; the gadget is ready to be bound. Errors:
// kDevice (another process has ep0; the kernel refuses the descriptors).
Result<std::unique_ptr<GadgetPort>> open_ffs_port(const GadgetPlace& place);

// Nominal speed of what the controller is connected to, Mbit/s; 0 unknown.
uint32_t controller_speed_mbit_s(const GadgetPlace& place);

}  // namespace outrider::link::usb
