// How long this machine lets a thread wait that wants to run: what a tick cannot be blamed for.
#pragma once
#include <atomic>
#include <thread>

#include "base/clock.h"

namespace outrider::test {

class Witness {
 public:
  Witness() : thread_([this] { watch(); }) {}
  ~Witness() {
    stop_ = true;
    thread_.join();
  }
  // The longest wait since the last call.
  int64_t take_worst_ns() { return worst_ns_.exchange(0); }
  // All waits of a look and more since the last call, one after the other.
  int64_t take_sum_ns() { return sum_ns_.exchange(0); }

 private:
  static constexpr int64_t kLookNs = 1'000'000;
  void watch() {
    while (!stop_) {
      const int64_t due_ns = clock_.now_ns() + kLookNs;
      while (!sleep_until_ns(due_ns)) {
      }
      const int64_t late_ns = clock_.now_ns() - due_ns;
      if (late_ns > worst_ns_) worst_ns_ = late_ns;
      if (late_ns >= kLookNs) sum_ns_ += late_ns;  // shorter: how a timer is
    }
  }
  MonotonicClock clock_;
  std::atomic<int64_t> worst_ns_{0}, sum_ns_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace outrider::test
