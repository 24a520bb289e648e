// What remote runtimes of every dialect have in common: the thread that looks after their link,
// whether it is there, and the plan that splits a run in two.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "abi/provider.h"
#include "outrider/ext/liveness.h"

namespace outrider {

inline constexpr uint32_t kSendRef = 1, kReceiveRef = 2;
inline constexpr const char* kNoRuntime = "link: what the host describes is no valid runtime";

// The plan send_receive.
void add_send_receive(abi::MetadataBuilder& b);

// Calls `upkeep` every 50 ms from begin() until it is destroyed; what that uses must live longer.
class UpkeepThread {
 public:
  UpkeepThread() = default;
  ~UpkeepThread();
  void begin(std::function<void()> upkeep);

 private:
  std::mutex lock_;  // no verb takes it
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

// The liveness extension of what kOf finds in its self.
template <auto kOf>
outrider_liveness_v1 liveness_table(void* self) {
  return {
      1, sizeof(outrider_liveness_v1), self, [](void* of) { return kOf(of).connected() ? 1 : 0; },
      [](void* of) {
        return static_cast<uint64_t>(kOf(of).counters().reconnects.load(std::memory_order_acquire));
      }};
}

}  // namespace outrider
