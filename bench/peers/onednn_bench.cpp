// Outrider's products against oneDNN's, in turn on the same cores: bf16 and int8 at the shapes of
// one PI0.5 run.
//
//   onednn_bench [threads] [rounds] [filter]
//
// Both run on the first `threads` CPUs that this process may use. oneDNN's weights are reordered
// once into the layout it chooses. Both write f32. Ours takes f32 rows and rounds and packs them in
// every call. oneDNN is timed twice: on rows that are bf16 or unsigned bytes already ("ready"), and
// on f32 rows that its own reorder converts first ("f32 in"), which is the same job, but for the
// search for each row's largest value, which it is spared in int8. Every product is computed by
// both on whole numbers and compared exactly before it is timed.
//
// A round times one after the other, each behind an untimed call and a pause in which the threads
// of the other go to sleep. Printed: GOPS of the fastest round, and how many times as fast ours is
// as either of oneDNN's: by the fastest rounds, and the median of all rounds with the first and the
// last tenth.
#include <omp.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/shapes.h"
#include "dnnl.hpp"
#include "kernels/cpu_ops.h"
#include "kernels/peak.h"
#include "tensor/dtype.h"

namespace outrider::bench {
namespace {

constexpr double kSlotSeconds = 0.01;
// The threads of OpenMP spin for some milliseconds behind a product; meanwhile they would take the
// cores from ours.
constexpr timespec kPause{0, 25000000};
constexpr int64_t kMaxRows = 1024, kMaxIn = 16384;

double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Threads made from now on run on the first n CPUs of the mask only. False: there are fewer.
bool pin_to_first(int n) {
  cpu_set_t all, chosen;
  CPU_ZERO(&chosen);
  if (sched_getaffinity(0, sizeof all, &all) != 0) return false;
  int taken = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE && taken < n; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_SET(cpu, &chosen);
    ++taken;
  }
  return taken == n && sched_setaffinity(0, sizeof chosen, &chosen) == 0;
}

// Huge pages where the system has them, as a run of a policy has: for the operands of both.
std::byte* pages(size_t bytes) {
  constexpr size_t kHugePage = 2 << 20;
  const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kHugePage, rounded));
  if (data == nullptr) std::exit(2);
  madvise(data, rounded, MADV_HUGEPAGE);
  return data;
}

// Zeros to begin with.
class Floats {
 public:
  explicit Floats(int64_t n)
      : n_(static_cast<size_t>(n)), data_(reinterpret_cast<float*>(pages(n_ * sizeof(float)))) {
    std::fill_n(data_, n_, 0.0f);
  }
  ~Floats() { std::free(data_); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  float* data() const { return data_; }
  float* begin() const { return data_; }
  float* end() const { return data_ + n_; }
  size_t size() const { return n_; }
  bool same_as(const Floats& other) const { return std::equal(begin(), end(), other.begin()); }

 private:
  size_t n_;
  float* data_;
};

// Both operands as whole numbers that every precision keeps. In int8 a 127 in every row makes its
// scale 1.
struct Operands {
  Operands(const Shape& s, bool int8) : x(s.m * s.n_in), w(s.n_out * s.n_in) {
    std::mt19937 generator(1);
    for (float& v : x) v = static_cast<float>(generator() % 5);
    for (float& v : w) v = static_cast<float>(static_cast<int>(generator() % 5) - 2);
    if (!int8) return;
    for (size_t i = 0; i < x.size(); i += static_cast<size_t>(s.n_in)) x.data()[i + 1] = 127;
    for (size_t i = 0; i < w.size(); i += static_cast<size_t>(s.n_in)) w.data()[i] = 127;
  }
  Floats x, w;
};

class Ours {
 public:
  Ours(Ops& ops, const Shape& s, const Operands& from, bool int8)
      : ops_(ops), x_(from.x.data(), s.m, s.n_in), y_(s.m * s.n_out) {
    const Matrix matrix{DType::kF32, s.n_out, s.n_in, from.w.data()};
    const Precision precision = int8 ? Precision::kInt8 : Precision::kBf16;
    const size_t bytes = ops.packed_bytes({&matrix, 1}, Stack::kRows, precision).value();
    storage_ = pages(bytes);
    weight_ = ops.pack({&matrix, 1}, Stack::kRows, precision, {storage_, bytes}).value();
  }
  ~Ours() { std::free(storage_); }
  Ours(const Ours&) = delete;
  Ours& operator=(const Ours&) = delete;

  void run() { ops_.linear(x_, weight_, {.y = {y_.data(), x_.rows, weight_.n_out}}); }
  const Floats& y() const { return y_; }

 private:
  Ops& ops_;
  View<const float> x_;
  Floats y_;
  std::byte* storage_ = nullptr;
  Weight weight_;
};

class Theirs {
 public:
  Theirs(const dnnl::engine& engine, const Shape& s, const Operands& from, bool int8)
      : stream_(engine), y_(s.m * s.n_out) {
    using dt = dnnl::memory::data_type;
    using tag = dnnl::memory::format_tag;
    const dt x_type = int8 ? dt::u8 : dt::bf16, w_type = int8 ? dt::s8 : dt::bf16;
    const dnnl::memory::dims x_dims{s.m, s.n_in}, w_dims{s.n_in, s.n_out}, y_dims{s.m, s.n_out};
    dnnl::primitive_attr attr;
    if (int8) attr.set_output_scales(1 << 1, std::vector<float>(static_cast<size_t>(s.n_out), 1));
    const dnnl::matmul::primitive_desc plan(
        {{x_dims, x_type, tag::ab}, {w_dims, w_type, tag::any}, {y_dims, dt::f32, tag::ab}}, attr,
        engine);
    x_pages_ = pages(plan.src_desc().get_size());
    w_pages_ = pages(plan.weights_desc().get_size());
    const auto convert = [&](const Floats& values, const dnnl::memory::desc& from_desc,
                             const dnnl::memory::desc& to_desc, std::byte* to) {
      dnnl::memory source(from_desc, engine, values.data()), result(to_desc, engine, to);
      dnnl::reorder(source, result).execute(stream_, source, result);
      stream_.wait();
      return result;
    };
    const dnnl::memory::desc f32_rows(x_dims, dt::f32, tag::ab);
    const auto x = convert(from.x, f32_rows, plan.src_desc(), x_pages_);
    const auto w = convert(from.w, {w_dims, dt::f32, tag::ba}, plan.weights_desc(), w_pages_);
    args_ = {{DNNL_ARG_SRC, x},
             {DNNL_ARG_WEIGHTS, w},
             {DNNL_ARG_DST, dnnl::memory(plan.dst_desc(), engine, y_.data())}};
    product_ = dnnl::matmul(plan);
    f32_x_ = dnnl::memory(f32_rows, engine, from.x.data());
    x_ = x;
    round_ = dnnl::reorder(f32_x_, x_);
  }
  ~Theirs() {
    std::free(x_pages_);
    std::free(w_pages_);
  }
  Theirs(const Theirs&) = delete;
  Theirs& operator=(const Theirs&) = delete;

  // With rows that are ready.
  void run() {
    product_.execute(stream_, args_);
    stream_.wait();
  }
  void run_from_f32() {
    round_.execute(stream_, f32_x_, x_);
    run();
  }
  const Floats& y() const { return y_; }

 private:
  dnnl::stream stream_;
  Floats y_;
  std::unordered_map<int, dnnl::memory> args_;
  dnnl::matmul product_;
  std::byte *x_pages_ = nullptr, *w_pages_ = nullptr;
  dnnl::memory f32_x_, x_;
  dnnl::reorder round_;
};

// Seconds of one call: the mean of as many as fill a slot.
template <class Call>
double time_one(const Call& call, int n_calls) {
  nanosleep(&kPause, nullptr);
  call();
  const double start = now();
  for (int i = 0; i < n_calls; ++i) call();
  return (now() - start) / n_calls;
}

double at_share(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

// False when the two differ.
bool compare(Ops& ops, const dnnl::engine& engine, const Shape& s, bool int8, int rounds,
             double limit_gops) {
  const Operands operands(s, int8);
  Ours ours(ops, s, operands, int8);
  Theirs theirs(engine, s, operands, int8);
  ours.run();
  theirs.run();
  if (!ours.y().same_as(theirs.y())) {
    std::fprintf(stderr, "onednn_bench: %s: the two results differ\n", s.name);
    return false;
  }
  const auto our_call = [&] { ours.run(); };
  const double once = std::max(time_one(our_call, 1), 1e-6);
  const int n_calls = std::max(1, static_cast<int>(kSlotSeconds / once));
  std::vector<double> mine, ready, from_f32, faster_ready, faster_f32;
  for (int i = 0; i < rounds; ++i) {
    mine.push_back(time_one(our_call, n_calls));
    ready.push_back(time_one([&] { theirs.run(); }, n_calls));
    from_f32.push_back(time_one([&] { theirs.run_from_f32(); }, n_calls));
    faster_ready.push_back(ready.back() / mine.back());
    faster_f32.push_back(from_f32.back() / mine.back());
  }
  const double work = 2.0 * double(s.m) * double(s.n_out) * double(s.n_in) * 1e-9;
  const double best = at_share(mine, 0), best_ready = at_share(ready, 0),
               best_f32 = at_share(from_f32, 0);
  std::printf("%-18s %-4s %4lld %6lld %6lld %7.1f %7.1f %7.1f %6.1f", s.name,
              int8 ? "int8" : "bf16", static_cast<long long>(s.m), static_cast<long long>(s.n_out),
              static_cast<long long>(s.n_in), work / best, work / best_ready, work / best_f32,
              100 * work / best / limit_gops);
  std::printf(" | %5.2f %5.2f (%.2f to %.2f)", best_ready / best, at_share(faster_ready, 0.5),
              at_share(faster_ready, 0.1), at_share(faster_ready, 0.9));
  std::printf(" | %5.2f %5.2f (%.2f to %.2f)\n", best_f32 / best, at_share(faster_f32, 0.5),
              at_share(faster_f32, 0.1), at_share(faster_f32, 0.9));
  std::fflush(stdout);
  return true;
}

int run(int n_threads, int rounds, const char* filter) {
  if (!pin_to_first(n_threads)) {
    std::fprintf(stderr, "onednn_bench: fewer than %d CPUs may be used\n", n_threads);
    return 2;
  }
  omp_set_num_threads(n_threads);
  auto made = make_cpu_ops({.n_threads = n_threads});
  if (!made || !made.value()->reserve({.max_rows = kMaxRows, .max_in = kMaxIn})) return 2;
  Ops& ops = *made.value();
  const auto measured = measure_limits(n_threads);
  if (!measured) return 2;
  const Limits& limit = measured.value().all;
  const dnnl_version_t* version = dnnl_version();
  std::printf("table %s, %d threads, oneDNN %d.%d.%d; limit bf16 %.0f, int8 %.0f GOPS\n",
              ops.kernel_table(), ops.n_threads(), version->major, version->minor, version->patch,
              limit.bf16_gops, limit.int8_gops);
  std::printf("%-18s %-4s %4s %6s %6s %7s %7s %7s %6s | %-27s | %s\n", "product", "type", "m", "n",
              "k", "ours", "ready", "f32 in", "ours%", "faster than ready: best, all",
              "faster than f32 in: best, all");
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  bool same = true;
  for (const bool int8 : {false, true}) {
    std::vector<Shape> shapes(std::begin(kLinears), std::end(kLinears));
    for (Shape s : kGated) shapes.push_back({s.name, s.m, 2 * s.n_out, s.n_in});
    for (const Shape& s : shapes) {
      const std::string name = std::string(s.name) + (int8 ? "/int8" : "/bf16");
      if (name.find(filter) == std::string::npos) continue;
      same =
          compare(ops, engine, s, int8, rounds, int8 ? limit.int8_gops : limit.bf16_gops) && same;
    }
  }
  return same ? 0 : 1;
}

}  // namespace
}  // namespace outrider::bench

int main(int argc, char** argv) {
  const int n_threads = argc > 1 ? std::atoi(argv[1]) : 1,
            rounds = argc > 2 ? std::atoi(argv[2]) : 11;
  if (n_threads < 1 || rounds < 1) {
    std::fprintf(stderr, "usage: onednn_bench [threads] [rounds] [filter]\n");
    return 2;
  }
  return outrider::bench::run(n_threads, rounds, argc > 3 ? argv[3] : "");
}
