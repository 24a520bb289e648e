#include "kernels/peak.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/cpu_budget.h"
#include "kernels/dispatch.h"
#include "kernels/thread_pool.h"

namespace outrider {
namespace {

constexpr double kSecondsEach = 0.25;
constexpr double kSlotSeconds = 0.01;  // short, so that the best slot met no other program
constexpr int64_t kReadBytes = int64_t{1} << 30;
constexpr int64_t kReadGrain = 1 << 20;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Best rate of many short slots: work(n) does n rounds on all threads of the pool.
template <class F>
double best_rate(const F& work) {
  int64_t n = 1;
  double seconds = 0;
  while (seconds < kSlotSeconds) {
    const double start = now();
    work(n);
    seconds = now() - start;
    if (seconds < kSlotSeconds) n *= 2;
  }
  double best = 0;
  const double end = now() + kSecondsEach;
  do {
    const double start = now();
    work(n);
    best = std::max(best, static_cast<double>(n) / (now() - start));
  } while (now() < end);
  return best;
}

double peak_gops(ThreadPool& pool, const PeakLoop& loop) {
  if (loop.run == nullptr) return 0;
  const double rounds = best_rate([&](int64_t n) { pool.run([&](int) { loop.run(n); }); });
  return rounds * loop.ops_per_round * pool.n_threads() * 1e-9;
}

// A buffer of real pages, huge ones where the system has them.
class ReadBuffer {
 public:
  explicit ReadBuffer(ThreadPool& pool) {
    const int64_t free_bytes = sysconf(_SC_AVPHYS_PAGES) * int64_t{sysconf(_SC_PAGESIZE)};
    bytes_ = std::min(kReadBytes, free_bytes / 4) / kReadGrain * kReadGrain;
    if (bytes_ == 0) return;
    void* data = mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return;
    madvise(data, static_cast<size_t>(bytes_), MADV_HUGEPAGE);
    data_ = static_cast<float*>(data);
    pool.run([&](int t) {
      const Range range = part_of(bytes_ / 4, t, pool.n_threads());
      std::fill(data_ + range.first, data_ + range.last, 1.0f);
    });
  }
  ~ReadBuffer() {
    if (data_) munmap(data_, static_cast<size_t>(bytes_));
  }
  ReadBuffer(const ReadBuffer&) = delete;
  ReadBuffer& operator=(const ReadBuffer&) = delete;

  const float* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  float* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Every slot goes on where the last one ended, so that no cache can help.
double read_gbs(ThreadPool& pool, const KernelTable& table, const ReadBuffer& buffer) {
  const int64_t n_grains = buffer.bytes() / kReadGrain;
  int64_t first = 0;
  const double grains = best_rate([&](int64_t n) {
    pool.run([&](int t) {
      const Range range = part_of(n, t, pool.n_threads());
      float sum = 0;
      for (int64_t i = range.first; i < range.last; ++i)
        sum +=
            table.read_all(buffer.data() + (first + i) % n_grains * (kReadGrain / 4), kReadGrain);
      volatile float sink = sum;
      (void)sink;
    });
    first = (first + n) % n_grains;
  });
  return grains * static_cast<double>(kReadGrain) * 1e-9;
}

Limits measure(ThreadPool& pool, const KernelTable& table, const ReadBuffer& buffer) {
  Limits limits;
  limits.f32_gops = peak_gops(pool, table.peak_f32);
  limits.bf16_gops = std::max(limits.f32_gops, peak_gops(pool, table.peak_bf16));
  limits.int8_gops = std::max(limits.f32_gops, peak_gops(pool, table.peak_int8));
  limits.read_gbs = read_gbs(pool, table, buffer);
  return limits;
}

}  // namespace

Result<MachineLimits> measure_limits(int n_threads) {
  auto table = find_kernel_table("");
  if (!table) return table.error();
  MachineLimits limits;
  limits.n_threads = static_cast<int>(choose_threads(n_threads, cpu_budget()).n_threads);
  auto one = ThreadPool::create(1);
  if (!one) return one.error();
  auto all = ThreadPool::create(limits.n_threads);
  if (!all) return all.error();
  const ReadBuffer buffer(*all.value());
  if (buffer.data() == nullptr)
    return make_error(Code::kNoMemory, "limits: no memory for a buffer of %lld bytes to read",
                      static_cast<long long>(buffer.bytes()));
  limits.one = measure(*one.value(), *table.value(), buffer);
  limits.all = limits.n_threads == 1 ? limits.one : measure(*all.value(), *table.value(), buffer);
  return limits;
}

}  // namespace outrider
