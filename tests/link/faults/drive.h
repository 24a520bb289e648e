// A device at work over a link that something is done to: every tick has an input nobody used
// before, every answer is compared byte for byte with the same runtime in this process, and every
// verb with its deadline.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "link/server/runtime.h"
#include "link/server/server.h"

namespace outrider::link::faults {

inline constexpr int64_t kMs = 1'000'000, kSecond = 1000 * kMs;
inline constexpr int64_t kDeadlineMs = 200;
// What a loaded machine may add to a deadline before the test calls it a hang.
inline constexpr int64_t kSlackNs = 300 * kMs;

const Clock& clock_here();
std::string provider(const char* name);  // path of provider_NAME.so
uint16_t port_of(const std::string& endpoint);
int64_t counter(const Runtime& runtime, const char* name);  // of the status extension, -1: none

// Two pictures of side x side x 3 in, 50 x 32 floats out; the scripted provider's configuration.
std::string fake_config(int side, const std::string& more = "");

// A server with the scripted provider, in this process.
struct Host {
  explicit Host(const std::string& config, const std::string& listen = "tcp://127.0.0.1:0",
                ServerOptions options = {});
  const std::string& endpoint() const { return endpoint_; }
  uint16_t port() const { return port_of(endpoint_); }
  const ServerCounters& counters() const { return server->counters(); }
  std::unique_ptr<Server> server;

 private:
  std::string endpoint_;
};

struct DriveOptions {
  int side = 64;
  int64_t deadline_ms = kDeadlineMs, connect_ms = 1000;
  std::string more = {};  // of the open configuration: ",\"key_file\":\"...\""
};

class Drive {
 public:
  explicit Drive(const std::string& endpoint, const DriveOptions& options = {});

  bool is_open() const { return remote_ != nullptr; }
  const std::string& open_error() const { return open_error_; }
  // Opens again what could not be opened.
  bool open();
  void close() { remote_.reset(); }

  // True: answered, and right. Wrong answers and verbs beyond their deadline fail the test.
  bool tick();
  int ticks(int n, int64_t period_ns = 0);  // how many were answered
  // Ticks every 20 ms until `n` in a row were answered. False: not within that time.
  bool recovers(int64_t within_ns, int n = 3);
  // Ticks until one fails.
  bool fails(int64_t within_ns);

  std::string last_error() const { return error_; }
  int n_ticks() const { return n_ticks_; }
  int n_answered() const { return n_answered_; }
  int64_t worst_verb_ns() const { return worst_ns_; }
  int64_t count(const char* name) const { return counter(*remote_, name); }

 private:
  int verb(const char* name, int code, int64_t begin_ns);
  int stage(Runtime& runtime, bool timed);

  std::string endpoint_;
  DriveOptions options_;
  std::string open_error_, error_;
  std::unique_ptr<Runtime> local_, remote_;
  std::vector<uint8_t> pixels_;
  std::vector<float> state_ = std::vector<float>(8);
  std::string prompt_;
  int n_ticks_ = 0, n_answered_ = 0;
  int64_t worst_ns_ = 0;
};

// What a process holds, from /proc.
struct Held {
  int64_t n_files = 0, n_threads = 0;
  int64_t anonymous_kb = 0;  // of its memory: heap, stacks, not files and not shared libraries
};
Held held_by(int pid);  // 0: this one
// Once it is back at `base` with at most `more_kb` more memory, or when the time is over.
Held settle(int pid, const Held& base, int64_t more_kb, int64_t within_ns);

}  // namespace outrider::link::faults
