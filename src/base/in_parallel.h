// Work of an open that several threads share, where no pool of threads is at hand.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "base/cpu_budget.h"

namespace outrider {

// [setup] Calls work(i) for every i in [0, n), in any order, on as many threads as this process may
// use, at most 16, the caller being one. A thread that cannot be had is not missed. work must not
// throw.
template <class Work>
void in_parallel(size_t n, Work&& work) {
  constexpr unsigned kMaxThreadsTogether = 16;
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i = next++; i < n; i = next++) work(i);
  };
  std::vector<std::thread> helpers;
  const size_t wanted =
      n < 2 ? n : std::min<size_t>({n, cpu_budget().n_threads, kMaxThreadsTogether});
  try {
    while (helpers.size() + 1 < wanted) helpers.emplace_back(run);
  } catch (const std::system_error&) {
  }
  run();
  for (std::thread& helper : helpers) helper.join();
}

// [setup] Maps all pages of `bytes` that lie in a mapped file in one go, where the system can; else
// they come one by one when they are read. The first and the last page need not be whole.
inline void populate(std::span<const std::byte> bytes) {
#ifdef MADV_POPULATE_READ
  constexpr size_t kPage = 4096;
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = address / kPage * kPage;
  (void)madvise(reinterpret_cast<void*>(first), address + bytes.size() - first, MADV_POPULATE_READ);
#else
  (void)bytes;
#endif
}

}  // namespace outrider
