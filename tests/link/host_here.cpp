#include "link/host_here.h"

#include <cstring>
#include <vector>

#include "outrider/ext/status.h"

namespace outrider::link::here {

const Clock& clock_here() {
  static constinit const MonotonicClock kClock;
  return kClock;
}

std::string provider(const char* name) {
  return std::string(OUTRIDER_BUILD_DIR) + "/lib/provider_" + name + ".so";
}

uint16_t port_of(const std::string& endpoint) {
  return static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
}

int64_t counter(const Runtime& runtime, const char* name) {
  const void* table = nullptr;
  const frt_model_runtime_v1& face = runtime.face();
  if (face.query_extension(&face, OUTRIDER_EXT_STATUS, 1, &table) != 0) return -1;
  const auto* status = static_cast<const outrider_status_v1*>(table);
  std::vector<outrider_counter_v1> all(status->read(status->self, nullptr, 0));
  status->read(status->self, all.data(), all.size());
  for (const auto& c : all)
    if (std::strcmp(c.name, name) == 0) return c.value;
  return -1;
}

std::unique_ptr<Runtime> open(const std::string& provider_path, const std::string& config) {
  auto runtime = ProviderSource(provider_path, config).open();
  EXPECT_TRUE(runtime) << runtime.error().text;
  return runtime ? std::move(runtime.value()) : nullptr;
}

Host::Host(const std::string& config, const std::string& listen, ServerOptions options,
           const std::string& provider_path) {
  auto models = std::make_unique<Models>(options.models, clock_here());
  const auto added =
      models->add("default", std::make_unique<ProviderSource>(provider_path, config), true);
  EXPECT_TRUE(added) << added.error().text;
  options.listen = {listen};
  auto started = Server::start(options, std::move(models), clock_here());
  EXPECT_TRUE(started) << started.error().text;
  if (!started) return;
  server = std::move(started.value());
  endpoint = server->endpoints()[0];
}

std::string Host::remote(const std::string& more) const {
  return "{\"model_family\":\"remote\",\"endpoint\":\"" + endpoint + "\",\"model\":\"default\"" +
         more + "}";
}

}  // namespace outrider::link::here
