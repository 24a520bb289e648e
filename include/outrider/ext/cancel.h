/* Extension: end a run that is under way, from any thread.
 *
 * query_extension(runtime, OUTRIDER_EXT_CANCEL, 1, &table). A level, not an event: while it is
 * raised, every stage and step answers -8 ("cancelled") within one small unit of work (one layer of
 * one chunk), those that begin later at once; lowered, the next one runs as if nothing had
 * happened. Whoever raised it lowers it. Inputs, reset and outputs do not notice it.
 */
#ifndef OUTRIDER_EXT_CANCEL_H_
#define OUTRIDER_EXT_CANCEL_H_
#include <stdint.h>

#define OUTRIDER_EXT_CANCEL UINT64_C(0x4F55000000000020)

typedef struct outrider_cancel_v1 {
  uint32_t abi_version; /* 1 */
  uint32_t struct_size; /* sizeof(outrider_cancel_v1) */
  void* self;
  /* [any] 1 raises, 0 lowers. Never waits. */
  void (*set)(void* self, int on);
} outrider_cancel_v1;

#endif
