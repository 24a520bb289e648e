#include "kernels/self_test.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/rng.h"
#include "kernels/cpu_ops.h"
#include "kernels/dispatch.h"

namespace outrider {
namespace {

constexpr double kEps = 0x1p-24;         // half a unit in the last place of f32
constexpr int64_t kIn = 160, kOut = 40;  // five blocks of 32; two panels and a half
constexpr int64_t kKeys = 21, kHeads = 2, kHeadDim = 32;
constexpr int64_t kRowCounts[] = {1, 33};  // a product of one row has a path of its own

class Bytes {  // 64-byte aligned
 public:
  explicit Bytes(size_t n) : raw_(n + 64), n_(n) {}
  std::span<std::byte> span() {
    void* at = raw_.data();
    size_t room = raw_.size();
    return {static_cast<std::byte*>(std::align(64, n_, at, room)), n_};
  }

 private:
  std::vector<std::byte> raw_;
  size_t n_;
};

std::vector<float> drawn(int64_t n, const char* name) {
  const UniformStream stream(1, name);
  std::vector<float> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i) out[i] = stream.symmetric(i);
  return out;
}

struct Product {
  DType dtype;
  Precision precision;
  const char* what;
};
constexpr Product kProducts[] = {
    {DType::kF32, Precision::kF32, "f32"},      {DType::kF16, Precision::kF32, "f16"},
    {DType::kBf16, Precision::kBf16, "bf16"},   {DType::kF32, Precision::kInt8, "int8"},
    {DType::kQ8_0, Precision::kStored, "Q8_0"}, {DType::kQ4_0, Precision::kStored, "Q4_0"},
};

// Two chains of n roundings, each of at most half a unit of the sum of magnitudes, which rounding
// the factors to bf16 or to 8 bits makes larger by less than 2 %.
float bound_of(const float* x, const float* w) {
  double magnitude = 0;
  for (int64_t k = 0; k < kIn; ++k) magnitude += std::abs(double{x[k]} * w[k]);
  return static_cast<float>(2 * (kIn + 2) * kEps * 1.02 * magnitude + 1e-30);
}

Result<SelfTestResult> product(Ops& ops, const Product& p, int64_t m) {
  const std::vector<float> x = drawn(m * kIn, "x");
  std::vector<float> w = drawn(kOut * kIn, "w");
  std::vector<std::byte> rows(static_cast<size_t>(kOut) * row_bytes(p.dtype, kIn));
  for (int64_t o = 0; o < kOut; ++o) {
    std::byte* row = rows.data() + static_cast<size_t>(o) * row_bytes(p.dtype, kIn);
    quantize_row(p.dtype, &w[static_cast<size_t>(o * kIn)], row, kIn);
    dequantize_row(p.dtype, row, &w[static_cast<size_t>(o * kIn)], kIn);
  }
  const Matrix matrix = {p.dtype, kOut, kIn, rows.data()};
  auto n_bytes = ops.packed_bytes({&matrix, 1}, Stack::kRows, p.precision);
  if (!n_bytes) return n_bytes.error();
  Bytes storage(n_bytes.value());
  auto weight = ops.pack({&matrix, 1}, Stack::kRows, p.precision, storage.span());
  if (!weight) return weight.error();
  SelfTestResult out;
  out.what = std::string("linear ") + p.what + ", " + std::to_string(m) + " rows";
  out.values.resize(static_cast<size_t>(m * kOut));
  LinearOut to;
  to.y = {out.values.data(), m, kOut};
  ops.linear({x.data(), m, kIn}, weight.value(), to);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t o = 0; o < kOut; ++o) out.bounds.push_back(bound_of(&x[i * kIn], &w[o * kIn]));
  return out;
}

SelfTestResult attention(Ops& ops) {
  constexpr int64_t kWidth = kHeads * kHeadDim;
  const std::vector<float> q = drawn(kKeys * kWidth, "q"), k = drawn(kKeys * kWidth, "k"),
                           v = drawn(kKeys * kWidth, "v");
  Bytes storage(ops.kv_bytes(kKeys, kHeads, kHeadDim, DType::kF32));
  const KvCache cache = {storage.span().data(), kKeys, kHeads, kHeadDim, DType::kF32};
  ops.kv_store(cache, 0, {k.data(), kKeys, kWidth}, {v.data(), kKeys, kWidth});
  SelfTestResult out;
  out.what = "attention f32, 21 keys";
  out.values.resize(q.size());
  AttentionArgs args;
  args.q = {q.data(), kKeys, kWidth};
  args.n_heads = kHeads;
  args.scale = static_cast<float>(1 / std::sqrt(double{kHeadDim}));
  args.n_keys = kKeys;
  args.out = {out.values.data(), kKeys, kWidth};
  ops.attention(args, cache);
  // A score errs by (dim + 4) roundings of at most scale * dim, its weight by as much and the 16 of
  // the exponential function, the sum of values below 1 by one rounding a key; two tables.
  const double score = double{kHeadDim} * args.scale;
  const double bound = 2 * kEps * (2 * (kHeadDim + 4) * score + 2 * kKeys + 16);
  out.bounds.assign(out.values.size(), static_cast<float>(2 * bound));
  return out;
}

}  // namespace

Result<std::vector<SelfTestResult>> run_self_test(const char* kernel_table) {
  auto made = make_cpu_ops({.n_threads = 1, .kernel_table = kernel_table});
  if (!made) return made.error();
  Ops& ops = *made.value();
  OpsLimits limits;
  limits.max_rows = 64;
  limits.max_in = kIn;
  limits.max_out = kOut;
  limits.max_keys = kKeys;
  limits.max_head_dim = kHeadDim;
  OUTRIDER_TRY(ops.reserve(limits));
  std::vector<SelfTestResult> out;
  for (const Product& p : kProducts)
    for (const int64_t m : kRowCounts) {
      auto result = product(ops, p, m);
      if (!result) return result.error();
      out.push_back(std::move(result.value()));
    }
  out.push_back(attention(ops));
  return out;
}

Result<void> compare_self_test(const char* kernel_table, const std::vector<SelfTestResult>& got,
                               const std::vector<SelfTestResult>& wanted) {
  for (size_t t = 0; t < wanted.size(); ++t)
    for (size_t i = 0; i < wanted[t].values.size(); ++i) {
      const double value = got[t].values[i], want = wanted[t].values[i];
      if (std::abs(value - want) <= double{wanted[t].bounds[i]}) continue;  // NaN: not within
      return make_error(Code::kFailed,
                        "kernel table %s, %s: value %zu is %.9g, the scalar table computes %.9g, "
                        "allowed is a difference of %.2g",
                        kernel_table, wanted[t].what.c_str(), i, value, want,
                        double{wanted[t].bounds[i]});
    }
  return {};
}

Result<void> self_test() {
  auto wanted = run_self_test("scalar");
  if (!wanted) return wanted.error();
  for (const char* const* name = kernel_table_names(); *name != nullptr; ++name) {
    if (std::strcmp(*name, "scalar") == 0) continue;
    auto got = run_self_test(*name);
    if (!got) return got.error();
    OUTRIDER_TRY(compare_self_test(*name, got.value(), wanted.value()));
  }
  return {};
}

}  // namespace outrider
