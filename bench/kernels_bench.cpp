// Products of one PI0.5 run (2 views, 48 prompt tokens), attention and row operations, each against
// the limit measured on this machine just before. Every product is checked first on small
// integers, whose sums are exact in every precision.
//
// Counters: GOPS and percent from the fastest iteration (other programs only make things slower);
// the time columns are Google Benchmark's means. --benchmark_filter picks; OUTRIDER_THREADS sets
// the thread count, OUTRIDER_TABLE the kernel table. OUTRIDER_CPU_TIME=1 counts the processor time
// of the process instead of the wall's: for one thread on a machine that has other work.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include "bench/shapes.h"
#include "kernels/cpu_ops.h"
#include "kernels/dispatch.h"
#include "kernels/peak.h"
#include "tensor/dtype.h"

namespace outrider {
namespace {

using bench::kGated;
using bench::kLinears;
using bench::Shape;

Ops& ops() {
  static const std::unique_ptr<Ops> instance = [] {
    const char* threads = std::getenv("OUTRIDER_THREADS");
    const char* table = std::getenv("OUTRIDER_TABLE");
    auto made = make_cpu_ops({threads ? std::atoi(threads) : 0, table ? table : ""});
    if (!made) {
      std::fprintf(stderr, "kernels_bench: %s\n", made.error().text);
      std::exit(2);
    }
    OpsLimits limits{
        .max_rows = 1024, .max_in = 16384, .max_out = 32768, .max_keys = 1024, .max_head_dim = 256};
    if (!made.value()->reserve(limits)) std::exit(2);
    return std::move(made.value());
  }();
  return *instance;
}

const Limits& roof() {
  static const Limits limits = [] {
    auto measured = measure_limits(ops().n_threads());
    if (!measured) std::exit(2);
    const MachineLimits& m = measured.value();
    for (const auto& [what, l] : {std::pair{"one thread", m.one}, {"all threads", m.all}})
      std::printf("limit, %-11s f32 %.0f, bf16 %.0f, int8 %.0f GOPS; read %.1f GB/s\n", what,
                  l.f32_gops, l.bf16_gops, l.int8_gops, l.read_gbs);
    std::printf("table %s, %d threads, %s\n", ops().kernel_table(), ops().n_threads(),
                cpu_features());
    return m.all;
  }();
  return limits;
}

float* aligned(size_t n_floats) {
  constexpr size_t kHugePage = 2 << 20;
  const size_t n_bytes = (n_floats * 4 + kHugePage - 1) / kHugePage * kHugePage;
  auto* data = static_cast<float*>(std::aligned_alloc(kHugePage, n_bytes));
  if (data == nullptr) std::exit(2);
  madvise(data, n_bytes, MADV_HUGEPAGE);
  return data;
}

// Integers in [-2, 2]: products and sums of thousands of them are exact in bf16 and in f32.
std::vector<float> small_integers(int64_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = static_cast<float>(static_cast<int>(generator() % 5) - 2);
  return values;
}

double now() {
  static const bool cpu_time = std::getenv("OUTRIDER_CPU_TIME") != nullptr;
  timespec t{};
  clock_gettime(cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Timed {
  double best = 1e30;
  template <class F>
  void run(benchmark::State& state, const F& f) {
    for (auto _ : state) {
      const double start = now();
      f();
      best = std::min(best, now() - start);
    }
  }
};

void report(benchmark::State& state, double seconds, double ops_done, double limit_gops,
            double bytes) {
  const double gops = ops_done / seconds * 1e-9;
  // What binds: the operations or the bytes of one pass over the operands.
  const double floor = std::max(ops_done / (limit_gops * 1e9), bytes / (roof().read_gbs * 1e9));
  state.counters["best_ms"] = seconds * 1e3;
  state.counters["GOPS"] = gops;
  state.counters["GBs"] = bytes / seconds * 1e-9;
  state.counters["percent"] = 100 * floor / seconds;
}

void run_product(benchmark::State& state, Shape s, Precision precision, bool gated) {
  auto w = small_integers(s.n_out * s.n_in, 1),
       up = small_integers(gated ? s.n_out * s.n_in : 0, 2), x = small_integers(s.m * s.n_in, 3);
  if (precision == Precision::kInt8) {
    // A scale of 1 in every row of both operands.
    for (size_t i = 0; i < w.size(); i += static_cast<size_t>(s.n_in)) w[i] = 127;
    for (size_t i = 0; i < up.size(); i += static_cast<size_t>(s.n_in)) up[i + 2] = 127;
    for (size_t i = 0; i < x.size(); i += static_cast<size_t>(s.n_in)) x[i + 1] = 127;
  }
  const bool stored = precision == Precision::kStored;
  std::vector<std::byte> blocks[2];
  if (stored) {
    // The same in every block of 32, in other places of each operand.
    for (size_t i = 0; i < w.size(); i += 32) w[i] = 127;
    for (size_t i = 0; i < up.size(); i += 32) up[i + 2] = 127;
    for (size_t i = 0; i < x.size(); i += 32) x[i + 1] = 127;
    for (const auto& [values, to] : {std::pair{&w, &blocks[0]}, std::pair{&up, &blocks[1]}}) {
      to->resize(row_bytes(DType::kQ8_0, static_cast<int64_t>(values->size())));
      quantize_row(DType::kQ8_0, values->data(), to->data(), static_cast<int64_t>(values->size()));
    }
  }
  std::vector<uint16_t> half[2];
  for (size_t i = 0; i < w.size(); ++i) half[0].push_back(f32_to_bf16(w[i]));
  for (size_t i = 0; i < up.size(); ++i) half[1].push_back(f32_to_bf16(up[i]));
  const bool bf16 = precision == Precision::kBf16;
  const auto part = [&](size_t i, std::vector<float>& values) -> Matrix {
    if (stored) return {DType::kQ8_0, s.n_out, s.n_in, blocks[i].data()};
    if (bf16) return {DType::kBf16, s.n_out, s.n_in, half[i].data()};
    return {DType::kF32, s.n_out, s.n_in, values.data()};
  };
  std::vector<Matrix> parts{part(0, w)};
  if (gated) parts.push_back(part(1, up));
  const Stack stack = gated ? Stack::kPaired : Stack::kRows;
  const size_t bytes = ops().packed_bytes(parts, stack, precision).value();
  auto* storage = reinterpret_cast<std::byte*>(aligned(bytes / 4));
  const Weight packed = ops().pack(parts, stack, precision, {storage, bytes}).value();
  float* y = aligned(static_cast<size_t>(s.m * s.n_out));
  const View<const float> in{x.data(), s.m, s.n_in};
  const View<float> out{y, s.m, s.n_out};
  const auto product = [&] {
    if (gated) {
      ops().gated_linear(in, packed, Activation::kNone, out);
    } else {
      ops().linear(in, packed, {.y = out});
    }
  };
  product();
  for (int64_t i = 0; i < s.m * s.n_out; i += 1 + s.m * s.n_out / 997) {
    double a = 0, b = 0;
    for (int64_t k = 0; k < s.n_in; ++k) {
      const double value = x[static_cast<size_t>(i / s.n_out * s.n_in + k)];
      const auto at = static_cast<size_t>(i % s.n_out * s.n_in + k);
      a += value * w[at];
      if (gated) b += value * up[at];
    }
    if (y[i] != static_cast<float>(gated ? a * b : a)) return state.SkipWithError("wrong result");
  }
  Timed timed;
  timed.run(state, product);
  const double n = gated ? 2 : 1;
  report(state, timed.best, 2.0 * n * double(s.m) * double(s.n_out) * double(s.n_in),
         stored || precision == Precision::kInt8 ? roof().int8_gops
         : bf16                                  ? roof().bf16_gops
                                                 : roof().f32_gops,
         double(bytes) + 4.0 * double(s.m) * double(s.n_in + s.n_out));
  std::free(storage);
  std::free(y);
}

void run_attention(benchmark::State& state, int64_t n_q, int64_t n_keys, int32_t heads,
                   int32_t kv_heads, int32_t dim, DType type) {
  const auto q = small_integers(n_q * heads * dim, 1),
             k = small_integers(n_keys * kv_heads * dim, 2);
  float* storage = aligned(ops().kv_bytes(n_keys, kv_heads, dim, type) / 4);
  const KvCache cache{storage, n_keys, kv_heads, dim, type};
  ops().kv_store(cache, 0, {k.data(), n_keys, kv_heads * dim}, {k.data(), n_keys, kv_heads * dim});
  std::vector<float> out(q.size());
  AttentionArgs args;
  args.q = {q.data(), n_q, heads * dim};
  args.n_heads = heads;
  args.scale = 0.05f;
  args.n_keys = n_keys;
  args.out = {out.data(), n_q, heads * dim};
  Timed timed;
  timed.run(state, [&] { ops().attention(args, cache); });
  report(state, timed.best, 4.0 * double(n_q) * double(n_keys) * heads * dim,
         type == DType::kF32 ? roof().f32_gops : roof().bf16_gops, 0);
  std::free(storage);
}

void run_kv_store(benchmark::State& state, int64_t n, int32_t kv_heads, int32_t dim, DType type) {
  const auto k = small_integers(n * kv_heads * dim, 2);
  float* storage = aligned(ops().kv_bytes(n, kv_heads, dim, type) / 4);
  const KvCache cache{storage, n, kv_heads, dim, type};
  const View<const float> rows{k.data(), n, kv_heads * dim};
  Timed timed;
  timed.run(state, [&] { ops().kv_store(cache, 0, rows, rows); });
  state.counters["best_ms"] = timed.best * 1e3;
  std::free(storage);
}

void run_rows(benchmark::State& state, const char* what, int64_t m, int64_t n) {
  auto x = small_integers(m * n, 1), y = x;
  const auto w = small_integers(n, 2);
  const std::string_view name = what;
  Timed timed;
  timed.run(state, [&] {
    if (name == "rms_norm")
      ops().rms_norm({x.data(), m, n}, w.data(), nullptr, 1e-6f, {y.data(), m, n});
    if (name == "layer_norm")
      ops().layer_norm({x.data(), m, n}, w.data(), w.data(), 1e-6f, {y.data(), m, n});
    if (name == "gelu") ops().activate({x.data(), m, n}, Activation::kGeluTanh);
    if (name == "rope") ops().rope({x.data(), m, n}, 256, {y.data(), m, 128}, {y.data(), m, 128});
  });
  state.counters["best_ms"] = timed.best * 1e3;
  state.counters["GBs"] = 8.0 * double(m * n) / timed.best * 1e-9;
}

void run_pack(benchmark::State& state, DType dtype, Precision precision) {
  const int64_t n_out = 8192, n_in = 8192;
  std::vector<std::byte> source(n_out * row_bytes(dtype, n_in));
  const Matrix matrix{dtype, n_out, n_in, source.data()};
  const size_t bytes = ops().packed_bytes({&matrix, 1}, Stack::kRows, precision).value();
  auto* storage = reinterpret_cast<std::byte*>(aligned(bytes / 4));
  Timed timed;
  timed.run(state, [&] {
    benchmark::DoNotOptimize(ops().pack({&matrix, 1}, Stack::kRows, precision, {storage, bytes}));
  });
  state.counters["best_ms"] = timed.best * 1e3;
  state.counters["GBs"] = double(source.size()) / timed.best * 1e-9;
  std::free(storage);
}

void register_all() {
  for (auto [precision, suffix] : {std::pair{Precision::kF32, "/f32"},
                                   {Precision::kBf16, "/bf16"},
                                   {Precision::kInt8, "/int8"},
                                   {Precision::kStored, "/q8_0"}}) {
    for (const Shape& s : kLinears) {
      if (precision == Precision::kStored && s.n_in % 32 != 0) continue;
      benchmark::RegisterBenchmark((std::string(s.name) + suffix).c_str(), run_product, s,
                                   precision, false);
    }
    for (const Shape& s : kGated)
      benchmark::RegisterBenchmark((std::string(s.name) + suffix).c_str(), run_product, s,
                                   precision, true);
  }
  for (auto [type, suffix] : {std::pair{DType::kF32, "/f32"}, {DType::kBf16, "/bf16"}}) {
    const auto attention = [&](const char* name, int64_t n_q, int64_t n_keys, int32_t heads,
                               int32_t kv_heads, int32_t dim) {
      benchmark::RegisterBenchmark((std::string(name) + suffix).c_str(), run_attention, n_q, n_keys,
                                   heads, kv_heads, dim, type);
    };
    attention("attention/vision", 256, 256, 16, 16, 72);
    attention("attention/prefix", 560, 560, 8, 1, 256);
    attention("attention/expert", 50, 610, 8, 1, 256);
    attention("attention/decode", 1, 968, 8, 1, 256);
    benchmark::RegisterBenchmark((std::string("kv_store/vision") + suffix).c_str(), run_kv_store,
                                 256, 16, 72, type);
    benchmark::RegisterBenchmark((std::string("kv_store/prefix") + suffix).c_str(), run_kv_store,
                                 560, 1, 256, type);
  }
  benchmark::RegisterBenchmark("rows/rms_norm", run_rows, "rms_norm", 560, 2048);
  benchmark::RegisterBenchmark("rows/layer_norm", run_rows, "layer_norm", 512, 1152);
  benchmark::RegisterBenchmark("rows/gelu", run_rows, "gelu", 512, 4304);
  benchmark::RegisterBenchmark("rows/rope", run_rows, "rope", 560, 2048);
  benchmark::RegisterBenchmark("pack/bf16", run_pack, DType::kBf16, Precision::kBf16);
  benchmark::RegisterBenchmark("pack/f32", run_pack, DType::kF32, Precision::kF32);
  benchmark::RegisterBenchmark("pack/f32_to_bf16", run_pack, DType::kF32, Precision::kBf16);
  benchmark::RegisterBenchmark("pack/q8_0_to_bf16", run_pack, DType::kQ8_0, Precision::kBf16);
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  outrider::roof();
  outrider::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
