// Products with blocks in AVX-512 with the int8 dot instruction.
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/block_format.h"
#include "kernels/kernel_table.h"

namespace outrider {
namespace {

#include "kernels/blocks_avx512.inc"

}  // namespace

const BlockKernels kAvx512VnniBlocks = {OUTRIDER_BLOCK_TILES, 14, quantize};

}  // namespace outrider
