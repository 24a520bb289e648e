// Triangle filter in floating point: see FloatPasses.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "vision/resize_passes.h"

namespace outrider::vision {
namespace {

// The triangle is `filter` samples wide on either side of the sample position, never below 1; the
// weights of samples outside the picture are left out and the rest share 1.
template <class Real>
Taps<Real> make_taps(int n_in, int n_out) {
  Taps<Real> taps;
  const Real inverse = Real(1) / (Real(n_out) / Real(n_in)), filter = std::max(inverse, Real(1));
  for (int o = 0; o < n_out; ++o) {
    const Real sample = (Real(o) + Real(0.5)) * inverse - Real(0.5);
    const auto weight = [&](int i) { return Real(1) - std::abs(sample - Real(i)) / filter; };
    int first = std::clamp(int(std::floor(sample - filter)), 0, n_in - 1);
    while (first + 1 < n_in && weight(first) <= 0) ++first;
    taps.first.push_back(first);
    taps.begin.push_back(uint32_t(taps.weight.size()));
    Real sum = 0;
    for (int i = first; i < n_in && weight(i) > 0; ++i) {
      taps.weight.push_back(weight(i));
      sum += weight(i);
    }
    OUTRIDER_ASSERT(sum > 0);
    for (size_t i = taps.begin.back(); i < taps.weight.size(); ++i) taps.weight[i] /= sum;
  }
  taps.begin.push_back(uint32_t(taps.weight.size()));
  return taps;
}

// The fraction is exact, so no half is created or lost by an addition.
template <class Real, Rounding kRounding>
uint8_t to_u8(Real value) {
  const Real clamped = std::min(std::max(value, Real(0)), Real(255));
  const int whole = int(clamped);
  const Real fraction = clamped - Real(whole);
  if constexpr (kRounding == Rounding::kHalfAway) return uint8_t(whole + (fraction >= Real(0.5)));
  return uint8_t(whole + (fraction > Real(0.5) || (fraction == Real(0.5) && whole % 2 == 1)));
}

template <class Real, Rounding kRounding>
void narrow(const Taps<Real>& taps, int n_out, const Real* in, uint8_t* out) {
  for (int o = 0; o < n_out; ++o, out += 3) {
    const Real* w = taps.weights(o);
    const Real* pixel = in + size_t(taps.first[o]) * 3;
    Real r = 0, g = 0, b = 0;
    for (int t = 0; t < taps.n_taps(o); ++t, pixel += 3) {
      r += w[t] * pixel[0];
      g += w[t] * pixel[1];
      b += w[t] * pixel[2];
    }
    out[0] = to_u8<Real, kRounding>(r);
    out[1] = to_u8<Real, kRounding>(g);
    out[2] = to_u8<Real, kRounding>(b);
  }
}

}  // namespace

template <class Real>
FloatPasses<Real>::FloatPasses(const SizePair& sizes, Rounding rounding)
    : sizes_(sizes),
      rounding_(rounding),
      x_(make_taps<Real>(sizes.src_width, sizes.out_width)),
      y_(make_taps<Real>(sizes.src_height, sizes.out_height)),
      row_(size_t(sizes.src_width) * 3) {}

template <class Real>
void FloatPasses<Real>::run(const uint8_t* src, uint8_t* out, size_t out_stride) noexcept {
  for (int y = 0; y < sizes_.out_height; ++y, out += out_stride) {
    blend_rows(src, y);
    if (rounding_ == Rounding::kHalfAway) {
      narrow<Real, Rounding::kHalfAway>(x_, sizes_.out_width, row_.data(), out);
    } else {
      narrow<Real, Rounding::kHalfEven>(x_, sizes_.out_width, row_.data(), out);
    }
  }
}

// Four source rows a sweep: the sum of a column stays in a register over four taps. The taps are
// added in order, so the grouping changes no bit.
template <class Real>
void FloatPasses<Real>::blend_rows(const uint8_t* src, int out_y) noexcept {
  const size_t row_bytes = size_t(sizes_.src_width) * 3;
  const uint8_t* in = src + size_t(y_.first[out_y]) * row_bytes;
  const Real* w = y_.weights(out_y);
  const int n_taps = y_.n_taps(out_y);
  Real* __restrict sums = row_.data();
  std::fill(row_.begin(), row_.end(), Real(0));
  int t = 0;
  for (; t + 4 <= n_taps; t += 4, in += 4 * row_bytes) {
    const uint8_t *in1 = in + row_bytes, *in2 = in1 + row_bytes, *in3 = in2 + row_bytes;
    const Real w0 = w[t], w1 = w[t + 1], w2 = w[t + 2], w3 = w[t + 3];
    for (size_t i = 0; i < row_bytes; ++i) {
      sums[i] =
          sums[i] + w0 * Real(in[i]) + w1 * Real(in1[i]) + w2 * Real(in2[i]) + w3 * Real(in3[i]);
    }
  }
  for (; t < n_taps; ++t, in += row_bytes) {
    const Real w0 = w[t];
    for (size_t i = 0; i < row_bytes; ++i) sums[i] += w0 * Real(in[i]);
  }
}

template class FloatPasses<float>;
template class FloatPasses<double>;

}  // namespace outrider::vision
