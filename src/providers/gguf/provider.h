// From a PiFace to a frt_model_runtime_v1: ports, plan, identity, extension tables.
#pragma once
#include <memory>

#include "outrider/frt_v1.h"
#include "providers/gguf/pi_face.h"

namespace outrider {

// Takes the face over. Errors: kNoMemory, kInvalid (a broken descriptor: our mistake).
Result<frt_model_runtime_v1*> publish_pi_face(std::unique_ptr<PiFace> face);

}  // namespace outrider
