// Tiles of the int8 dot instruction (unsigned activations times signed weights), and its speed.
#include <immintrin.h>

#include "kernels/kernel_table.h"

namespace outrider {
namespace {

#if defined(__clang__)
#define OUTRIDER_UNROLL _Pragma("clang loop unroll(full)")
#else
#define OUTRIDER_UNROLL _Pragma("GCC unroll 32")
#endif

constexpr int kPeakSums = 24;

constexpr int kILanes = 16;
constexpr int kInt8Accumulators = 28;  // of 32 registers; two for weights, one for the activation
typedef __m512i vi;
typedef __m512i vx;

inline vi i_zero() {
  return _mm512_setzero_si512();
}
inline vi i_load(const void* p) {
  return _mm512_load_si512(p);
}
inline void i_store(void* p, vi v) {
  _mm512_store_si512(p, v);
}
inline vx i_value(const void* p) {
  return _mm512_set1_epi32(*static_cast<const int32_t*>(p));
}
inline vi i_dot(vi sum, vi w, vx x) {
  return _mm512_dpbusd_epi32(sum, x, w);
}

#include "kernels/kernels_int8.inc"

void peak_int8(int64_t n_rounds) {
  __m512i sum[kPeakSums];
  // From memory that the compiler cannot see through, or it would compute equal sums once.
  int32_t start[kPeakSums + 1];
  for (int i = 0; i <= kPeakSums; ++i) start[i] = 0x01010101;
  asm volatile("" : : "r"(start) : "memory");
  OUTRIDER_UNROLL for (int i = 0; i < kPeakSums; ++i) sum[i] = _mm512_set1_epi32(start[i]);
  const __m512i factor = _mm512_set1_epi32(start[kPeakSums]);
  for (int64_t round = 0; round < n_rounds; ++round) {
    OUTRIDER_UNROLL for (int i = 0; i < kPeakSums; ++i) sum[i] =
        _mm512_dpbusd_epi32(sum[i], factor, factor);
  }
  OUTRIDER_UNROLL for (int i = 1; i < kPeakSums; ++i) sum[0] = _mm512_xor_si512(sum[0], sum[i]);
  volatile int32_t sink = _mm512_reduce_or_epi32(sum[0]);
  (void)sink;
}

}  // namespace

const TileFn kAvx512VnniTiles[4][kTileMaxRows] = {OUTRIDER_INT8_ROW(1), OUTRIDER_INT8_ROW(2),
                                                  OUTRIDER_INT8_ROW(4), OUTRIDER_INT8_ROW(8)};

const PeakLoop kAvx512VnniPeak = {peak_int8, kPeakSums * 128};

}  // namespace outrider
