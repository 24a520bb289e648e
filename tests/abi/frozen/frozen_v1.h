/* The baseline prefix of the model-runtime ABI as it was first published: 128 bytes, no tail. A
 * copy of its own, on purpose: it must never include the live header and must never be changed. */
#ifndef OUTRIDER_TESTS_ABI_FROZEN_V1_H_
#define OUTRIDER_TESTS_ABI_FROZEN_V1_H_
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct frozen_export {
  uint32_t abi_version, struct_size;
  void* ctx;
  const void* streams;
  uint64_t n_streams;
  const void* graphs;
  uint64_t n_graphs;
  const void* buffers;
  uint64_t n_buffers;
  const void* regions;
  uint64_t n_regions;
  uint64_t fingerprint;
  const char* identity;
  const char* manifest;
  void* owner;
  void (*retain)(void*);
  void (*release)(void*);
} frozen_export;

typedef struct frozen_port {
  const char* name;
  uint32_t modality, dtype, layout, direction, update, required;
  const int64_t* shape;
  uint32_t rank, cadence_hint_hz;
  void* buffer;
  uint64_t offset, bytes;
} frozen_port;

typedef struct frozen_verbs {
  uint32_t struct_size, reserved;
  int (*set_input)(void*, uint32_t, const void*, uint64_t, int);
  int (*get_output)(void*, uint32_t, void*, uint64_t, uint64_t*, int);
  int (*prepare)(void*, uint32_t, uint64_t);
  int (*step)(void*);
  const char* (*last_error)(void*);
} frozen_verbs;

typedef struct frozen_runtime {
  uint32_t abi_version, struct_size;
  const frozen_export* exp;
  const frozen_port* ports;
  uint64_t n_ports;
  const void* stages;
  uint64_t n_stages;
  void* self;
  frozen_verbs verbs;
  void* owner;
  void (*retain)(void*);
  void (*release)(void*);
} frozen_runtime;

/* The old producer: a runtime that doubles one float, at the end of a page behind which nothing may
 * be read. step only. Give it back with its own release; live counts references that are held. */
frozen_runtime* frozen_producer_open(void);
int frozen_producer_live(void);

/* The old consumer: adopts, sends one float through, checks name and range of everything it reads.
 * 0 and *result, or the number of the check that failed. */
int frozen_consumer_run(const void* runtime, float input, float* result);

/* The new consumer, same task, against the live header. */
int new_consumer_run(const void* runtime, float input, float* result);

#ifdef __cplusplus
}
#endif
#endif
