#include "models/rope_table.h"

#include <cmath>

#include "tensor/dtype.h"

namespace outrider {

namespace {

float frequency(double base, int64_t j, int64_t head_dim) {
  return static_cast<float>(
      std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(head_dim)));
}

}  // namespace

RopeTable RopeTable::of(int64_t n_positions, std::span<const float> frequencies) {
  RopeTable table;
  table.n_positions_ = n_positions;
  table.half_ = static_cast<int64_t>(frequencies.size());
  const size_t n = static_cast<size_t>(n_positions * table.half_);
  table.cos_.resize(n);
  table.sin_.resize(n);
  for (int64_t p = 0; p < n_positions; ++p) {
    for (int64_t j = 0; j < table.half_; ++j) {
      const double angle =
          static_cast<double>(p) * static_cast<double>(frequencies[static_cast<size_t>(j)]);
      const size_t at = static_cast<size_t>(p * table.half_ + j);
      table.cos_[at] = static_cast<float>(std::cos(angle));
      table.sin_[at] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

RopeTable RopeTable::make(int64_t n_positions, int64_t head_dim, double base,
                          bool round_frequencies) {
  std::vector<float> frequencies;
  for (int64_t j = 0; j < head_dim / 2; ++j) {
    const float f = frequency(base, j, head_dim);
    frequencies.push_back(round_frequencies ? round_to_bf16(f) : f);
  }
  return of(n_positions, frequencies);
}

RopeTable RopeTable::make_scaled(int64_t n_positions, int64_t head_dim, double base, double factor,
                                 std::span<const float> divisors) {
  std::vector<float> frequencies;
  for (int64_t j = 0; j < head_dim / 2; ++j) {
    const double divisor = divisors.empty() ? 1.0 : double(divisors[static_cast<size_t>(j)]);
    frequencies.push_back(
        static_cast<float>(double(frequency(base, j, head_dim)) / factor / divisor));
  }
  return of(n_positions, frequencies);
}

}  // namespace outrider
