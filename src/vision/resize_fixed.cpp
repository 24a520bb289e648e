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
constexpr int kBlock = 8;       // bytes of a row that the vertical pass takes at a time
constexpr int kSlackBytes = 4;  // a pixel of weight 0 and one byte more

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

// How narrow_row wants its weights: an even number for every output, the odd one followed by a 0.
// It may read that many pixels and one byte more, which is why rows come with slack.
#if defined(__SSE2__)

// SSE2 multiplies 16-bit numbers only: a weight of 23 bits goes in as two of at most 12, two pixels
// at a time, and the two sums meet at the end. Exact. A pair of weights is stored as its two high
// parts, then its two low parts. 1640 to 224 pixels, 1232 rows: 2.5 ms against 4.6 ms for the loop
// below; splitting the weights here instead of beforehand lost all of that again.
constexpr int kLowBits = 11;

void arrange_pair(int32_t* pair) {
  constexpr int32_t kMask = (1 << kLowBits) - 1;
  const int32_t k0 = pair[0], k1 = pair[1];
  pair[0] = k0 >> kLowBits | k1 >> kLowBits << 16;
  pair[1] = (k0 & kMask) | (k1 & kMask) << 16;
}

__m128i load_pixel(const uint8_t* p) {
  int32_t word;
  std::memcpy(&word, p, sizeof word);
  return _mm_cvtsi32_si128(word);
}

void blend_pixels(const uint8_t* in, const int32_t* pairs, int n_taps, uint8_t* out) {
  const __m128i zero = _mm_setzero_si128();
  __m128i high = zero, low = zero;
  for (int t = 0; t < n_taps; t += 2, in += 6) {
    const __m128i bytes = _mm_unpacklo_epi8(load_pixel(in), load_pixel(in + 3));
    const __m128i pixels = _mm_unpacklo_epi8(bytes, zero);  // r0 r1 g0 g1 b0 b1 . .
    const __m128i k = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(pairs + t));
    high = _mm_add_epi32(high, _mm_madd_epi16(pixels, _mm_shuffle_epi32(k, 0x00)));
    low = _mm_add_epi32(low, _mm_madd_epi16(pixels, _mm_shuffle_epi32(k, 0x55)));
  }
  const __m128i sum =
      _mm_add_epi32(_mm_add_epi32(_mm_slli_epi32(high, kLowBits), low), _mm_set1_epi32(kHalf));
  const __m128i levels = _mm_srli_epi32(sum, kFractionBits);  // at most 511: packing saturates
  const int32_t word = _mm_cvtsi128_si32(_mm_packus_epi16(_mm_packs_epi32(levels, levels), zero));
  std::memcpy(out, &word, 3);
}

#else

void arrange_pair(int32_t*) {}

void blend_pixels(const uint8_t* in, const int32_t* k, int n_taps, uint8_t* out) {
  int32_t r = kHalf, g = kHalf, b = kHalf;
  for (int t = 0; t < n_taps; ++t, in += 3) {
    r += k[t] * in[0];
    g += k[t] * in[1];
    b += k[t] * in[2];
  }
  out[0] = to_u8(r), out[1] = to_u8(g), out[2] = to_u8(b);
}

#endif

Taps<int32_t> in_pairs(const Taps<int32_t>& taps) {
  Taps<int32_t> pairs;
  pairs.first = taps.first;
  for (int o = 0; o < int(taps.first.size()); ++o) {
    pairs.begin.push_back(uint32_t(pairs.weight.size()));
    for (int t = 0; t < taps.n_taps(o); t += 2) {
      int32_t pair[2] = {taps.weights(o)[t], t + 1 < taps.n_taps(o) ? taps.weights(o)[t + 1] : 0};
      arrange_pair(pair);
      pairs.weight.insert(pairs.weight.end(), pair, pair + 2);
    }
  }
  pairs.begin.push_back(uint32_t(pairs.weight.size()));
  return pairs;
}

}  // namespace

FixedPasses::FixedPasses(const SizePair& sizes)
    : sizes_(sizes),
      x_(in_pairs(make_taps(sizes.src_width, sizes.out_width))),
      y_(make_taps(sizes.src_height, sizes.out_height)),
      row_(size_t(sizes.src_width) * 3 + kSlackBytes) {
  for (int o = 0; o < sizes.out_height; ++o) n_ring_rows_ = std::max(n_ring_rows_, y_.n_taps(o));
  ring_row_bytes_ = (size_t(sizes.out_width) * 3 + kBlock - 1) / kBlock * kBlock;
  ring_.resize(ring_row_bytes_ * size_t(n_ring_rows_));
}

void FixedPasses::run(const uint8_t* src, uint8_t* out, size_t out_stride) noexcept {
  int n_done = 0;  // source rows that have been through the horizontal pass
  for (int y = 0; y < sizes_.out_height; ++y, out += out_stride) {
    const int end = y_.first[y] + y_.n_taps(y);
    for (n_done = std::max(n_done, y_.first[y]); n_done < end; ++n_done) {
      narrow_row(src + size_t(n_done) * size_t(sizes_.src_width) * 3, ring_row(n_done));
    }
    blend_rows(y, out);
  }
}

// The copy costs a thirtieth of what follows and lets the loop run over the end of the row.
void FixedPasses::narrow_row(const uint8_t* in, uint8_t* out) noexcept {
  std::memcpy(row_.data(), in, size_t(sizes_.src_width) * 3);
  for (int o = 0; o < sizes_.out_width; ++o, out += 3) {
    blend_pixels(row_.data() + size_t(x_.first[o]) * 3, x_.weights(o), x_.n_taps(o), out);
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
