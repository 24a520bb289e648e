// Products with blocks for every 64-bit ARM processor.
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "kernels/block_format.h"
#include "kernels/kernel_table.h"

namespace outrider {
namespace {

#include "kernels/blocks_neon.inc"

}  // namespace

const BlockKernels kNeonBlocks = {OUTRIDER_BLOCK_TILES, 3, quantize};

}  // namespace outrider
