#include "cli/link_host.h"

#include <sys/random.h>
#include <unistd.h>

#include <mutex>
#include <optional>

#include "link/secure/secure.h"
#include "owner/borrow/lease.h"

namespace outrider::cli {
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

}  // namespace

Result<std::unique_ptr<link::Dialer>> make_dialer(std::string_view endpoint,
                                                  const std::string& key_file) {
  static std::once_flag usb_known;
  std::call_once(usb_known, [] { owner::register_owned_usb(); });
  auto parsed = link::parse_endpoint(endpoint);
  if (!parsed) return parsed.error();
  std::optional<link::SharedKey> key;
  if (!key_file.empty()) {
    auto read = link::read_key_file(key_file);
    if (!read) return read.error();
    key = read.value();
  }
  return std::unique_ptr<link::Dialer>(std::make_unique<EndpointDialer>(parsed.value(), key));
}

link::DeviceName link_name(uint64_t features) {
  link::DeviceName name;
  char host[65] = {};
  if (::gethostname(host, sizeof host - 1) == 0) name.name = host;
  while (name.client_id == 0)
    if (::getrandom(&name.client_id, sizeof name.client_id, 0) != sizeof name.client_id)
      name.client_id = static_cast<uint64_t>(link::steady_now_ns());
  name.features = features;
  return name;
}

}  // namespace outrider::cli
