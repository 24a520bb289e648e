/* Extension: read what a stage computed on the way, by name. For parity checks, not for control.
 *
 * query_extension(runtime, OUTRIDER_EXT_TAPS, 1, &table). A tap holds the values of the last run that
 * produced it; reading one copies and may allocate. PI0 / PI0.5 taps, all f32 row major:
 *   pixels_N      [size, size, 3]      view N after resize, scaled to [-1, 1]
 *   image_embd_N  [tokens, E]          view N after the projector
 *   tokens        [n]                  text token ids (as f32; exact below 2^24)
 *   prefix_embd   [n, E]               what the backbone is given
 *   prefix_k_L, prefix_v_L [n, kv_heads * head]   keys (after rope) and values of layer L
 *   velocity_K, x_K [steps, dim]       velocity of Euler step K and x after it
 */
#ifndef OUTRIDER_EXT_TAPS_H_
#define OUTRIDER_EXT_TAPS_H_
#include <stdint.h>

#define OUTRIDER_EXT_TAPS UINT64_C(0x4F55000000000001)

typedef struct outrider_taps_v1 {
  uint32_t abi_version; /* 1 */
  uint32_t struct_size; /* sizeof(outrider_taps_v1) */
  void* self;
  /* Recording costs time and memory and is off at open. [setup] */
  int (*enable)(void* self, int on);
  uint64_t (*count)(void* self);
  const char* (*name)(void* self, uint64_t index); /* NULL beyond count */
  /* Copies the values. out NULL or capacity_values too small: -5 and *n_values is what is needed;
   * unknown name: -2; recorded nothing yet: -7. shape has room for 4, *rank is set. */
  int (*read)(void* self, const char* name, float* out, uint64_t capacity_values, uint64_t* n_values,
              int64_t shape[4], uint32_t* rank);
} outrider_taps_v1;

#endif
