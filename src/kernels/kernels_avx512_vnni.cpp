// What avx512_vnni adds: for now only the measure of its speed.
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

const PeakLoop kAvx512VnniPeak = {peak_int8, kPeakSums * 128};

}  // namespace outrider
