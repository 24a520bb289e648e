#include <string.h>

#include "frozen_v1.h"
#include "outrider/frt_v1.h"

int new_consumer_run(const void* runtime, float input, float* result) {
  const frt_model_runtime_v1* r = runtime;
  const void* table = 0;
  uint64_t written = 0;
  int code = FRT_ERR_UNSUPPORTED;
  if (r->abi_version != FRT_MODEL_RUNTIME_ABI_VERSION ||
      r->struct_size < FRT_MODEL_RUNTIME_V1_BASE_SIZE)
    return 1;
  if (r->struct_size >= FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE && r->query_extension)
    code = r->query_extension(r, FRT_EXT_GENERIC_STAGE_PLAN_V1, 1, &table);
  if (code != FRT_OK && code != FRT_ERR_UNSUPPORTED) return 2;
  r->retain(r->owner);
  if (r->verbs.set_input(r->self, 0, &input, sizeof input, -1) != 0) {
    code = 3;
  } else if (code == FRT_OK) {
    const frt_generic_stage_plan_ext_v1* plan = table;
    code = plan->run_opaque(plan->stage_self, plan->stages[0].executor_ref) ? 4 : 0;
  } else {
    code = r->verbs.step(r->self) ? 5 : 0;
  }
  if (code == 0 && r->verbs.get_output(r->self, 1, result, sizeof *result, &written, -1) != 0)
    code = 6;
  r->release(r->owner);
  return code;
}
