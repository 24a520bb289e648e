// A host with a store in this process, a proxy that cuts the cable, and files of known bytes.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cli/link_host.h"
#include "cli/push.h"
#include "link/provision/store_client.h"
#include "link/server/server.h"
#include "link/server/stored_models.h"
#include "link/store/store_fixture.h"
#include "support/temp_dir.h"

namespace outrider::cli_test {

// An empty folder of its own, removed at the end; in memory where the machine has such a place and
// flushing to a disk is not what is tested.
class Folder {
 public:
  explicit Folder(bool in_memory = false);
  std::string at(const std::string& name) const { return dir_.file(name); }
  const std::string& path() const { return dir_.path(); }

 private:
  test::TempDir dir_;
};

inline std::string tcp(uint16_t port) {
  return "tcp://127.0.0.1:" + std::to_string(port);
}
uint16_t port_of(const std::string& endpoint);

// Passes bytes between devices and a host, and breaks connections where it is told to.
class CutProxy {
 public:
  enum class From : uint8_t { kDevice, kHost };
  explicit CutProxy(uint16_t host_port);
  ~CutProxy();
  uint16_t port() const { return port_; }
  // The next connection ends after so many bytes of that side; in order, or with a reset. One call
  // for one connection; those without a call live. `surely`: one that ends earlier does not count.
  void cut(From from, uint64_t after_bytes, bool reset, bool surely = false);
  int n_connections() const { return n_connections_; }

 private:
  struct Cut {
    From from = From::kDevice;
    uint64_t after_bytes = UINT64_MAX;
    bool reset = false, surely = false;
  };
  void accept_all();
  void pass(int device, const Cut& cut);

  const uint16_t host_port_;
  uint16_t port_ = 0;
  int listener_ = -1;
  std::atomic<bool> stop_{false};
  std::atomic<int> n_connections_{0};
  std::mutex lock_;
  std::vector<Cut> cuts_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

// Opens nothing: for hosts that only keep.
Result<std::unique_ptr<link::ModelSource>> no_source(const store::Lease& lease);

struct Host {
  explicit Host(const std::string& folder, const store::Limits& limits = store::small_limits(),
                link::MakeSource make = no_source, link::ModelsLimits models = {},
                const std::string& key_file = "");
  uint16_t port() const { return port_of(server->endpoints().at(0)); }

  MonotonicClock clock;
  std::shared_ptr<store::Store> store;
  std::unique_ptr<link::Server> server;
};

// A device's connection to a store.
struct Client {
  explicit Client(uint16_t port);
  MonotonicClock clock;
  std::unique_ptr<link::Connection> connection;
  std::optional<link::StoreClient> store;
  int64_t soon() const { return clock.now_ns() + 10'000'000'000; }
  // STORE_PUSH and its answer.
  link::wire::StoreState begin(const store::Model& model);
  Result<void> chunk(const store::Model& model, uint64_t from, uint64_t n_bytes);
  // The answer to STORE_END.
  link::wire::StoreState end(uint64_t n_bytes);
};

struct Push {
  Result<void> result;
  cli::PushPlan plan;
  cli::PushOutcome outcome;
};
// As the command does it.
Push push_path(const std::string& path, uint16_t port, int64_t timeout_ns = 10'000'000'000,
               const std::string& key_file = "");
// A key of 32 bytes that only this user may read; its path.
std::string key_file(const Folder& folder);

std::string content(const std::string& path);
// Until `done` says so, 10 s at most.
bool wait_for(const std::function<bool()>& done);

}  // namespace outrider::cli_test
