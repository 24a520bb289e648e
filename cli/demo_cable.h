// The cable of the demo: a relay between device and host that can be cut in three ways.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "base/result.h"

namespace outrider::cli {

class DemoCable {
 public:
  enum class Mode : uint8_t {
    kWhole,
    kSilent,  // nothing passes, nobody is told: an unplugged switch
    kReset,   // connections are torn: an unplugged cable
    kSlow,    // everything takes kSlowMs longer
  };
  static constexpr int kSlowMs = 45;

  // Listens on a port of 127.0.0.1 and leads what comes to `host_port`. Errors: kFailed.
  static Result<std::unique_ptr<DemoCable>> start(int host_port);
  ~DemoCable();
  int port() const { return port_; }
  void set(Mode mode) { mode_ = mode; }

 private:
  DemoCable() = default;
  void run();
  void connect_one();
  void pass(int from, int to, bool slow);
  void tear(bool reset);

  std::atomic<Mode> mode_{Mode::kWhole};
  std::atomic<bool> stop_{false};
  int listener_ = -1, device_ = -1, host_ = -1;
  int port_ = 0, host_port_ = 0;
  std::thread thread_;
};

}  // namespace outrider::cli
