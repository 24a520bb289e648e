/* Extension: the history of a model that has one (queues, recurrent state), back to its start.
 *
 * query_extension(runtime, OUTRIDER_EXT_HISTORY, 1, &table). A runtime without history does not offer
 * it. After reset the next outputs are those of a runtime that has just been opened and warmed up, bit
 * for bit.
 */
#ifndef OUTRIDER_EXT_HISTORY_H_
#define OUTRIDER_EXT_HISTORY_H_
#include <stdint.h>

#define OUTRIDER_EXT_HISTORY UINT64_C(0x4F55000000000011)

typedef struct outrider_history_v1 {
  uint32_t abi_version; /* 1 */
  uint32_t struct_size; /* sizeof(outrider_history_v1) */
  void* self;
  /* [hot] In place: no allocation, no lock, no buffer changes its address; under 1 ms. Staged inputs
   * stay. 0, or a negative code of frt_v1.h. */
  int (*reset)(void* self);
} outrider_history_v1;

#endif
