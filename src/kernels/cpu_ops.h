// Ops on this processor.
#pragma once
#include <memory>

#include "base/result.h"
#include "kernels/thread_pool.h"
#include "tensor/ops.h"

namespace outrider {

struct CpuOpsOptions {
  int n_threads = 0;              // <= 0: as many as this process may use
  const char* kernel_table = "";  // "": the best; else "scalar", "avx2", "avx2_vnni" (with the
                                  // int8 dot instruction), "avx512", "avx512_bf16", "avx512_bw"
                                  // (without it), "neon", "neon_dot"
  ThreadWishes wishes = {};       // of the threads that are started
};

// [setup] Starts the threads (n_threads - 1 of them; the caller is one). An Ops belongs to one
// thread at a time. Weights packed by one Ops may be used by any other of this build at the same
// time: they are only read. Errors: kUnsupported (table), kInvalid (threads), kNoMemory, kDevice
// (a wish that the system refuses).
//
// For a kPaired weight, Weight::n_out is the width of gated_linear's y (half of the packed rows).
Result<std::unique_ptr<Ops>> make_cpu_ops(const CpuOpsOptions& options);

}  // namespace outrider
