// Which kernel table runs: one decision, made once when Ops are made, visible in `outrider doctor`.
#pragma once
#include "base/result.h"
#include "kernels/kernel_table.h"

namespace outrider {

// The table with that name, or the best one this CPU runs for "". "avx512_bf16" is
// "avx512" with the processor's bf16 dot instruction for products in bf16. Errors: kUnsupported,
// naming what there is.
Result<const KernelTable*> find_kernel_table(const char* name);

// Names of the tables this CPU runs, best first, null terminated.
const char* const* kernel_table_names();

// What the processor offers to the tables, for people: "avx2 fma f16c avx512f ... avx512_bf16".
const char* cpu_features();

}  // namespace outrider
