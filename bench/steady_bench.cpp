// How steady this machine is by itself: the same work in registers, again and again, on the threads
// of the pool. No tick of a policy on this machine can be steadier.
//
//   steady_bench [threads] [milliseconds] [rounds] [repeats] [kilobytes]
//
// A job is `threads` equal loops of multiply-adds that touch no memory; its length is set before
// the first round to about `milliseconds`. With `kilobytes` a job reads a block of so many instead,
// once, each thread its own, as a tick reads its weights; `milliseconds` counts for nothing then.
// Printed for each repeat: p50, p99, max and p99 over p50
// of `rounds` jobs, back to back.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/thread_pool.h"

namespace outrider::bench {
namespace {

double now_ms() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

// Eight chains, so that the latency of one does not count. The result is kept, so the loop is too.
void multiply_adds(long n) {
  float chain[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (long i = 0; i < n; ++i)
    for (float& x : chain) x = x * 0.999f + 0.001f;
  for (float& x : chain) asm volatile("" : : "m"(x));
}

// Eight words of every line; the sum is kept.
void read_words(const std::vector<uint64_t>& words) {
  uint64_t sum[8] = {};
  for (size_t i = 0; i + 8 <= words.size(); i += 8)
    for (size_t k = 0; k < 8; ++k) sum[k] += words[i + k];
  for (uint64_t& x : sum) asm volatile("" : : "m"(x));
}

template <class Work>
double job_ms(ThreadPool& pool, const Work& work) {
  const double begin = now_ms();
  pool.run(work);
  return now_ms() - begin;
}

// The fastest of some, so that a disturbance does not set the length.
long loops_for(ThreadPool& pool, double ms) {
  constexpr long kTrial = 100000;
  double fastest = 1e9;
  for (int i = 0; i < 20; ++i)
    fastest = std::min(fastest, job_ms(pool, [](int) { multiply_adds(kTrial); }));
  return std::max(1L, static_cast<long>(kTrial * ms / fastest));
}

void report(std::vector<double>& ms) {
  std::sort(ms.begin(), ms.end());
  const auto rank = [&](double p) {
    return ms[static_cast<size_t>(p * static_cast<double>(ms.size() - 1) + 0.5)];
  };
  std::printf("p50 %.4f ms, p99 %.4f ms, max %.4f ms, p99/p50 %.3f\n", rank(0.5), rank(0.99),
              ms.back(), rank(0.99) / rank(0.5));
}

double argument(int argc, char** argv, int i, double otherwise) {
  return argc > i ? std::atof(argv[i]) : otherwise;
}

int run(int argc, char** argv) {
  const int n_threads = static_cast<int>(argument(argc, argv, 1, 2));
  const double length_ms = argument(argc, argv, 2, 0.5);
  const int rounds = static_cast<int>(argument(argc, argv, 3, 200));
  const int repeats = static_cast<int>(argument(argc, argv, 4, 5));
  const int kilobytes = static_cast<int>(argument(argc, argv, 5, 0));
  if (n_threads < 1 || length_ms <= 0 || rounds < 100 || repeats < 1 || kilobytes < 0 ||
      kilobytes > 1 << 20) {
    std::fprintf(stderr,
                 "usage: steady_bench [threads] [milliseconds] [rounds, 100 or more] [repeats] "
                 "[kilobytes, up to 1048576]\n");
    return 2;
  }
  auto pool = ThreadPool::create(n_threads);
  if (!pool) {
    std::fprintf(stderr, "%s\n", pool.error().text);
    return 1;
  }
  const long loops = kilobytes > 0 ? 0 : loops_for(*pool.value(), length_ms);
  std::vector<std::vector<uint64_t>> blocks(static_cast<size_t>(n_threads));
  for (auto& block : blocks) block.assign(static_cast<size_t>(kilobytes) * 128, 1);
  const auto work = [&](int t) {
    kilobytes > 0 ? read_words(blocks[static_cast<size_t>(t)]) : multiply_adds(loops);
  };
  std::vector<double> ms(static_cast<size_t>(rounds));
  for (int i = 0; i < repeats; ++i) {
    for (double& slot : ms) slot = job_ms(*pool.value(), work);
    report(ms);
  }
  return 0;
}

}  // namespace
}  // namespace outrider::bench

int main(int argc, char** argv) {
  return outrider::bench::run(argc, argv);
}
