// The same tiles as kernels_avx_vnni.cpp in the encoding of AVX-512 VL, so that processors with
// AVX-512 VNNI run (and test) table avx2_vnni too.
#include <immintrin.h>

#include "kernels/kernel_table.h"

#define OUTRIDER_DPBUSD _mm256_dpbusd_epi32

namespace outrider {
namespace {
#include "kernels/kernels_avx2_vnni.inc"
}  // namespace

const TileFn kAvx512vlVnniTiles[4][kTileMaxRows] = {OUTRIDER_INT8_ROW(1), OUTRIDER_INT8_ROW(2),
                                                    OUTRIDER_INT8_ROW(4), OUTRIDER_INT8_ROW(8)};

const PeakLoop kAvx512vlVnniPeak = {peak_int8, kPeakSums * 64};

}  // namespace outrider
