#include "providers/link/remote.h"

#include <chrono>

namespace outrider {

void add_send_receive(abi::MetadataBuilder& b) {
  const uint32_t after_send[] = {0};
  b.stage("send", kSendRef);
  b.stage("receive", kReceiveRef, after_send);
}

UpkeepThread::~UpkeepThread() {
  {
    std::scoped_lock hold(lock_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void UpkeepThread::begin(std::function<void()> upkeep) {
  thread_ = std::thread([this, upkeep = std::move(upkeep)] {
    std::unique_lock hold(lock_);
    constexpr auto kPause = std::chrono::milliseconds(50);
    while (!wake_.wait_for(hold, kPause, [this] { return stop_; })) {
      hold.unlock();
      upkeep();
      hold.lock();
    }
  });
}

}  // namespace outrider
