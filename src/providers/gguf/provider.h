// From a PiRuntime to a frt_model_runtime_v1: ports, plan, identity, extension tables.
#pragma once
#include <memory>

#include "outrider/frt_v1.h"
#include "providers/gguf/pi_runtime.h"

namespace outrider {

// Takes the runtime over. Errors: kNoMemory, kInvalid (a broken descriptor: our mistake).
Result<frt_model_runtime_v1*> publish_pi_runtime(std::unique_ptr<PiRuntime> runtime);

// Leaves the one-line reason of a failed open where the host or the operator asked for it.
void report_open_failure(const Error& error) noexcept;

}  // namespace outrider
