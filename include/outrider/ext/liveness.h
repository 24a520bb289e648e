/* Extension: whether the far end of a runtime is there. For runtimes that live elsewhere; one in
 * this process does not offer it.
 *
 * query_extension(runtime, OUTRIDER_EXT_LIVENESS, 1, &table).
 */
#ifndef OUTRIDER_EXT_LIVENESS_H_
#define OUTRIDER_EXT_LIVENESS_H_
#include <stdint.h>

#define OUTRIDER_EXT_LIVENESS UINT64_C(0x4F55000000000012)

typedef struct outrider_liveness_v1 {
  uint32_t abi_version; /* 1 */
  uint32_t struct_size; /* sizeof(outrider_liveness_v1) */
  void* self;
  /* [any] 1: the far end was heard of lately and the next verb will reach it, as far as is known
   * now; 0: it is gone or silent. Sends nothing, waits for nothing. */
  int (*alive)(void* self);
  /* [any] Another number whenever the far end may have lost what it kept from tick to tick: its
   * link was lost and found again by itself. Sends nothing, waits for nothing. Absent where
   * struct_size ends before it; NULL: not known. */
  uint64_t (*generation)(void* self);
} outrider_liveness_v1;

#endif
