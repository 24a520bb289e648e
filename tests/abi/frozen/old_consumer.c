#include <string.h>

#include "frozen_v1.h"

int frozen_consumer_run(const void* runtime, float input, float* result) {
  const frozen_runtime* r = runtime;
  uint64_t written = 0;
  uint32_t in = UINT32_MAX, out = UINT32_MAX, i;
  int code = 0;
  if (r->abi_version != 1 || r->struct_size < sizeof *r) return 1;
  if (!r->retain || !r->release || !r->exp) return 2;
  if (r->exp->abi_version != 1 || r->exp->struct_size < sizeof *r->exp || !r->exp->identity)
    return 3;
  if (r->exp->ctx || r->exp->graphs || r->exp->n_graphs || r->n_stages) return 4;
  for (i = 0; i < r->n_ports; ++i) {
    if (strcmp(r->ports[i].name, "in") == 0) in = i;
    if (strcmp(r->ports[i].name, "out") == 0) out = i;
  }
  if (in == UINT32_MAX || out == UINT32_MAX) return 5;
  if (r->ports[in].rank != 1 || r->ports[in].shape[0] != 1) return 6;
  r->retain(r->owner);
  if (r->verbs.get_output(r->self, out, result, sizeof *result, &written, -1) != -7)
    code = 7;
  else if (r->verbs.set_input(r->self, in, &input, sizeof input, -1) != 0)
    code = 8;
  else if (r->verbs.step(r->self) != 0)
    code = 9;
  else if (r->verbs.get_output(r->self, out, result, sizeof *result, &written, -1) != 0)
    code = 10;
  else if (written != sizeof *result)
    code = 11;
  r->release(r->owner);
  return code;
}
