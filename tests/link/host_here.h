// What tests of the link share: a server in this process, a runtime in front of it, its counters.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "link/server/server.h"

namespace outrider::link::here {

inline constexpr int64_t kMs = 1'000'000, kSecond = 1000 * kMs;

const Clock& clock_here();
std::string provider(const char* name);  // path of provider_NAME.so
uint16_t port_of(const std::string& endpoint);
int64_t counter(const Runtime& runtime, const char* name);  // of the status extension, -1: none
// nullptr fails the test.
std::unique_ptr<Runtime> open(const std::string& provider_path, const std::string& config);

// A server with one model, called "default".
struct Host {
  explicit Host(const std::string& config, const std::string& listen = "tcp://127.0.0.1:0",
                ServerOptions options = {}, const std::string& provider_path = provider("fake"));
  uint16_t port() const { return port_of(endpoint); }
  const ServerCounters& counters() const { return server->counters(); }
  // An open configuration for provider_link.so; `more`: ",\"deadline_ms\":100".
  std::string remote(const std::string& more = "") const;

  std::unique_ptr<Server> server;
  std::string endpoint;
};

}  // namespace outrider::link::here
