// Tiles of the bf16 dot instruction and the packing of what they take: both operands bfloat16, two
// products a lane added to an f32 sum. Numbers below the normal range count as zero in them: the
// instruction's own rule.
#include <immintrin.h>

#include "kernels/kernel_table.h"

namespace outrider {
namespace {

#if defined(__clang__)
#define OUTRIDER_UNROLL _Pragma("clang loop unroll(full)")
#else
#define OUTRIDER_UNROLL _Pragma("GCC unroll 32")
#endif

constexpr int kMaxAccumulators = 28;
constexpr int kPeakSums = 24;

inline __mmask16 first(int64_t n) {
  return static_cast<__mmask16>(n >= 16 ? 0xffff : (1u << n) - 1);
}

#include "kernels/transpose_avx512.inc"

// As pack_bf16 of pack_avx512.inc with the instruction that rounds and pairs; numbers below the
// normal range become zero, as which the dot instruction takes them anyway.
void pack_bf16(const float* const* rows, int32_t n_rows, int64_t n_k, uint16_t* out) {
  for (int64_t k = 0; k < n_k; k += 32) {
    const int64_t n = n_k - k < 32 ? n_k - k : 32;
    __m512i m[16];
    OUTRIDER_UNROLL for (int r = 0; r < 16; ++r) {
      m[r] = _mm512_setzero_si512();
      if (r < n_rows) {
        const float* x = rows[r] + k;
        const __m512 low = _mm512_maskz_loadu_ps(first(n), x);
        const __m512 high =
            n > 16 ? _mm512_maskz_loadu_ps(first(n - 16), x + 16) : _mm512_setzero_ps();
        m[r] = (__m512i)_mm512_cvtne2ps_pbh(high, low);
      }
    }
    store_groups(m, n_rows, static_cast<int>((n + 1) / 2),
                 reinterpret_cast<uint32_t*>(out) + k / 2 * n_rows);
  }
}

void peak_bf16(int64_t n_rounds) {
  __m512 sum[kPeakSums];
  // From memory that the compiler cannot see through, or it would compute equal sums once.
  int32_t start[kPeakSums + 1];
  for (int i = 0; i <= kPeakSums; ++i) start[i] = 0x3f803f80;
  asm volatile("" : : "r"(start) : "memory");
  OUTRIDER_UNROLL for (int i = 0; i < kPeakSums; ++i) sum[i] =
      _mm512_castsi512_ps(_mm512_set1_epi32(start[i]));
  const __m512i factor = _mm512_set1_epi32(start[kPeakSums]);
  for (int64_t round = 0; round < n_rounds; ++round) {
    OUTRIDER_UNROLL for (int i = 0; i < kPeakSums; ++i) sum[i] =
        _mm512_dpbf16_ps(sum[i], (__m512bh)factor, (__m512bh)factor);
  }
  OUTRIDER_UNROLL for (int i = 1; i < kPeakSums; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  volatile float sink = _mm512_reduce_add_ps(sum[0]);
  (void)sink;
}

// See TileFn.
template <int kRows, int kPanels>
void tile_of(const void* a, const void* w, int64_t panel_bytes, int64_t n_k, float* tile,
             int64_t tile_stride, int accumulate, const void* next_a, const void* next_w) {
  __m512 sum[kRows][kPanels];
  OUTRIDER_UNROLL for (int r = 0; r < kRows; ++r) {
    OUTRIDER_UNROLL for (int p = 0; p < kPanels; ++p) sum[r][p] = _mm512_setzero_ps();
  }
  if (accumulate) {
    OUTRIDER_UNROLL for (int r = 0; r < kRows; ++r) {
      OUTRIDER_UNROLL for (int p = 0; p < kPanels; ++p) sum[r][p] =
          _mm512_load_ps(tile + r * tile_stride + p * kPanelLanes);
    }
  }
  const auto* x = static_cast<const int32_t*>(a);
  const char* panel = static_cast<const char*>(w);
  const char *soon_a = static_cast<const char*>(next_a), *soon_w = static_cast<const char*>(next_w);
  for (int64_t pair = 0; pair < n_k / 2; ++pair) {
    if (kRows == 1 && kernel_fetch_ahead > 0) {
      OUTRIDER_UNROLL for (int p = 0; p < kPanels; ++p)
          __builtin_prefetch(panel + p * panel_bytes + kernel_fetch_ahead, 0, 3);
    } else {
      __builtin_prefetch(soon_a, 0, 3);  // to L1
      __builtin_prefetch(soon_w, 0, 2);  // to L2
      soon_a += kRows * 4;
      soon_w += 64;
    }
    __m512i weights[kPanels];
    OUTRIDER_UNROLL for (int p = 0; p < kPanels; ++p) weights[p] =
        _mm512_load_si512(panel + p * panel_bytes);
    OUTRIDER_UNROLL for (int r = 0; r < kRows; ++r) {
      const __m512i value = _mm512_set1_epi32(x[r]);
      OUTRIDER_UNROLL for (int p = 0; p < kPanels; ++p) sum[r][p] =
          _mm512_dpbf16_ps(sum[r][p], (__m512bh)value, (__m512bh)weights[p]);
    }
    x += kRows;
    panel += kPanelLanes * 4;
  }
  OUTRIDER_UNROLL for (int r = 0; r < kRows; ++r) {
    OUTRIDER_UNROLL for (int p = 0; p < kPanels; ++p)
        _mm512_store_ps(tile + r * tile_stride + p * kPanelLanes, sum[r][p]);
  }
}

template <int kRows, int kPanels>
constexpr TileFn fit() {
  if constexpr (kRows * kPanels <= kMaxAccumulators) {
    return tile_of<kRows, kPanels>;
  } else {
    return nullptr;
  }
}

#define OUTRIDER_TILE_ROW(p)                                                                   \
  {                                                                                            \
    fit<1, p>(), fit<2, p>(), fit<3, p>(), fit<4, p>(), fit<5, p>(), fit<6, p>(), fit<7, p>(), \
        fit<8, p>(), fit<9, p>(), fit<10, p>(), fit<11, p>(), fit<12, p>(), fit<13, p>(),      \
        fit<14, p>(),                                                                          \
  }

}  // namespace

const TileFn kAvx512Bf16Tiles[4][kTileMaxRows] = {OUTRIDER_TILE_ROW(1), OUTRIDER_TILE_ROW(2),
                                                  OUTRIDER_TILE_ROW(4), OUTRIDER_TILE_ROW(8)};

void pack_for_avx512_bf16(const float* const* rows, int32_t n_rows, int64_t n_k, uint16_t* out) {
  pack_bf16(rows, n_rows, n_k, out);
}

const PeakLoop kAvx512Bf16Peak = {peak_bf16, kPeakSums * 64};

}  // namespace outrider
