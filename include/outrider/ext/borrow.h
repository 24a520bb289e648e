/* Extension: inputs that are sent from the caller's memory after the call has returned.
 *
 * query_extension(runtime, OUTRIDER_EXT_BORROW, 1, &table). Offered by runtimes that live elsewhere.
 * The plain set_input of such a runtime waits until the last byte has left, at most its deadline;
 * this one hands over what the system takes at once and keeps the address of the rest. Nothing is
 * copied for it. The caller gets a token and leaves the buffer alone until the token is free: when
 * the bytes have left, when the connection is lost, or when the runtime is released.
 *
 * A buffer that is written to before that is found by the checksum of the message: the input is
 * refused and the next run fails (-6, "corrupted"); nothing is ever computed on a mixture.
 */
#ifndef OUTRIDER_EXT_BORROW_H_
#define OUTRIDER_EXT_BORROW_H_
#include <stdint.h>

#define OUTRIDER_EXT_BORROW UINT64_C(0x4F55000000000013)

typedef struct outrider_borrow_v1 {
  uint32_t abi_version; /* 1 */
  uint32_t struct_size; /* sizeof(outrider_borrow_v1) */
  void* self;
  /* [hot] As set_input of the runtime, same codes, same data. *token: 0 when all of it has left
   * already or the call failed, else the number of this loan; at most one is open at a time, a
   * further input waits for it first. The array of frt_image_view is not lent, the pictures are.
   * token must not be NULL (-1). */
  int (*set_input)(void* self, uint32_t port, const void* data, uint64_t bytes, uint64_t* token);
  /* [hot] 1: the buffer is the caller's; 0: it is still read. Sends on what the system takes now and
   * waits for nothing. 0 and numbers that were never given are free. */
  int (*is_free)(void* self, uint64_t token);
  /* [hot] Sends on until the token is free, at most timeout_ns. 0 free, -7 not yet. Free says that
   * the buffer is the caller's, not that the input has arrived: a lost link frees it too. */
  int (*wait)(void* self, uint64_t token, uint64_t timeout_ns);
} outrider_borrow_v1;

#endif
