/* Extension: counters and timings of one runtime. Reading never disturbs a tick.
 *
 * query_extension(runtime, OUTRIDER_EXT_STATUS, 1, &table). Counters only grow; a host finds them by
 * name, so that later revisions may add some.
 */
#ifndef OUTRIDER_EXT_STATUS_H_
#define OUTRIDER_EXT_STATUS_H_
#include <stdint.h>

#define OUTRIDER_EXT_STATUS UINT64_C(0x4F55000000000002)

typedef struct outrider_counter_v1 {
  const char* name; /* "runs", "refused_inputs", "failed_runs", "nonfinite_outputs", "ns_context", ... */
  int64_t value;
} outrider_counter_v1;

typedef struct outrider_status_v1 {
  uint32_t abi_version; /* 1 */
  uint32_t struct_size; /* sizeof(outrider_status_v1) */
  void* self;
  /* Writes up to capacity counters and returns how many there are. */
  uint64_t (*read)(void* self, outrider_counter_v1* out, uint64_t capacity);
  /* One line of JSON about what was opened: file, family, precision, numerics, threads, kernel table,
   * noise seed, memory, defaults taken. Valid while a reference is held. */
  const char* (*describe)(void* self);
} outrider_status_v1;

#endif
