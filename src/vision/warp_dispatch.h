// Which kernels of the camera warp run here.
#pragma once
#include "base/result.h"
#include "vision/warp_kernels.h"

namespace outrider {

// The table with that name, or the best one this CPU runs for "". Errors: kUnsupported, naming what
// there is. warp_kernel_names() (vision/warp.h) lists them.
Result<const WarpKernels*> find_warp_kernels(const char* name);

}  // namespace outrider
