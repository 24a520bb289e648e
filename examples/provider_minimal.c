/* A whole provider in one file: a controller that moves each joint part of the way to zero.
 *
 * In:  port 0 "state", STATE f32 {3}. Out: port 1 "actions", ACTION f32 {1, 3}.
 * One opaque stage "infer". The configuration takes one key: {"model_family": "hold"}.
 * docs/guides/writing-a-provider.md walks through it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outrider/frt_v1.h"

enum { kStatePort, kActionsPort, kJoints = 3, kInferRef = 37 };

typedef struct hold {
  float state[kJoints], actions[kJoints];
  int state_set, actions_ready;
  char error[160]; /* "" after success */
} hold;

static int fail(hold* h, int code, const char* text) {
  snprintf(h->error, sizeof h->error, "%s", text);
  return code;
}

static int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int stream) {
  hold* h = self;
  float values[kJoints];
  (void)stream;
  h->actions_ready = 0; /* a new input makes old outputs stale, good or bad */
  if (port != kStatePort) return fail(h, FRT_ERR_INVALID, "set_input: the input is port 0 (state)");
  h->state_set = 0; /* a refused replacement does not leave the old value behind */
  if (data == NULL || bytes != sizeof values)
    return fail(h, FRT_ERR_INVALID, "state: wanted 3 floats, 12 bytes");
  memcpy(values, data, sizeof values); /* the caller's memory may lie at any address */
  for (int i = 0; i < kJoints; ++i)
    if (!isfinite(values[i])) return fail(h, FRT_ERR_INVALID, "state: allowed are finite numbers");
  memcpy(h->state, values, sizeof values);
  h->state_set = 1;
  h->error[0] = 0;
  return FRT_OK;
}

static int run(hold* h) {
  h->actions_ready = 0;
  if (!h->state_set) return fail(h, FRT_ERR_INVALID, "infer: port state is not staged");
  for (int i = 0; i < kJoints; ++i) h->actions[i] = -0.1f * h->state[i];
  h->actions_ready = 1;
  h->error[0] = 0;
  return FRT_OK;
}

static int run_opaque(void* self, uint32_t executor_ref) {
  if (executor_ref != kInferRef)
    return fail(self, FRT_ERR_NOT_FOUND, "run_opaque: the stage is 37");
  return run(self);
}
static int step(void* self) {
  return run(self);
}
static int prepare(void* self, uint32_t graph, uint64_t key) {
  (void)graph, (void)key;
  return fail(self, FRT_ERR_UNSUPPORTED, "prepare: there are no graph variants");
}

static int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
                      int stream) {
  hold* h = self;
  (void)stream;
  if (written == NULL) return fail(h, FRT_ERR_INVALID, "get_output: written is NULL");
  *written = 0;
  if (port != kActionsPort)
    return fail(h, FRT_ERR_INVALID, "get_output: the output is port 1 (actions)");
  if (out == NULL) return fail(h, FRT_ERR_INVALID, "actions: out is NULL; the size is 12 bytes");
  *written = sizeof h->actions; /* the size is fixed: told even when the answer is a refusal */
  if (capacity < sizeof h->actions) return fail(h, FRT_ERR_STORAGE, "actions: 12 bytes are needed");
  if (!h->actions_ready) return fail(h, FRT_ERR_NOT_READY, "actions: run infer first");
  memcpy(out, h->actions, sizeof h->actions);
  h->error[0] = 0;
  return FRT_OK;
}

static const char* last_error(void* self) {
  return ((hold*)self)->error;
}
static void release(void* self) {
  free(self);
}

/* Names and shapes are copied by the builder. */
static int describe(frt_runtime_builder b, hold* h) {
  const int64_t state[] = {kJoints}, actions[] = {1, kJoints};
  int bad = 0;
  bad |= frt_runtime_builder_add_identity(b, "provider", "minimal");
  bad |= frt_runtime_builder_add_identity(b, "model_family", "hold");
  bad |=
      frt_runtime_builder_add_port(b, "state", FRT_MODALITY_STATE, FRT_DTYPE_F32, FRT_LAYOUT_FLAT,
                                   FRT_PORT_IN, FRT_UPDATE_STAGED, 1, state, 1, 0, NULL, 0, 0);
  bad |= frt_runtime_builder_add_port(b, "actions", FRT_MODALITY_ACTION, FRT_DTYPE_F32,
                                      FRT_LAYOUT_FLAT, FRT_PORT_OUT, FRT_UPDATE_STAGED, 0, actions,
                                      2, 0, NULL, 0, 0);
  bad |= frt_runtime_builder_add_generic_stage(b, "infer", FRT_EXECUTOR_OPAQUE, kInferRef, NULL, 0);
  bad |= frt_runtime_builder_set_generic_stage_runner(b, h, run_opaque);
  return bad;
}

/* A real provider reads this with a strict JSON reader; one key is little enough to do by hand. */
static int accepts(const char* json) {
  static const char* const kWords[] = {"{", "\"model_family\"", ":", "\"hold\"", "}"};
  for (size_t i = 0; i < sizeof kWords / sizeof kWords[0]; ++i) {
    json += strspn(json, " \t\r\n");
    if (strncmp(json, kWords[i], strlen(kWords[i])) != 0) return 0;
    json += strlen(kWords[i]);
  }
  return json[strspn(json, " \t\r\n")] == 0;
}

__attribute__((visibility("default"))) int frt_model_runtime_open_v1(const char* config_json,
                                                                     frt_model_runtime_v1** out) {
  const frt_model_runtime_verbs verbs = {sizeof verbs, 0,    set_input, get_output,
                                         prepare,      step, last_error};
  if (out == NULL) return FRT_ERR_INVALID;
  *out = NULL; /* before anything else is looked at */
  if (config_json == NULL || !accepts(config_json)) return FRT_ERR_INVALID;
  hold* h = calloc(1, sizeof *h);
  frt_runtime_builder b = frt_model_runtime_builder_create_metadata();
  if (h != NULL && b != NULL && describe(b, h) == 0)
    *out = frt_runtime_builder_finish_model(b, &verbs, h, h, NULL, release);
  if (*out != NULL) return FRT_OK; /* the builder is consumed, h belongs to the runtime */
  if (b != NULL) frt_runtime_builder_finish(b, NULL, NULL, NULL); /* discards it */
  free(h);
  return FRT_ERR_STORAGE;
}
