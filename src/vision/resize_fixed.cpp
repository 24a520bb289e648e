// PIL's resampling of 8-bit pictures, restated: see FixedPasses.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "vision/resize_passes.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace outrider::vision {
namespace {

constexpr int kFractionBits = 22;
constexpr int32_t kHalf = 1 << (kFractionBits - 1);
constexpr int kBlock = 8;  // bytes of a row that the vertical pass takes at a time

// The largest sum: 255 * (2^22 + half a unit for each of at most 65535 taps) + 2^21.
static_assert(255 * ((int64_t{1} << kFractionBits) + 32768) + kHalf < INT32_MAX);

uint8_t to_u8(int32_t sum) {
  return uint8_t(std::min(sum >> kFractionBits, 255));  // weights are >= 0, so sums are too
}

Taps<int32_t> make_taps(int n_in, int n_out) {
  Taps<int32_t> taps;
  std::vector<double> w;
  const double scale = double(n_in) / n_out, filter = std::max(scale, 1.0);
  for (int o = 0; o < n_out; ++o) {
    const double center = (o + 0.5) * scale;
    const int first = std::max(int(center - filter + 0.5), 0);
    const int end = std::min(int(center + filter + 0.5), n_in);
    OUTRIDER_ASSERT(first < end && (o == 0 || first >= taps.first.back()));
    w.clear();
    double sum = 0;
    for (int x = 0; x < end - first; ++x) {
      w.push_back(std::max(0.0, 1.0 - std::abs((x + first - center + 0.5) / filter)));
      sum += w.back();
    }
    taps.first.push_back(first);
    taps.begin.push_back(uint32_t(taps.weight.size()));
    for (const double each : w) {
      taps.weight.push_back(int32_t(each / sum * (1 << kFractionBits) + 0.5));
    }
  }
  taps.begin.push_back(uint32_t(taps.weight.size()));
  return taps;
}

// The sum over a run of pixels of weight * (r, g, b), for processors without the form below.
struct GenericSum {
  int32_t r = kHalf, g = kHalf, b = kHalf;

  void add(const uint8_t* pixel, const int32_t* k, int n) {
    for (int t = 0; t < n; ++t, pixel += 3) {
      r += k[t] * pixel[0];
      g += k[t] * pixel[1];
      b += k[t] * pixel[2];
    }
  }
  void store(uint8_t* out) const { out[0] = to_u8(r), out[1] = to_u8(g), out[2] = to_u8(b); }
};

#if defined(__SSE2__)
// SSE2 multiplies 16-bit numbers only: a weight of 23 bits goes in as two of at most 12, two pixels
// at a time, and the two sums meet at the end. Exact, and 3 times as fast as the generic form.
struct Sse2Sum {
  static constexpr int kLowBits = 11;
  __m128i high = _mm_setzero_si128(), low = _mm_setzero_si128();

  static __m128i load4(const uint8_t* p) {  // a pixel and one byte more
    int32_t word;
    std::memcpy(&word, p, sizeof word);
    return _mm_cvtsi32_si128(word);
  }
  static __m128i load3(const uint8_t* p) {
    return _mm_cvtsi32_si128(p[0] | p[1] << 8 | p[2] << 16);
  }

  void add_pair(__m128i p0, __m128i p1, int32_t k0, int32_t k1) {
    constexpr int32_t kMask = (1 << kLowBits) - 1;
    const __m128i pixels =
        _mm_unpacklo_epi8(_mm_unpacklo_epi8(p0, p1), _mm_setzero_si128());  // r0 r1 g0 g1 b0 b1
    high = _mm_add_epi32(
        high, _mm_madd_epi16(pixels, _mm_set1_epi32(k0 >> kLowBits | k1 >> kLowBits << 16)));
    low = _mm_add_epi32(low,
                        _mm_madd_epi16(pixels, _mm_set1_epi32((k0 & kMask) | (k1 & kMask) << 16)));
  }

  // The last pixel is read by single bytes: nothing past the run is touched.
  void add(const uint8_t* pixel, const int32_t* k, int n) {
    int t = 0;
    for (; t + 2 < n; t += 2) {
      add_pair(load4(pixel + t * 3), load4(pixel + t * 3 + 3), k[t], k[t + 1]);
    }
    if (t + 1 < n) {
      add_pair(load4(pixel + t * 3), load3(pixel + t * 3 + 3), k[t], k[t + 1]);
    } else {
      add_pair(load3(pixel + t * 3), _mm_setzero_si128(), k[t], 0);
    }
  }
  void store(uint8_t* out) const {
    const __m128i sum =
        _mm_add_epi32(_mm_add_epi32(_mm_slli_epi32(high, kLowBits), low), _mm_set1_epi32(kHalf));
    const __m128i levels = _mm_srli_epi32(sum, kFractionBits);  // at most 511: packing saturates
    const int32_t word =
        _mm_cvtsi128_si32(_mm_packus_epi16(_mm_packs_epi32(levels, levels), _mm_setzero_si128()));
    std::memcpy(out, &word, 3);
  }
};
using PixelSum = Sse2Sum;
#else
using PixelSum = GenericSum;
#endif

void narrow_row(const Taps<int32_t>& taps, int n_out, const uint8_t* in, uint8_t* out) {
  for (int o = 0; o < n_out; ++o, out += 3) {
    PixelSum sum;
    sum.add(in + size_t(taps.first[o]) * 3, taps.weights(o), taps.n_taps(o));
    sum.store(out);
  }
}

}  // namespace

FixedPasses::FixedPasses(const SizePair& sizes)
    : sizes_(sizes),
      x_(make_taps(sizes.src_width, sizes.out_width)),
      y_(make_taps(sizes.src_height, sizes.out_height)) {
  for (int o = 0; o < sizes.out_height; ++o) n_ring_rows_ = std::max(n_ring_rows_, y_.n_taps(o));
  ring_row_bytes_ = (size_t(sizes.out_width) * 3 + kBlock - 1) / kBlock * kBlock;
  ring_.resize(ring_row_bytes_ * size_t(n_ring_rows_));
}

void FixedPasses::run(const uint8_t* src, uint8_t* out, size_t out_stride) noexcept {
  int n_done = 0;  // source rows that have been through the horizontal pass
  for (int y = 0; y < sizes_.out_height; ++y, out += out_stride) {
    const int end = y_.first[y] + y_.n_taps(y);
    for (n_done = std::max(n_done, y_.first[y]); n_done < end; ++n_done) {
      narrow_row(x_, sizes_.out_width, src + size_t(n_done) * size_t(sizes_.src_width) * 3,
                 ring_row(n_done));
    }
    blend_rows(y, out);
  }
}

void FixedPasses::blend_rows(int y, uint8_t* out) noexcept {
  const int32_t* k = y_.weights(y);
  const int first = y_.first[y], n_taps = y_.n_taps(y);
  const size_t row_bytes = size_t(sizes_.out_width) * 3;
  for (size_t i = 0; i < row_bytes; i += kBlock) {
    int32_t sums[kBlock];
    uint8_t levels[kBlock];
    std::fill_n(sums, kBlock, kHalf);
    for (int t = 0; t < n_taps; ++t) {
      const uint8_t* row = ring_row(first + t) + i;
      for (int j = 0; j < kBlock; ++j) sums[j] += k[t] * row[j];
    }
    for (int j = 0; j < kBlock; ++j) levels[j] = to_u8(sums[j]);
    std::memcpy(out + i, levels, std::min(size_t{kBlock}, row_bytes - i));
  }
}

}  // namespace outrider::vision
