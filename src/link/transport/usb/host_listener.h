// The host side as endpoint "usb:SERIAL" to listen on: waits for the device, opens sessions.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "link/transport/transport.h"
#include "link/transport/usb/host_find.h"
#include "link/transport/usb/host_session.h"

namespace outrider::link::usb {

// The bus as the listener sees it: sysfs and libusb, or a script.
class HostBus {
 public:
  virtual ~HostBus() = default;
  virtual std::vector<FoundDevice> find() = 0;
  // Errors: as choose_device.
  virtual Result<FoundDevice> choose(const std::vector<FoundDevice>& found,
                                     const std::string& serial) = 0;
  virtual Result<std::unique_ptr<HostPort>> open(const FoundDevice& device) = 0;
};

// [setup] accept() returns a stream when the device's first byte has come: a device that is opened
// and says nothing is closed again and retried (host_schedule.h) without a word. A device that may
// not be opened is told as kDevice, once per reason. One session at a time: while a stream lives,
// accept() waits; after a broken one, until the line was quiet.
std::unique_ptr<Listener> make_host_listener(std::unique_ptr<HostBus> bus, std::string serial,
                                             const HostTimers& timers);

// [setup] From then on listen_transport() knows "usb:SERIAL", beside the device side. Needs libusb.
void register_usb_host();

}  // namespace outrider::link::usb
