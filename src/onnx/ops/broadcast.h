// Elementwise loops over arrays of different shapes: dimensions are joined where every operand
// allows, so that what is left is a long inner loop with strides 0 or 1.
#pragma once
#include "onnx/kernel.h"

namespace outrider::onnx {

// The shape that both broadcast to, NumPy's rule. Errors: kNotFound naming both.
Result<Shape> broadcast_shape(const NodeContext& c, const Shape& a, const Shape& b);

// Up to kMost operands over one output shape.
struct Loops {
  static constexpr int kMost = 3;
  int rank = 0;  // of what is left; the last dimension is the inner loop
  int n_operands = 0;
  int64_t dims[kMaxRank] = {};
  int64_t stride[kMost][kMaxRank] = {};  // in elements
  int64_t n_values = 0;

  Loops() = default;
  Loops(const Shape& out, std::initializer_list<const Shape*> operands);

  int64_t inner() const { return rank == 0 ? 1 : dims[rank - 1]; }
  int64_t inner_stride(int operand) const { return rank == 0 ? 1 : stride[operand][rank - 1]; }
  int64_t n_rows() const { return n_values == 0 ? 0 : n_values / inner(); }

  // f(first output element, offsets of the operands) for every inner row [first, last).
  template <class F>
  void rows(int64_t first, int64_t last, const F& f) const {
    int64_t index[kMaxRank] = {}, at[kMost] = {};
    int64_t rest = first;
    for (int d = rank - 2; d >= 0; --d) {
      index[d] = rest % dims[d];
      rest /= dims[d];
      for (int k = 0; k < n_operands; ++k) at[k] += index[d] * stride[k][d];
    }
    for (int64_t row = first; row < last; ++row) {
      f(row * inner(), at);
      for (int d = rank - 2; d >= 0; --d) {
        for (int k = 0; k < n_operands; ++k) at[k] += stride[k][d];
        if (++index[d] < dims[d]) break;
        for (int k = 0; k < n_operands; ++k) at[k] -= dims[d] * stride[k][d];
        index[d] = 0;
      }
    }
  }
};

// Below so many values one thread is done before a second has heard of it.
inline constexpr int64_t kAloneValues = 1 << 15;

// f(first, last) over [0, n) on all threads, cut at multiples of `grain`; alone when n * weight is
// small.
template <class F>
void share_range(Ops* ops, int64_t n, int64_t weight, const F& f) {
  if (ops->n_threads() == 1 || n <= 1 || n * weight < kAloneValues) return f(int64_t{0}, n);
  struct Job {
    const F* f;
    int64_t n;
  } job{&f, n};
  ops->share(
      [](const void* context, int t, int n_parts) {
        const auto& j = *static_cast<const Job*>(context);
        const int64_t first = j.n * t / n_parts, last = j.n * (t + 1) / n_parts;
        if (first < last) (*j.f)(first, last);
      },
      &job);
}

}  // namespace outrider::onnx
