// Lock-free hand-over between two threads: a signal to sleep on, the newest value, a short queue.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>

namespace outrider::tandem {

// Sleep until something happened or a time of CLOCK_MONOTONIC has come. No mutex: who raises it
// pays one store, and one system call when somebody sleeps.
class Signal {
 public:
  uint32_t now() const noexcept { return n_.load(std::memory_order_acquire); }
  void raise() noexcept {
    n_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0)
      syscall(SYS_futex, word(), FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
  }
  // Returns at once when it was raised since `seen` was read.
  void wait(uint32_t seen, int64_t until_ns) noexcept {
    if (until_ns < 0) until_ns = 0;
    const timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (n_.load(std::memory_order_seq_cst) == seen)
      syscall(SYS_futex, word(), FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen, &until, nullptr,
              FUTEX_BITSET_MATCH_ANY);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }

 private:
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  uint32_t* word() noexcept { return reinterpret_cast<uint32_t*>(&n_); }
  std::atomic<uint32_t> n_{0}, sleepers_{0};
};

// One writer, one reader; the reader gets the newest value whole, or nothing new.
template <class T>
class Newest {
 public:
  void put(const T& value) noexcept {
    slots_[back_] = value;
    back_ = middle_.exchange(back_ | kNew, std::memory_order_acq_rel) & 3u;
  }
  bool take(T& out) noexcept {
    if ((middle_.load(std::memory_order_relaxed) & kNew) == 0) return false;
    front_ = middle_.exchange(front_, std::memory_order_acq_rel) & 3u;
    out = slots_[front_];
    return true;
  }

 private:
  static constexpr uint32_t kNew = 4;
  std::array<T, 3> slots_{};
  std::atomic<uint32_t> middle_{1};
  uint32_t back_ = 0, front_ = 2;
};

// One writer, one reader, in order, at most n entries.
template <class T, uint32_t n>
class ShortQueue {
  static_assert((n & (n - 1)) == 0, "a power of two");

 public:
  T* back() noexcept {  // room for one more, or nullptr
    const uint32_t head = head_.load(std::memory_order_relaxed);
    return head - tail_.load(std::memory_order_acquire) == n ? nullptr : &slots_[head % n];
  }
  void push() noexcept {
    head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  T* front() noexcept {
    const uint32_t tail = tail_.load(std::memory_order_relaxed);
    return tail == head_.load(std::memory_order_acquire) ? nullptr : &slots_[tail % n];
  }
  void pop() noexcept {
    tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  std::array<T, n>& slots() noexcept { return slots_; }

 private:
  std::array<T, n> slots_{};
  std::atomic<uint32_t> head_{0}, tail_{0};
};

}  // namespace outrider::tandem
