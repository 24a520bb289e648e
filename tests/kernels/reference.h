// What the operations mean, in double, one obvious loop each: the oracle of every kernel table.
#pragma once
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cpu_ops.h"
#include "kernels/dispatch.h"
#include "tensor/dtype.h"
#include "tensor/ops.h"

namespace outrider::test {

constexpr double kEps32 = 0x1p-24;  // half a unit in the last place of 1.0f

// What does not depend on the table under test: T of these arguments, made once for all tables.
template <class T, class... Args>
const T& once(const Args&... args) {
  static std::map<std::tuple<Args...>, T> made;
  return made.try_emplace({args...}, args...).first->second;
}

// The first n of a row of values without end that seed and range decide.
inline std::vector<float> random_values(size_t n, uint32_t seed, float low = -1, float high = 1) {
  struct Row {
    Row(uint32_t seed, float low, float high) : generator(seed), values(low, high) {}
    std::mt19937 generator;
    std::uniform_real_distribution<float> values;
    std::vector<float> drawn;
  };
  static std::map<std::tuple<uint32_t, float, float>, Row> rows;
  Row& row = rows.try_emplace({seed, low, high}, seed, low, high).first->second;
  while (row.drawn.size() < n) row.drawn.push_back(row.values(row.generator));
  return {row.drawn.begin(), row.drawn.begin() + static_cast<std::ptrdiff_t>(n)};
}

inline double activate(double x, Activation activation) {
  switch (activation) {
    case Activation::kGeluTanh:
      // 0.5 x (1 + tanh u) without the cancellation of 1 + tanh for u < 0
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluQuick:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    default:
      return x;
  }
}

// Storage aligned as pack and KvCache want it.
class Aligned {
 public:
  explicit Aligned(size_t n_bytes) : raw_(n_bytes + 64), n_bytes_(n_bytes) {}
  std::byte* data() {
    return raw_.data() + (64 - reinterpret_cast<uintptr_t>(raw_.data()) % 64) % 64;
  }
  std::span<std::byte> span() { return {data(), n_bytes_}; }

 private:
  std::vector<std::byte> raw_;
  size_t n_bytes_;
};

// A matrix of random values as stored in a file, and the values it holds.
struct StoredMatrix {
  StoredMatrix(DType dtype, int64_t n_out, int64_t n_in, uint32_t seed)
      : bytes(static_cast<size_t>(n_out) * row_bytes(dtype, n_in)),
        values(random_values(static_cast<size_t>(n_out * n_in), seed)) {
    for (int64_t i = 0; i < n_out; ++i) {
      std::byte* row = bytes.data() + static_cast<size_t>(i) * row_bytes(dtype, n_in);
      quantize_row(dtype, values.data() + i * n_in, row, n_in);
      dequantize_row(dtype, row, values.data() + i * n_in, n_in);
    }
    matrix = {dtype, n_out, n_in, bytes.data()};
  }
  std::vector<std::byte> bytes;
  std::vector<float> values;
  Matrix matrix;
};

struct PackedWeight {
  PackedWeight(Ops& ops, std::vector<Matrix> parts, Stack stack, Precision precision)
      : storage(ops.packed_bytes(parts, stack, precision).value()),
        weight(ops.pack(parts, stack, precision, storage.span()).value()) {}
  Aligned storage;
  Weight weight;
};

inline std::unique_ptr<Ops> make_ops(const std::string& table, int n_threads,
                                     int64_t max_rows = 128, int64_t max_in = 4200) {
  auto ops = make_cpu_ops({.n_threads = n_threads, .kernel_table = table.c_str()});
  if (!ops) return nullptr;
  OpsLimits limits;
  limits.max_rows = max_rows;
  limits.max_in = max_in;
  limits.max_out = 4096;
  limits.max_keys = 1024;
  limits.max_head_dim = 256;
  limits.kv_8bit = true;
  if (!ops.value()->reserve(limits)) return nullptr;
  return std::move(ops.value());
}

inline std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const char* const* name = kernel_table_names(); *name; ++name) names.emplace_back(*name);
  return names;
}

}  // namespace outrider::test
