// What both families choose alike when they open.
#pragma once
#include <cstdint>
#include <string>

#include "tensor/ops.h"

namespace outrider {

struct UsefulThreads {
  int n = 1;
  std::string note;  // how many and why; begins with "warning: " when a wish was cut
};
// Threads beyond the CPUs of this process only wait for each other: a wish above them is cut, which
// changes no bit of a result, and the note says so.
UsefulThreads choose_useful_threads(int64_t wanted);

// Products of bfloat16 by one instruction.
bool cpu_has_bf16_dot();

const char* precision_name(Precision precision);

}  // namespace outrider
