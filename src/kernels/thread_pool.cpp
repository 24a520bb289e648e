#include "kernels/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>

#include "base/assert.h"

namespace outrider {
namespace {

// About 50 to 150 us on the processors tried: longer than the gap between two products of a run,
// shorter than anybody would notice on a machine with other work. Waking a sleeping thread costs
// 60 to 150 us on a virtual machine.
constexpr int kSpins = 2000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

// Returns when word is no longer `seen`. `sleeping` is raised while in the kernel: whoever changes
// word looks at it afterwards. Both sides are sequentially consistent, so one of them sees the
// other.
void wait_while(std::atomic<uint32_t>& word, uint32_t seen, std::atomic<uint32_t>& sleeping) {
  for (int i = 0; i < kSpins; ++i) {
    if (word.load(std::memory_order_acquire) != seen) return;
    relax();
  }
  sleeping.fetch_add(1, std::memory_order_seq_cst);
  while (word.load(std::memory_order_seq_cst) == seen) futex_wait(word, seen);
  sleeping.fetch_sub(1, std::memory_order_seq_cst);
}

// A word that is 1 here and 0 in every forked child, or null.
std::atomic<uint32_t>* make_fork_mark() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mark = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mark == MAP_FAILED) return nullptr;
  if (madvise(mark, page, MADV_WIPEONFORK) == 0) return new (mark) std::atomic<uint32_t>(1);
  munmap(mark, page);
  return nullptr;
}

}  // namespace

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

ThreadPool::ThreadPool(int n_threads)
    : n_threads_(n_threads), threads_(new std::thread[static_cast<size_t>(n_threads)]) {
  same_process_ = make_fork_mark();
  // Signals belong to the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (; n_started_ < n_threads_; ++n_started_)
      threads_[n_started_] = std::thread(&ThreadPool::work, this, n_started_);
  } catch (const std::system_error&) {
    // create() sees that some are missing; the destructor joins those that started.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int n_threads, const ThreadWishes& wishes) {
  OUTRIDER_ASSERT(n_threads >= 1);
  try {
    std::unique_ptr<ThreadPool> pool(new ThreadPool(n_threads));
    if (pool->n_started_ == n_threads) {
      OUTRIDER_TRY(pool->grant(wishes));
      return pool;
    }
    return make_error(Code::kNoMemory, "threads: the system gave %d of %d; lower the thread count",
                      pool->n_started_, n_threads);
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "threads: no memory for %d threads", n_threads);
  }
}

Result<void> ThreadPool::grant(const ThreadWishes& wishes) noexcept {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (wishes.pin && sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return make_error(Code::kDevice, "threads: pinning: the CPUs of this process are not known");
  int cpu = -1;  // of thread t; from the first one again when there are more threads than CPUs
  for (int t = 0; t < n_threads_; ++t) {
    if (wishes.pin) {
      do cpu = (cpu + 1) % CPU_SETSIZE;
      while (!CPU_ISSET(cpu, &allowed));
    }
    if (t == 0) continue;
    const pthread_t thread = threads_[t].native_handle();
    if (wishes.pin) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      if (const int failed = pthread_setaffinity_np(thread, sizeof one, &one); failed != 0)
        return make_error(Code::kDevice,
                          "threads: pinning to CPU %d was refused (%s); leave pin_threads out", cpu,
                          strerrorname_np(failed));
    }
    if (wishes.rt_priority > 0) {
      sched_param priority = {};
      priority.sched_priority = wishes.rt_priority;
      if (const int failed = pthread_setschedparam(thread, SCHED_FIFO, &priority); failed != 0)
        return make_error(Code::kDevice,
                          "threads: rt_priority %d was refused (%s); raise this process' real-time "
                          "priority limit (ulimit -r, CAP_SYS_NICE) or leave rt_priority out",
                          wishes.rt_priority, strerrorname_np(failed));
    }
  }
  return {};
}

ThreadPool::~ThreadPool() {
  if (is_forked_copy()) {
    // The handles name threads of the parent; their stacks may serve other threads here by now.
    static_cast<void>(threads_.release());
  } else {
    stop_ = true;
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(epoch_);
    for (int t = 1; t < n_started_; ++t) threads_[t].join();
  }
  if (same_process_ != nullptr) munmap(same_process_, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

void ThreadPool::run(Job job, const void* context) noexcept {
  if (n_threads_ == 1) return job(context, 0);
  if (is_forked_copy()) {
    for (int t = 0; t < n_threads_; ++t) job(context, t);
    return;
  }
  job_ = job;
  context_ = context;
  pending_.store(static_cast<uint32_t>(n_threads_ - 1), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake_all(epoch_);
  job(context, 0);
  for (;;) {
    const uint32_t left = pending_.load(std::memory_order_acquire);
    if (left == 0) break;
    wait_while(pending_, left, caller_sleeps_);
  }
}

void ThreadPool::run_in_two(Job first, Job second, const void* context) noexcept {
  // A forked copy runs part after part: they cannot wait for each other.
  if (n_threads_ == 1 || is_forked_copy()) {
    run(first, context);
    run(second, context);
    return;
  }
  run([&](int t) {
    first(context, t);
    meet();
    second(context, t);
  });
}

// Returns when all threads of the job have called it.
void ThreadPool::meet() noexcept {
  const uint32_t seen = meetings_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < static_cast<uint32_t>(n_threads_))
    return wait_while(meetings_, seen, meeting_sleepers_);
  arrived_.store(0, std::memory_order_relaxed);
  meetings_.fetch_add(1, std::memory_order_seq_cst);
  if (meeting_sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake_all(meetings_);
}

void ThreadPool::work(int thread_index) noexcept {
  char name[16];
  std::snprintf(name, sizeof name, "outrider-k%d", thread_index);
  pthread_setname_np(pthread_self(), name);
  for (uint32_t seen = 0;; ++seen) {
    wait_while(epoch_, seen, sleepers_);
    if (stop_) return;
    job_(context_, thread_index);
    pending_.fetch_sub(1, std::memory_order_seq_cst);
    if (caller_sleeps_.load(std::memory_order_seq_cst) != 0) futex_wake_all(pending_);
  }
}

}  // namespace outrider
