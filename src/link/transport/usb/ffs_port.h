// GadgetPort on FunctionFS: ep0, ep1 (host to device) and ep2 (device to host) of a mount, the
// controller's state file, and the gadget's UDC attribute.
#pragma once
#include <memory>

#include "link/transport/usb/gadget_port.h"
#include "link/transport/usb/gadget_setup.h"

namespace outrider::link::usb {

// A gadget whose ep0 can be handed to another process, and what that process must know.
struct LentGadget {
  GadgetPlace place;
  int ep0 = -1, udc = -1;  // of the lender; a borrower owns the copies it got
  bool enabled = false, opened = false;
  uint32_t n_sessions = 0;
};
class LendablePort : public GadgetPort {
 public:
  // [any] The descriptors stay this port's. The lender asks for no event until it has them back.
  virtual LentGadget lend() const noexcept = 0;
  // What a borrower saw, that gave the gadget back as it was: on the bus, no session begun.
  virtual void take_back(bool enabled, bool opened, uint32_t n_sessions) noexcept = 0;
};

// [setup] Opens ep0 and writes descriptors and strings; the gadget is ready to be bound. Errors:
// kDevice (another process has ep0; the kernel refuses the descriptors).
Result<std::unique_ptr<LendablePort>> open_ffs_port(const GadgetPlace& place);

// [setup] A borrower's port: the gadget is bound, and what the host did before the loan comes as
// its first events. Takes both descriptors. Errors: kDevice (kernel AIO refused).
Result<std::unique_ptr<LendablePort>> adopt_ffs_port(const LentGadget& lent);

// Nominal speed of what the controller is connected to, Mbit/s; 0 unknown.
uint32_t controller_speed_mbit_s(const GadgetPlace& place);

}  // namespace outrider::link::usb
