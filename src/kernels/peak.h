// What this machine can do at most, measured: the roof that benchmarks are held against.
#pragma once
#include "base/result.h"

namespace outrider {

// Billions of operations a second (a multiply-add is two), billions of bytes a second.
struct Limits {
  double f32_gops = 0;
  double bf16_gops = 0;  // by the faster of: the dot instruction, f32 on widened values
  double int8_gops = 0;  // by the faster of: the dot instruction, f32 on widened values
  double read_gbs = 0;   // from memory, not from a cache
};

struct MachineLimits {
  Limits one, all;  // one thread; n_threads at the same time
  int n_threads = 0;
};

// [setup] Measures for about 0.25 s each (two seconds in all). n_threads as in CpuOpsOptions.
// The memory test takes a buffer of 1 GiB, or a quarter of what is free if that is less.
// Errors: kNoMemory.
Result<MachineLimits> measure_limits(int n_threads);

}  // namespace outrider
