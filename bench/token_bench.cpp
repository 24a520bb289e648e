// Tokens of a whole language model against the bandwidth of the machine: one token is decoded, then
// as many bytes as the file has are read from other memory by the same number of threads, in turns,
// so that both meet the same neighbours.
//   token_bench FILE.gguf [PAIRS]
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "host/session.h"
#include "kernels/dispatch.h"
#include "kernels/thread_pool.h"

namespace outrider {
namespace {

constexpr size_t kHugePage = 2 << 20;

template <class T>
T good(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "token_bench: %s\n", result.error().text);
    std::exit(2);
  }
  return std::move(result.value());
}
void good(const Result<void>& result) {
  if (result) return;
  std::fprintf(stderr, "token_bench: %s\n", result.error().text);
  std::exit(2);
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Reads n bytes of its own with n_threads.
class Reader {
 public:
  Reader(size_t n, int n_threads)
      : n_(n / kHugePage * kHugePage), pool_(good(ThreadPool::create(n_threads))) {
    data_.reset(static_cast<float*>(std::aligned_alloc(kHugePage, n_)));
    if (data_ == nullptr) std::exit(2);
    madvise(data_.get(), n_, MADV_HUGEPAGE);
    std::memset(data_.get(), 1, n_);
  }
  size_t n_bytes() const { return n_; }
  void read() {
    pool_->run([&](int t) {
      const Range part = part_of(static_cast<int64_t>(n_ / 1024), t, pool_->n_threads());
      volatile float sink =
          table_.read_all(data_.get() + part.first * 256, (part.last - part.first) * 1024);
      (void)sink;
    });
  }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  size_t n_;
  std::unique_ptr<ThreadPool> pool_;
  const KernelTable& table_ = *find_kernel_table("").value();
  std::unique_ptr<float, Free> data_;
};

void measure(const std::string& path, size_t n_bytes, int n_pairs, int n_threads) {
  auto session = good(host::Session::open(
      std::string(OUTRIDER_BUILD_DIR) + "/lib/provider_gguf.so",
      R"({"model_family":"llm","backend":"cpu","n_ctx":1024,"temp":0,"top_k":1,"top_p":1,"seed":1,)"
      R"("max_tokens":512,"precision":"stored","model_path":")" +
          path + R"(","n_threads":)" + std::to_string(n_threads) + "}"));
  Reader reader(n_bytes, n_threads);
  const uint32_t prompt = good(session.port_by_name("prompt"));
  const MonotonicClock clock;
  std::vector<double> token_ms, read_ms, share;
  for (int i = 0; i < n_pairs; ++i) {
    if (i % 16 == 0) {  // a random model may end its text at any token
      good(session.set_text(prompt, "go " + std::to_string(i)));
      good(session.run_stage(0));
      good(session.run_stage(1));
    }
    int64_t begin = clock.now_ns();
    const bool decoded = static_cast<bool>(session.run_stage(2));
    const double token = static_cast<double>(clock.now_ns() - begin) * 1e-6;
    if (!decoded) {
      i += 15 - i % 16;
      continue;
    }
    begin = clock.now_ns();
    reader.read();
    const double read = static_cast<double>(clock.now_ns() - begin) * 1e-6;
    token_ms.push_back(token);
    read_ms.push_back(read);
    share.push_back(100 * read / token * static_cast<double>(n_bytes) /
                    static_cast<double>(reader.n_bytes()));
  }
  if (share.empty()) std::exit(2);
  std::vector<double> sorted = share;
  std::sort(sorted.begin(), sorted.end());
  std::printf(
      "%d threads: %zu pairs, a token %.2f ms, as many bytes read %.2f ms (%.1f GB/s); "
      "share of the bandwidth: median %.0f %%, quartiles %.0f and %.0f %%\n",
      n_threads, share.size(), median(token_ms), median(read_ms),
      static_cast<double>(reader.n_bytes()) / median(read_ms) * 1e-6, median(share),
      sorted[sorted.size() / 4], sorted[sorted.size() * 3 / 4]);
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  struct stat info {};
  if (argc < 2 || stat(argv[1], &info) != 0) {
    std::fprintf(stderr, "usage: token_bench FILE.gguf [PAIRS]\n");
    return 2;
  }
  const int n_pairs = argc > 2 ? std::atoi(argv[2]) : 64;
  for (int n_threads : {1, 2})
    outrider::measure(argv[1], static_cast<size_t>(info.st_size), n_pairs, n_threads);
  return 0;
}
