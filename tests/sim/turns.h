// Two strands of execution of which one runs at a time. In one thread (a second stack), so that a
// turn costs no wake-up by the system; under a sanitizer, which has to know stacks, two threads.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <semaphore>
#include <thread>
#else
#include <ucontext.h>
#endif

namespace outrider::sim {

enum Actor : int { kCaller, kControl };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

class Turns {
 public:
  ~Turns() {
    if (thread_.joinable()) thread_.join();
  }
  // The body runs when it is given its first turn; when it ends the caller has the turn for good.
  void start(std::function<void()> body) {
    thread_ = std::thread([this, body = std::move(body)] {
      turn_[kControl].acquire();
      body();
      turn_[kCaller].release();
    });
  }
  void give(Actor from, Actor to) {
    turn_[to].release();
    turn_[from].acquire();
  }

 private:
  std::binary_semaphore turn_[2] = {std::binary_semaphore(0), std::binary_semaphore(0)};
  std::thread thread_;
};

#else

class Turns {
 public:
  void start(std::function<void()> body) {
    body_ = std::move(body);
    stack_ = std::make_unique<std::byte[]>(kStackBytes);
    getcontext(&context_[kControl]);
    context_[kControl].uc_stack.ss_sp = stack_.get();
    context_[kControl].uc_stack.ss_size = kStackBytes;
    context_[kControl].uc_link = &context_[kCaller];
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&context_[kControl], reinterpret_cast<void (*)()>(&run), 2,
                static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
  }
  void give(Actor from, Actor to) { swapcontext(&context_[from], &context_[to]); }

 private:
  static constexpr size_t kStackBytes = size_t{1} << 20;
  static void run(unsigned low, unsigned high) {
    reinterpret_cast<Turns*>(static_cast<uintptr_t>(high) << 32 | low)->body_();
  }
  std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  ucontext_t context_[2] = {};
};

#endif

}  // namespace outrider::sim
