// Does a kernel table compute on this machine what the scalar one computes? A few products and an
// attention, small enough for a command to run at any time: what a broken instruction, emulator or
// compiler would turn into wrong actions is found before a policy runs. See tests/kernels for the
// tables' whole proof.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"

namespace outrider {

// One computation and its results; each may differ from another table's by `bounds` of the same
// index, which follow from the number of roundings and the magnitudes that were added.
struct SelfTestResult {
  std::string what;  // "linear bf16, 33 rows"
  std::vector<float> values, bounds;
};

// [setup] The computations on this table, one thread. Errors: kUnsupported (table), kNoMemory.
Result<std::vector<SelfTestResult>> run_self_test(const char* kernel_table);

// Errors: kFailed, naming the table, the computation and the first value that is beyond its bound.
Result<void> compare_self_test(const char* kernel_table, const std::vector<SelfTestResult>& got,
                               const std::vector<SelfTestResult>& wanted);

// [setup] Every table of this machine beside the scalar one. Some 10 ms. Errors: as above.
Result<void> self_test();

}  // namespace outrider
