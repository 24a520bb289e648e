// A fixed set of threads that run one job together, again and again.
//
// The hand-off costs about a microsecond while the workers still spin; after a bounded spin they
// sleep in the kernel, so an idle or oversubscribed machine is left alone. No lock, no allocation.
//
// A forked child has none of the threads: there every job runs on the caller alone, with the same
// result, and the destructor waits for nobody.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "base/result.h"

namespace outrider {

// What the threads of a pool (the caller's own is left as it is) ask of the system.
struct ThreadWishes {
  bool pin = false;     // thread t on the t-th CPU that this process may use, 0 being the caller
  int rt_priority = 0;  // 1..99: SCHED_FIFO with it; 0: as the thread that makes the pool
};

class ThreadPool {
 public:
  // A part of a job: called once for every thread index in [0, n_threads).
  using Job = void (*)(const void* context, int thread_index);

  // [setup] Starts n_threads - 1 threads (the caller is the first). Errors: kNoMemory; kDevice when
  // the system refuses a wish.
  static Result<std::unique_ptr<ThreadPool>> create(int n_threads, const ThreadWishes& wishes = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // [hot] Runs job on all threads and returns when every part is done. One caller at a time.
  void run(Job job, const void* context) noexcept;
  int n_threads() const { return n_threads_; }

  // [hot] first on all threads and, when all of its parts are done, second on all threads: what two
  // calls of run() do, in one hand-over.
  void run_in_two(Job first, Job second, const void* context) noexcept;

  // run() of anything callable as f(thread_index).
  template <class F>
  void run(const F& f) noexcept {
    run([](const void* context, int t) { (*static_cast<const F*>(context))(t); }, &f);
  }

  // run_in_two() of anything callable as f(thread_index).
  template <class F, class G>
  void run_in_two(const F& first, const G& second) noexcept {
    const std::pair<const F*, const G*> both(&first, &second);
    using Both = std::pair<const F*, const G*>;
    run_in_two([](const void* c, int t) { (*static_cast<const Both*>(c)->first)(t); },
               [](const void* c, int t) { (*static_cast<const Both*>(c)->second)(t); }, &both);
  }

 private:
  explicit ThreadPool(int n_threads);
  Result<void> grant(const ThreadWishes& wishes) noexcept;
  void work(int thread_index) noexcept;
  void meet() noexcept;
  bool is_forked_copy() const noexcept {
    return same_process_ != nullptr && same_process_->load(std::memory_order_relaxed) == 0;
  }

  const int n_threads_;
  // Lies in a page that the system wipes in a forked child; null where it cannot.
  std::atomic<uint32_t>* same_process_ = nullptr;
  int n_started_ = 1;
  std::unique_ptr<std::thread[]> threads_;
  Job job_ = nullptr;
  const void* context_ = nullptr;
  bool stop_ = false;
  // Apart, so that waiting on one does not slow the others.
  alignas(64) std::atomic<uint32_t> epoch_{0};    // one more for every job
  alignas(64) std::atomic<uint32_t> pending_{0};  // workers still inside the job
  alignas(64) std::atomic<uint32_t> sleepers_{0};
  alignas(64) std::atomic<uint32_t> caller_sleeps_{0};
  alignas(64) std::atomic<uint32_t> arrived_{0};  // threads that wait inside the job
  alignas(64) std::atomic<uint32_t> meetings_{0};
  alignas(64) std::atomic<uint32_t> meeting_sleepers_{0};
};

// The part of [0, n) that thread t of n_threads takes: contiguous, sizes differ by at most one.
struct Range {
  int64_t first, last;
};
inline Range part_of(int64_t n, int t, int n_threads) {
  return {n * t / n_threads, n * (t + 1) / n_threads};
}

}  // namespace outrider
