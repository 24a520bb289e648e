// Constant matrices in the layout that Ops multiplies by.
#pragma once
#include "onnx/kernel.h"

namespace outrider::onnx {

// [n_out, n_in] when rows_are_outputs, else [n_in, n_out]. Lives as long as the plan, in the
// precision of the plan. Errors: those of Ops::pack.
Result<Weight> pack_weight(NodeContext& c, const float* values, int64_t n_out, int64_t n_in,
                           bool rows_are_outputs);

}  // namespace outrider::onnx
