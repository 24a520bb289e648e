// Cosines and sines of the rotary embedding for positions 0 .. n-1. Source: pi-policy.md 7.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/view.h"

namespace outrider {

class RopeTable {
 public:
  // head_dim even. round_frequencies: base^(-2j/d) is rounded to bfloat16 first (as a PyTorch model
  // cast to bf16 does).
  static RopeTable make(int64_t n_positions, int64_t head_dim, double base, bool round_frequencies);
  // The same with frequency j divided by factor and, where divisors are given, by the j-th of them
  // (head_dim / 2, above 0).
  static RopeTable make_scaled(int64_t n_positions, int64_t head_dim, double base, double factor,
                               std::span<const float> divisors);

  // [n, head_dim/2] rows for positions first .. first + n - 1.
  View<const float> cos(int64_t first, int64_t n) const { return at(cos_, first, n); }
  View<const float> sin(int64_t first, int64_t n) const { return at(sin_, first, n); }
  int64_t n_positions() const { return n_positions_; }

 private:
  View<const float> at(const std::vector<float>& table, int64_t first, int64_t n) const {
    return {table.data() + first * half_, n, half_};
  }
  static RopeTable of(int64_t n_positions, std::span<const float> frequencies);
  int64_t n_positions_ = 0, half_ = 0;
  std::vector<float> cos_, sin_;
};

}  // namespace outrider
