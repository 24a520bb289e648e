/* Extension: a driving policy as a link server runs it: warped frames and packed scalars in, the
 * whole output vector out, status by status. The same history stands behind it as behind the ports:
 * what one face pushes the other sees.
 *
 * query_extension(runtime, OUTRIDER_EXT_DRIVING, 1, &table). Only runtimes of a driving graph offer
 * it. One thread at a time, together with the verbs.
 */
#ifndef OUTRIDER_EXT_DRIVING_H_
#define OUTRIDER_EXT_DRIVING_H_
#include <stdint.h>

#define OUTRIDER_EXT_DRIVING UINT64_C(0x4F55000000000030)

/* Status of one frame. 1 (not ready) is a server's own: a runtime that is open is ready. */
enum {
  OUTRIDER_DRIVING_OK = 0,
  OUTRIDER_DRIVING_BAD_SHAPE = 2,    /* a length that is not the spec's: nothing was touched */
  OUTRIDER_DRIVING_INFER_FAILED = 3, /* the graph did not run: no outputs */
  OUTRIDER_DRIVING_NOT_FINITE = 4    /* outputs are there, one of them is NaN or infinite */
};
/* Flags of a frame. */
enum { OUTRIDER_DRIVING_RESET = 1 }; /* history to zero, before this frame is pushed */

enum { OUTRIDER_DRIVING_QUEUED = 0, OUTRIDER_DRIVING_STATEFUL = 1 };

typedef struct outrider_driving_frame_v1 {
  uint32_t struct_size; /* sizeof(outrider_driving_frame_v1) */
  uint32_t flags;
  const void* frames; /* u8 {2,6,H,W}: road camera, then wide camera */
  uint64_t frames_bytes;
  const void* packed; /* f32 desire, traffic_convention, action_t; at any address */
  uint64_t packed_bytes;
  /* Absent where struct_size ends before them. f32, as many as a row of features_buffer has, at any
   * address: the hidden state that the far end brings along, pushed in the place of the kept one,
   * also in a frame with RESET. NULL: the kept one. Of no meaning for a graph that keeps its own
   * state. */
  const void* hidden;
  uint64_t hidden_bytes;
} outrider_driving_frame_v1;

typedef struct outrider_driving_answer_v1 {
  uint32_t struct_size; /* sizeof(outrider_driving_answer_v1) */
  uint32_t status;
  uint64_t stage_ns;    /* from the call to inputs staged */
  uint64_t run_ns;      /* the graph */
  uint64_t total_ns;    /* from the call to outputs checked */
  const float* outputs; /* n_outputs values, until the next call of any verb; NULL: none */
} outrider_driving_answer_v1;

typedef struct outrider_driving_v1 {
  uint32_t abi_version; /* 1 */
  uint32_t struct_size; /* sizeof(outrider_driving_v1) */
  void* self;
  /* What the graph says, until the release: {"frame_skip", "checkpoint", "input_shapes",
   * "output_shapes", "output_slices"}: a link's spec record without "sha256" and "nbytes". */
  const char* spec_json;
  uint32_t layout, frame_skip;
  uint64_t frames_bytes;             /* 2 * 6 * H * W */
  uint64_t n_packed;                 /* floats */
  uint64_t n_outputs;                /* floats of the whole vector */
  uint64_t hidden_begin, hidden_end; /* equal: the graph has none */
  /* [hot] One frame. The desire is pushed as it comes (a pulse, made by the sender). Hidden state
   * is kept from frames answered OK alone; what was pushed stays pushed. 0, or a negative code of
   * frt_v1.h: an argument is NULL or too short a struct (answer untouched). */
  int (*run)(void* self, const outrider_driving_frame_v1* frame,
             outrider_driving_answer_v1* answer);
  /* [hot] A new session of the far end: the kept hidden state becomes zero, queues stay. Graphs
   * that keep their own state are left as they are. */
  void (*forget_hidden)(void* self);
  /* [hot] Queues, hidden state, recurrent state: as after open. In place, allocates nothing. */
  void (*reset)(void* self);
} outrider_driving_v1;

#endif
