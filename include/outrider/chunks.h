/* Carrying out chunks: one row a tick, while the next chunk is being computed.
 *
 * A policy answers with a chunk of rows; row 0 is for the tick of its observation. While it
 * computes, rows of the chunk before are carried out, so that many rows of the answer are overtaken
 * when it comes. They are counted here, never guessed from a clock: what was not carried out is not
 * left out, and a chunk that no row was waiting for (the first one, or after a starved queue)
 * begins at its row 0.
 *
 *   every tick:     if (outrider_chunks_next(&c, row)) send(row); else hold, slow down or stop;
 *   when it is time (outrider_chunks_left(&c) small enough):
 *                   request = outrider_chunks_request(&c);          with the observation of this
 * tick when it comes:  outrider_chunks_take(&c, &request, chunk, n_rows); new episode, other task,
 * somebody takes over:  outrider_chunks_reset(&c);   what is under way is refused
 *
 * Real-time chunking (ports previous_chunk, prefix_weights, prefix_steps of a policy in robot
 * units): at the request, outrider_chunks_previous gives the rows that are left and
 * outrider_chunks_weights how much each is kept. Other ways: outrider_chunks_take_blended merges
 * the overlap, outrider_chunks_append puts a chunk behind the rows that are left.
 *
 * Nothing here allocates, locks or prints; memory is the caller's; one thread, or a lock of the
 * caller's. C11 and C++. docs/reference/loop.md, docs/guides/robot-loop.md.
 */
#ifndef OUTRIDER_CHUNKS_H_
#define OUTRIDER_CHUNKS_H_
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OUTRIDER_CHUNKS_WINDOW 32u /* answers that the delay is estimated from */

/* what became of a chunk */
enum {
  OUTRIDER_CHUNKS_TAKEN = 0,
  OUTRIDER_CHUNKS_OLD = 1,       /* asked for before a reset */
  OUTRIDER_CHUNKS_OVERTAKEN = 2, /* every row of it was overtaken */
  OUTRIDER_CHUNKS_BAD = 3,       /* a NaN or an infinity, no rows, or more than there is room for */
  OUTRIDER_CHUNKS_UNKEPT =
      4 /* see prefix_rows: its given rows were fewer than the overtaken ones */
};

/* How much rows between start and end are kept. */
enum {
  OUTRIDER_CHUNKS_ZEROS = 0,
  OUTRIDER_CHUNKS_ONES = 1,
  OUTRIDER_CHUNKS_LINEAR = 2,
  OUTRIDER_CHUNKS_EXP = 3
};

typedef struct outrider_chunks {
  float* rows; /* [capacity, width], the next row first */
  uint32_t capacity, width, left;
  uint64_t epoch;   /* of the rows: counts resets */
  uint64_t carried; /* rows given out */
  uint64_t ticks;   /* calls of outrider_chunks_next */
  uint64_t starved; /* ... that had no row */
  uint32_t starved_in_a_row;
  uint64_t taken, refused;                 /* chunks */
  uint64_t skipped;                        /* rows of taken chunks that were overtaken */
  uint32_t delays[OUTRIDER_CHUNKS_WINDOW]; /* in ticks, of the last answers */
  uint32_t n_delays;                       /* answers so far, at most the window's are kept */
  uint32_t missed;                         /* the last answer came behind the last row */
} outrider_chunks;

typedef struct outrider_chunks_ticket {
  uint64_t epoch, carried, ticks;
  uint32_t
      prefix_rows; /* rows of this chunk that were given (prefix_steps); 0: none. Such a chunk is
                      only good when no more rows were overtaken. Yours to set after the request. */
} outrider_chunks_ticket;

/* rows: capacity x width floats that live as long as this. 0: done; -1: a size of 0 or no memory.
 */
static inline int outrider_chunks_init(outrider_chunks* c, float* rows, uint32_t capacity,
                                       uint32_t width) {
  memset(c, 0, sizeof *c);
  if (rows == NULL || capacity == 0 || width == 0) return -1;
  c->rows = rows;
  c->capacity = capacity;
  c->width = width;
  return 0;
}

static inline void outrider_chunks_reset(outrider_chunks* c) {
  ++c->epoch;
  c->left = 0;
  c->starved_in_a_row = 0;
}

static inline uint32_t outrider_chunks_left(const outrider_chunks* c) {
  return c->left;
}

/* One tick: the row to carry out now. 1: copied; 0: none is left, row is untouched. */
static inline int outrider_chunks_next(outrider_chunks* c, float* row) {
  ++c->ticks;
  if (c->left == 0) {
    ++c->starved;
    ++c->starved_in_a_row;
    return 0;
  }
  memcpy(row, c->rows, c->width * sizeof *row);
  --c->left;
  memmove(c->rows, c->rows + c->width, (size_t)c->left * c->width * sizeof *row);
  ++c->carried;
  c->starved_in_a_row = 0;
  return 1;
}

/* The observation of this tick is being answered: take it before the tick's outrider_chunks_next.
 */
static inline outrider_chunks_ticket outrider_chunks_request(const outrider_chunks* c) {
  outrider_chunks_ticket ticket = {c->epoch, c->carried, c->ticks, 0};
  return ticket;
}

/* Ticks until an answer is there: the most of the window, one more when the last one came too late.
 * Says what to protect (weights, prefix), never which row is next. */
static inline uint32_t outrider_chunks_delay(const outrider_chunks* c) {
  uint32_t most = 0;
  const uint32_t n = c->n_delays < OUTRIDER_CHUNKS_WINDOW ? c->n_delays : OUTRIDER_CHUNKS_WINDOW;
  for (uint32_t i = 0; i < n; ++i)
    if (c->delays[i] > most) most = c->delays[i];
  return most + (c->missed ? 1 : 0);
}

static inline int outrider_chunks_finite_(const float* values, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (!isfinite(values[i])) return 0;
  return 1;
}

static inline int outrider_chunks_refuse_(outrider_chunks* c, int why) {
  ++c->refused;
  return why;
}

/* chunk [n_rows, width] in place of the rows that are left, but for its first `skip`. Where both
 * have a row, old_share of the old one is kept: 0 replaces; LeRobot's clients have 0.3, 0.5, 0.7.
 */
static inline int outrider_chunks_replace(outrider_chunks* c, const float* chunk, uint32_t n_rows,
                                          uint32_t skip, float old_share) {
  if (chunk == NULL || n_rows == 0 || !(old_share >= 0 && old_share <= 1))
    return outrider_chunks_refuse_(c, OUTRIDER_CHUNKS_BAD);
  if (skip >= n_rows) return outrider_chunks_refuse_(c, OUTRIDER_CHUNKS_OVERTAKEN);
  const uint32_t n = n_rows - skip;
  if (n > c->capacity || !outrider_chunks_finite_(chunk, (size_t)n_rows * c->width))
    return outrider_chunks_refuse_(c, OUTRIDER_CHUNKS_BAD);
  const size_t both = (size_t)(c->left < n ? c->left : n) * c->width, all = (size_t)n * c->width;
  const float* fresh = chunk + (size_t)skip * c->width;
  for (size_t i = 0; i < all; ++i)
    c->rows[i] =
        i < both && old_share > 0 ? old_share * c->rows[i] + (1 - old_share) * fresh[i] : fresh[i];
  c->left = n;
  c->skipped += skip;
  ++c->taken;
  return OUTRIDER_CHUNKS_TAKEN;
}

/* An answer, whatever the time: rows that were carried out since its request are left out. */
static inline int outrider_chunks_take_blended(outrider_chunks* c,
                                               const outrider_chunks_ticket* ticket,
                                               const float* chunk, uint32_t n_rows,
                                               float old_share) {
  if (ticket->epoch != c->epoch || ticket->carried > c->carried || ticket->ticks > c->ticks)
    return outrider_chunks_refuse_(c, OUTRIDER_CHUNKS_OLD);
  const uint64_t overtaken = c->carried - ticket->carried, waited = c->ticks - ticket->ticks;
  c->delays[c->n_delays % OUTRIDER_CHUNKS_WINDOW] =
      waited < UINT32_MAX ? (uint32_t)waited : UINT32_MAX;
  /* The count stays below twice the window. */
  c->n_delays =
      c->n_delays + 1 < 2 * OUTRIDER_CHUNKS_WINDOW ? c->n_delays + 1 : OUTRIDER_CHUNKS_WINDOW;
  c->missed = c->starved_in_a_row > 0 && c->taken > 0;
  if (ticket->prefix_rows > 0 && overtaken > ticket->prefix_rows)
    return outrider_chunks_refuse_(c, OUTRIDER_CHUNKS_UNKEPT);
  return outrider_chunks_replace(c, chunk, n_rows,
                                 overtaken < n_rows ? (uint32_t)overtaken : n_rows, old_share);
}

static inline int outrider_chunks_take(outrider_chunks* c, const outrider_chunks_ticket* ticket,
                                       const float* chunk, uint32_t n_rows) {
  return outrider_chunks_take_blended(c, ticket, chunk, n_rows, 0);
}

/* Rows skip.. of a chunk behind those that are left: for answers to a future state (they begin
 * where the running chunk ends), and for queues that are emptied before a new chunk begins. */
static inline int outrider_chunks_append(outrider_chunks* c, const float* chunk, uint32_t n_rows,
                                         uint32_t skip) {
  if (chunk == NULL || n_rows == 0) return outrider_chunks_refuse_(c, OUTRIDER_CHUNKS_BAD);
  if (skip >= n_rows) return outrider_chunks_refuse_(c, OUTRIDER_CHUNKS_OVERTAKEN);
  const uint32_t n = n_rows - skip;
  if (n > c->capacity - c->left || !outrider_chunks_finite_(chunk, (size_t)n_rows * c->width))
    return outrider_chunks_refuse_(c, OUTRIDER_CHUNKS_BAD);
  memcpy(c->rows + (size_t)c->left * c->width, chunk + (size_t)skip * c->width,
         (size_t)n * c->width * sizeof *chunk);
  c->left += n;
  c->skipped += skip;
  ++c->taken;
  return OUTRIDER_CHUNKS_TAKEN;
}

/* Rows that are left as a chunk of n_rows, filled up with zeros: the port previous_chunk, at the
 * request. */
static inline uint32_t outrider_chunks_previous(const outrider_chunks* c, float* chunk,
                                                uint32_t n_rows) {
  const uint32_t n = c->left < n_rows ? c->left : n_rows;
  memcpy(chunk, c->rows, (size_t)n * c->width * sizeof *chunk);
  memset(chunk + (size_t)n * c->width, 0, (size_t)(n_rows - n) * c->width * sizeof *chunk);
  return n;
}

/* Weights of n_rows rows: 1 in front of start, 0 from end on, between them as the schedule says.
 * start beyond end counts as end. */
static inline void outrider_chunks_row_weights(int schedule, uint32_t n_rows, uint32_t start,
                                               uint32_t end, float* weights) {
  if (start > end) start = end;
  for (uint32_t i = 0; i < n_rows; ++i) {
    double w = i < end ? 1 : 0;
    if (i >= start && i < end) {
      w = (double)(end - i) / (double)(end - start + 1);
      if (schedule == OUTRIDER_CHUNKS_ZEROS) w = 0;
      if (schedule == OUTRIDER_CHUNKS_ONES) w = 1;
    }
    if (schedule == OUTRIDER_CHUNKS_EXP) w = w * expm1(w) / expm1(1.0);
    weights[i] = (float)w;
  }
}

/* The port prefix_weights, at the request: rows that will be overtaken are kept whole, and none is
 * kept that is not there. executed: rows that will be carried out before the request after this
 * one. */
static inline void outrider_chunks_weights(const outrider_chunks* c, int schedule, uint32_t n_rows,
                                           uint32_t executed, float* weights) {
  uint32_t end = executed < n_rows ? n_rows - executed : 0;
  if (end > c->left) end = c->left;
  outrider_chunks_row_weights(schedule, n_rows, outrider_chunks_delay(c), end, weights);
}

/* Temporal ensembling: a chunk every tick, row i of what is left averaged over counts[i]
 * predictions with weights exp(-m k), the oldest prediction k = 0. counts has n_rows entries, 0 at
 * first. row: the average for this tick. Call it once a tick with the chunk of this tick's
 * observation; average is [n_rows, width]. */
static inline void outrider_chunks_ensemble(float* average, uint32_t* counts, const float* chunk,
                                            uint32_t n_rows, uint32_t width, double m, float* row) {
  for (uint32_t r = 0; r < n_rows; ++r) {
    double sum = 0;
    for (uint32_t k = 0; k < counts[r]; ++k) sum += exp(-m * k);
    const double w = exp(-m * counts[r]);
    for (uint32_t i = 0; i < width; ++i) {
      float* a = average + (size_t)r * width + i;
      const double fresh = chunk[(size_t)r * width + i];
      *a = counts[r] == 0 ? (float)fresh : (float)((*a * sum + fresh * w) / (sum + w));
    }
    if (counts[r] < n_rows) ++counts[r];
  }
  memcpy(row, average, width * sizeof *row);
  memmove(average, average + width, (size_t)(n_rows - 1) * width * sizeof *average);
  memmove(counts, counts + 1, (n_rows - 1) * sizeof *counts);
  counts[n_rows - 1] = 0;
}

#ifdef __cplusplus
}
#endif
#endif
