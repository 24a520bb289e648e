// From an OnnxRuntime to a frt_model_runtime_v1: ports, plan, identity, status.
#pragma once
#include <memory>

#include "outrider/frt_v1.h"
#include "providers/onnx/driving_runtime.h"
#include "providers/onnx/onnx_runtime.h"

namespace outrider {

// Takes the runtime over. Errors: kNoMemory, kInvalid (a broken descriptor: our mistake).
Result<frt_model_runtime_v1*> publish_onnx_runtime(std::unique_ptr<OnnxRuntime> runtime);

Result<frt_model_runtime_v1*> publish_driving_runtime(std::unique_ptr<DrivingRuntime> runtime);

}  // namespace outrider
