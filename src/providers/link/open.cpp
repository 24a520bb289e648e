// The one exported symbol of provider_link.so.
#include <sys/random.h>
#include <unistd.h>

#include <mutex>
#include <optional>

#include "abi/provider.h"
#include "link/secure/secure.h"
#include "owner/borrow/lease.h"
#include "providers/link/provider.h"

namespace outrider {
namespace {

class EndpointDialer final : public link::Dialer {
 public:
  EndpointDialer(link::Endpoint endpoint, std::optional<link::SharedKey> key)
      : endpoint_(std::move(endpoint)), key_(key) {}
  Result<std::unique_ptr<link::Transport>> dial(int64_t deadline_ns) override {
    auto plain = link::connect_transport(endpoint_, deadline_ns);
    if (!plain || !key_) return plain;
    return link::secure_as_device(std::move(plain.value()), *key_, deadline_ns);
  }

 private:
  link::Endpoint endpoint_;
  std::optional<link::SharedKey> key_;
};

link::DeviceName device_name() {
  link::DeviceName name;
  char host[65] = {};
  ::gethostname(host, sizeof host - 1);
  name.name = host;
  while (name.client_id == 0)
    if (::getrandom(&name.client_id, sizeof name.client_id, 0) != sizeof name.client_id)
      name.client_id = static_cast<uint64_t>(link::steady_now_ns());
  return name;
}

const Clock& clock() {
  static constinit const MonotonicClock kClock;
  return kClock;
}

Result<frt_model_runtime_v1*> open_jetlink(const RemoteConfig& config,
                                           const link::Endpoint& endpoint) {
  link::jetlink::DeviceConfig device_config;
  device_config.model = config.model;
  device_config.deadline_ns = config.deadline_ms * 1'000'000;
  device_config.connect_ns = config.connect_ms * 1'000'000;
  device_config.ready_ns = config.build_ms * 1'000'000;
  device_config.frame_skip = static_cast<uint32_t>(config.frame_skip);
  device_config.pulse = config.pulse;
  device_config.datagrams = config.datagrams;
  device_config.hold_ns = config.datagram_ms * 1'000'000;
  device_config.name = device_name().name;
  auto device = link::jetlink::Device::open(
      device_config,
      [endpoint](int64_t deadline_ns) { return link::connect_transport(endpoint, deadline_ns); },
      clock());
  if (!device) return device.error();
  return publish_jetlink_runtime(std::move(device.value()), config);
}

Result<frt_model_runtime_v1*> open_remote(const Json& json) {
  auto config = read_remote_config(json);
  if (!config) return config.error();
  static std::once_flag usb_known;
  std::call_once(usb_known, [] { owner::register_owned_usb(); });
  auto endpoint = link::parse_endpoint(config.value().endpoint);
  if (!endpoint) return endpoint.error();
  if (config.value().jetlink) return open_jetlink(config.value(), endpoint.value());
  link::DeviceConfig device_config;
  device_config.model = config.value().model;
  device_config.deadline_ns = config.value().deadline_ms * 1'000'000;
  device_config.connect_ns = config.value().connect_ms * 1'000'000;
  device_config.name = device_name();
  std::optional<link::SharedKey> key;
  if (!config.value().key_file.empty()) {
    auto read = link::read_key_file(config.value().key_file);
    if (!read) return read.error();
    key = read.value();
  }
  auto device = link::Device::open(
      device_config, std::make_unique<EndpointDialer>(std::move(endpoint.value()), key), clock());
  if (!device) return device.error();
  return publish_remote_runtime(std::move(device.value()), config.value());
}

}  // namespace
}  // namespace outrider

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out) {
  constexpr outrider::abi::Family kFamilies[] = {{"remote", outrider::open_remote}};
  return outrider::abi::open_provider(config_json, out, kFamilies);
}
