#include "models/rope_table.h"

#include <cmath>

#include "tensor/dtype.h"

namespace outrider {

RopeTable RopeTable::make(int64_t n_positions, int64_t head_dim, double base,
                          bool round_frequencies) {
  RopeTable table;
  table.n_positions_ = n_positions;
  table.half_ = head_dim / 2;
  const size_t n = static_cast<size_t>(n_positions * table.half_);
  table.cos_.resize(n);
  table.sin_.resize(n);
  for (int64_t j = 0; j < table.half_; ++j) {
    float frequency = static_cast<float>(
        std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(head_dim)));
    if (round_frequencies) frequency = round_to_bf16(frequency);
    for (int64_t p = 0; p < n_positions; ++p) {
      const double angle = static_cast<double>(p) * static_cast<double>(frequency);
      const size_t at = static_cast<size_t>(p * table.half_ + j);
      table.cos_[at] = static_cast<float>(std::cos(angle));
      table.sin_[at] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

}  // namespace outrider
