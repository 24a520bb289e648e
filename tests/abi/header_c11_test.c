/* The public headers are C11: this file is compiled as C, and its facts are asked from C++. */
#include "outrider/ext/status.h"
#include "outrider/ext/taps.h"
#include "outrider/frt_v1.h"
#include "outrider/host.h"

int c11_open(const char* config, frt_model_runtime_v1** out) {
  (void)config;
  *out = 0;
  return FRT_ERR_UNSUPPORTED;
}

unsigned c11_runtime_bytes(void) {
  frt_model_runtime_open_v1_fn open = c11_open;
  (void)open;
  return (unsigned)sizeof(frt_model_runtime_v1);
}

int c11_builds_a_runtime(int (*step)(void*)) {
  frt_model_runtime_verbs verbs = {sizeof verbs, 0, 0, 0, 0, step, 0};
  frt_runtime_builder b = frt_model_runtime_builder_create_metadata();
  int64_t shape[] = {-1};
  frt_model_runtime_v1* model;
  int code;
  if (frt_runtime_builder_add_port(b, "p", FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT,
                                   FRT_PORT_IN, FRT_UPDATE_SETUP, 0, shape, 1, 0, 0, 0,
                                   0) != FRT_OK)
    return -100;
  model = frt_runtime_builder_finish_model(b, &verbs, 0, 0, 0, 0);
  if (!model) return -101;
  code = model->verbs.step(model->self);
  model->release(model->owner);
  return code;
}
