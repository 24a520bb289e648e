// Runtimes that break one rule of the ABI each: a sound one is copied and then bent.
#pragma once
#include "base/result.h"
#include "outrider/frt_v1.h"

namespace outrider::fake {

// Takes over the caller's reference of `sound`. `fault` is a row name of broken.cpp.
// Errors: kInvalid (unknown fault); `sound` is then still the caller's.
Result<frt_model_runtime_v1*> bend(frt_model_runtime_v1* sound, const char* fault);
bool is_fault(const char* fault);

}  // namespace outrider::fake
