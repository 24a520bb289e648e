// What a runtime promises, checked before the host keeps it.
#pragma once
#include <vector>

#include "base/result.h"
#include "host/stages.h"
#include "outrider/frt_v1.h"

namespace outrider::host {

enum class Drive : uint8_t {
  kPlan,  // opaque stages, fired one by one through run_opaque
  kStep,  // the whole model through the `step` verb: step-only, or backed by graphs we cannot
          // launch
};

struct Contract {
  Drive drive = Drive::kStep;
  std::vector<Stage> stages;                            // kStep: one, called "step"
  const frt_generic_stage_plan_ext_v1* plan = nullptr;  // kPlan only; owned by the runtime
  frt_model_runtime_verbs verbs = {};  // a copy; a table of less than 48 bytes counts as all NULL
};

// [setup] Checks version and size, export, ports, the one execution authority (ABI text 10) and
// every rule of the stage plan. Tolerates 128-byte runtimes, NULL verbs (a call to one answers -3),
// arrays that are not NULL but empty. This host runs on the CPU and launches no graphs: a legacy
// graph plan, a GRAPH stage or a SWAP window needs a `step` verb that does it all, otherwise it is
// refused. Errors: kInvalid (NULL, version, malformed, broken plan), kUnsupported (graphs without
// step).
Result<Contract> check_runtime(const frt_model_runtime_v1* runtime);

}  // namespace outrider::host
