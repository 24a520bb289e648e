// A device at work over a link that something is done to: every tick has an input nobody used
// before, every answer is compared byte for byte with the same runtime in this process, and every
// verb with its deadline.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "link/held.h"
#include "link/host_here.h"
#include "support/own_time.h"

namespace outrider::link::faults {

using here::clock_here, here::counter, here::held_by, here::Held, here::Host, here::kMs;
using here::kSecond, here::kSlackKb, here::provider, here::settle;
inline constexpr int64_t kDeadlineMs = 200;
// What a verb may take beyond its deadline, besides what the machine withheld.
inline constexpr int64_t kSlackNs = 300 * kMs;

// Two pictures of side x side x 3 in, 50 x 32 floats out; the scripted provider's configuration.
std::string fake_config(int side, const std::string& more = "");

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
  int verb(const char* name, int code);  // since own_ was restarted
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
  test::OwnTime own_;
};

}  // namespace outrider::link::faults
