// The int8 dot instruction of AVX-VNNI, for processors without AVX-512.
#include <immintrin.h>

#include "kernels/kernel_table.h"

#define OUTRIDER_DPBUSD _mm256_dpbusd_avx_epi32

namespace outrider {
namespace {
#include "kernels/kernels_avx2_vnni.inc"
}  // namespace

const TileFn kAvxVnniTiles[4][kTileMaxRows] = {OUTRIDER_INT8_ROW(1), OUTRIDER_INT8_ROW(2),
                                               OUTRIDER_INT8_ROW(4), OUTRIDER_INT8_ROW(8)};

const PeakLoop kAvxVnniPeak = {peak_int8, kPeakSums * 64};

}  // namespace outrider
