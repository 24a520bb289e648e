// The two ways to resample packed RGB with a triangle filter: integers in the manner of PIL, and
// floating point. One object per (source size -> content size); made once, run without heap.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace outrider::vision {

struct SizePair {
  int src_width = 0, src_height = 0;  // packed RGB source
  int out_width = 0, out_height = 0;  // content, without bars
};

// Which source samples make one output sample along one axis: for output o the weights
// weight[begin[o] .. begin[o + 1]) belong to the source samples first[o], first[o] + 1, ...
// first never decreases with o.
template <class Weight>
struct Taps {
  std::vector<int32_t> first;
  std::vector<uint32_t> begin;
  std::vector<Weight> weight;

  int n_taps(int o) const { return int(begin[o + 1] - begin[o]); }
  const Weight* weights(int o) const { return weight.data() + begin[o]; }
};

// Weights in units of 2^-22, each pass rounded to u8, horizontal before vertical.
// Source: pi-policy.md 3.1, variant A.
class FixedPasses {
 public:
  explicit FixedPasses(const SizePair& sizes);  // throws std::bad_alloc
  // out: row y of the content begins at out + y * out_stride.
  void run(const uint8_t* src, uint8_t* out, size_t out_stride) noexcept;

 private:
  uint8_t* ring_row(int src_y) {
    return ring_.data() + size_t(src_y % n_ring_rows_) * ring_row_bytes_;
  }
  void narrow_row(const uint8_t* in, uint8_t* out) noexcept;
  void blend_rows(int out_y, uint8_t* out) noexcept;

  SizePair sizes_;
  Taps<int32_t> x_, y_;  // x_ arranged for narrow_row
  // Source rows after the horizontal pass, as many as one output row can reach: row r is kept at
  // r % n_ring_rows_, so the whole intermediate picture is never in memory.
  int n_ring_rows_ = 0;
  size_t ring_row_bytes_ = 0;
  std::vector<uint8_t> ring_;
  std::vector<uint8_t> row_;  // one source row with slack behind it
};

enum class Rounding : uint8_t { kHalfEven, kHalfAway };

// Weights and sums in Real, no rounding between the passes, vertical before horizontal.
// Source: gguf-models.md B.6 (float, half away) and pi-policy.md 3.1, variant B (double, half
// even).
template <class Real>
class FloatPasses {
 public:
  FloatPasses(const SizePair& sizes, Rounding rounding);  // throws std::bad_alloc
  void run(const uint8_t* src, uint8_t* out, size_t out_stride) noexcept;

 private:
  void blend_rows(const uint8_t* src, int out_y) noexcept;
  void narrow_row(uint8_t* out) const noexcept;

  SizePair sizes_;
  Rounding rounding_;
  Taps<Real> x_, y_;
  std::vector<Real> row_;  // one output row at the source's width
};

extern template class FloatPasses<float>;
extern template class FloatPasses<double>;

}  // namespace outrider::vision
