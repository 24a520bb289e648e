// Products of one row at the shapes of a language model of 1.5 billion weights, held against the
// bandwidth of the same memory: each case keeps as many copies of its weight as fill half a
// gigabyte, goes over all of them, and reads all of them with the loop of kernels/peak.h in
// between. So neither finds anything in a cache, and both meet the same neighbours.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu_ops.h"
#include "kernels/dispatch.h"
#include "kernels/thread_pool.h"
#include "tensor/dtype.h"
#include "tensor/ops.h"

namespace outrider {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 29;
constexpr size_t kHugePage = 2 << 20;

struct Shape {
  const char* name;
  int64_t n_out, n_in;
};
constexpr Shape kShapes[] = {{"up_8960x1536", 8960, 1536},
                             {"down_1536x8960", 1536, 8960},
                             {"out_1536x1536", 1536, 1536},
                             {"head_151936x1536", 151936, 1536}};
struct Kind {
  const char* name;
  DType stored;
  Precision precision;
};
constexpr Kind kKinds[] = {
    {"f32", DType::kF32, Precision::kF32},      {"f16", DType::kF16, Precision::kF32},
    {"bf16", DType::kBf16, Precision::kBf16},   {"int8", DType::kQ8_0, Precision::kInt8},
    {"q8_0", DType::kQ8_0, Precision::kStored}, {"q6_k", DType::kQ6_K, Precision::kStored},
    {"q4_k", DType::kQ4_K, Precision::kStored}, {"q4_0", DType::kQ4_0, Precision::kStored}};

double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::unique_ptr<Ops> make(int n_threads) {
  const char* table = std::getenv("OUTRIDER_TABLE");
  auto made = make_cpu_ops({n_threads, table ? table : ""});
  if (!made) {
    std::fprintf(stderr, "decode_bench: %s\n", made.error().text);
    std::exit(2);
  }
  const OpsLimits limits{
      .max_rows = 4, .max_in = 16384, .max_out = 1 << 18, .max_keys = 64, .max_head_dim = 64};
  if (!made.value()->reserve(limits)) std::exit(2);
  return std::move(made.value());
}

// Copies of one packed weight, in huge pages.
class Copies {
 public:
  Copies(Ops& ops, const Shape& shape, const Kind& kind) {
    // One value a block row is enough for the sizes; a few rows are checked.
    const size_t row = row_bytes(kind.stored, shape.n_in);
    std::vector<std::byte> source(row * static_cast<size_t>(shape.n_out));
    std::mt19937 generator(1);
    std::uniform_real_distribution<float> values(-1, 1);
    first_rows.resize(static_cast<size_t>(kRows * shape.n_in));
    for (float& v : first_rows) v = values(generator);
    for (int64_t i = 0; i < shape.n_out; ++i) {
      std::byte* to = source.data() + static_cast<size_t>(i) * row;
      if (i < kRows) {
        quantize_row(kind.stored, first_rows.data() + i * shape.n_in, to, shape.n_in);
        dequantize_row(kind.stored, to, first_rows.data() + i * shape.n_in, shape.n_in);
      } else {
        std::memcpy(to, to - kRows * row, row);
      }
    }
    const Matrix matrix{kind.stored, shape.n_out, shape.n_in, source.data()};
    bytes = ops.packed_bytes({&matrix, 1}, Stack::kRows, kind.precision).value();
    const size_t each = (bytes + 4095) / 4096 * 4096;
    n = std::max<size_t>(1, kBufferBytes / each);
    total = (n * each + kHugePage - 1) / kHugePage * kHugePage;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kHugePage, total)));
    if (data_ == nullptr) std::exit(2);
    madvise(data_.get(), total, MADV_HUGEPAGE);
    for (size_t i = 0; i < n; ++i) {
      std::byte* at = data_.get() + i * each;
      if (i == 0) {
        weights.push_back(
            ops.pack({&matrix, 1}, Stack::kRows, kind.precision, {at, bytes}).value());
      } else {
        std::memcpy(at, data_.get(), bytes);
        weights.push_back(weights[0]);
        weights.back().data = at;
      }
    }
  }
  const float* floats() const { return reinterpret_cast<const float*>(data_.get()); }

  static constexpr int64_t kRows = 8;
  std::vector<float> first_rows;  // [kRows, n_in]: the weights repeat them
  std::vector<Weight> weights;
  size_t bytes = 0, n = 0, total = 0;

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

// Beyond what rounding of activations allows?
bool wrong(const Copies& copies, const Shape& shape, const std::vector<float>& x,
           const std::vector<float>& y) {
  for (int64_t j = 0; j < shape.n_out; j += 1 + shape.n_out / 997) {
    double exact = 0, size = 0;
    for (int64_t k = 0; k < shape.n_in; ++k) {
      const double w = copies.first_rows[static_cast<size_t>(j % Copies::kRows * shape.n_in + k)];
      exact += w * x[static_cast<size_t>(k)];
      size += std::fabs(w);
    }
    if (!(std::fabs(y[static_cast<size_t>(j)] - exact) <= size / 60)) return true;
  }
  return false;
}

void run(benchmark::State& state, Shape shape, Kind kind, int n_threads) {
  const auto ops = make(n_threads);
  auto pool = ThreadPool::create(n_threads);
  if (!pool) return state.SkipWithError(pool.error().text);
  const KernelTable& table = *find_kernel_table("").value();
  const Copies copies(*ops, shape, kind);
  const auto n_in = static_cast<size_t>(shape.n_in), n_out = static_cast<size_t>(shape.n_out);
  std::vector<float> x(n_in), y(n_out);
  std::mt19937 generator(2);
  for (float& v : x) v = std::uniform_real_distribution<float>(-1, 1)(generator);
  double best = 1e30, best_read = 1e30;
  for (auto _ : state) {
    double start = now();
    for (const Weight& w : copies.weights)
      ops->linear({x.data(), 1, shape.n_in}, w, {.y = {y.data(), 1, shape.n_out}});
    best = std::min(best, now() - start);
    start = now();
    pool.value()->run([&](int t) {
      const Range part = part_of(static_cast<int64_t>(copies.total / 1024), t, n_threads);
      volatile float sink =
          table.read_all(copies.floats() + part.first * 256, (part.last - part.first) * 1024);
      (void)sink;
    });
    best_read = std::min(best_read, now() - start);
  }
  if (wrong(copies, shape, x, y)) return state.SkipWithError("wrong result");
  const double gbs = double(copies.bytes) * double(copies.n) / best * 1e-9,
               read_gbs = double(copies.total) / best_read * 1e-9;
  state.counters["us"] = best / double(copies.n) * 1e6;
  state.counters["GBs"] = gbs;
  state.counters["read_GBs"] = read_gbs;
  state.counters["percent"] = 100 * gbs / read_gbs;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  using namespace outrider;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const int all = make(0)->n_threads();
  std::printf("table %s, %d threads, %s\n", make(0)->kernel_table(), all, cpu_features());
  for (int n_threads = 1; n_threads <= all; n_threads += std::max(1, all - 1))
    for (const Kind& kind : kKinds)
      for (const Shape& shape : kShapes)
        benchmark::RegisterBenchmark((std::string("decode/") + kind.name + "/" + shape.name + "/" +
                                      std::to_string(n_threads))
                                         .c_str(),
                                     run, shape, kind, n_threads)
            ->Iterations(12);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
