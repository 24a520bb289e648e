// register_usb_host: the listener over sysfs and libusb.
#include "link/transport/usb/host_listener.h"
#include "link/transport/usb/libusb_port.h"
#include "link/transport/usb/usb_gadget.h"

namespace outrider::link::usb {
namespace {

class LinuxBus final : public HostBus {
 public:
  std::vector<FoundDevice> find() override { return find_devices(paths_); }
  Result<FoundDevice> choose(const std::vector<FoundDevice>& found,
                             const std::string& serial) override {
    return choose_device(found, serial, paths_);
  }
  Result<std::unique_ptr<HostPort>> open(const FoundDevice& device) override {
    return open_libusb_port(device, paths_);
  }

 private:
  const SysPaths paths_{};
};

Result<std::unique_ptr<Listener>> listen_host(const Endpoint& endpoint) {
  return make_host_listener(std::make_unique<LinuxBus>(), endpoint.name, HostTimers{});
}

}  // namespace

void register_usb_host() {
  TransportMaker maker = usb_gadget_maker();
  maker.listen = listen_host;
  register_transport(maker);
}

}  // namespace outrider::link::usb
