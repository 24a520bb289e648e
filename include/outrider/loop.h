/* Observations in, actions out: the frames of `outrider loop`, in shared memory or in a stream.
 *
 * A robot's process and the loop share one segment ("shm:NAME"; POSIX shared memory /NAME). It
 * holds a header, a table of ports, and two rings: observations (the robot writes) and actions (the
 * loop writes). Both always look at the newest frame; an older one has no value. In a stream
 * (stdin, stdout) the same frames follow each other: outrider_loop_frame, then frame.bytes of
 * payload.
 *
 * Little-endian, 64-byte aligned, no pointers. A payload holds the ports of its direction in the
 * order of the table, each at its offset. Who reads never trusts what lies here after it has looked
 * once: sizes are read when the segment is opened and kept (outrider_loop_view).
 *
 *   robot:  outrider_loop_attach(base, mapped_bytes, &in, &out)   once
 *           outrider_loop_send(&in, payload, now_ns, 0)           every period, or as sensors come
 *           outrider_loop_wait(&out, seen, 5000000)               at most 5 ms for a newer action
 *           outrider_loop_newest(&out, &frame, payload)           1: copied; 0: nothing whole yet
 *
 * C11, strict too, with the compiler's atomics (gcc, clang). Linux.
 */
#ifndef OUTRIDER_LOOP_H_
#define OUTRIDER_LOOP_H_
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#elif !defined(_DEFAULT_SOURCE)
long syscall(long number, ...); /* which <unistd.h> keeps from strict C11 */
#endif

#define OUTRIDER_LOOP_MAGIC UINT64_C(0x31504F4F4C54554F) /* "OUTLOOP1" */
#define OUTRIDER_LOOP_FRAME_MAGIC UINT32_C(0x4D52464F)   /* "OFRM" */
#define OUTRIDER_LOOP_VERSION 1u
#define OUTRIDER_LOOP_MAX_PORTS 64u
#define OUTRIDER_LOOP_MAX_PAYLOAD (64u << 20)

/* flags of an observation */
enum { OUTRIDER_LOOP_RESET = 1 }; /* a new episode: state and history from zero before this tick */
/* origin of an action: whose numbers they are */
enum { OUTRIDER_LOOP_MODEL = 0, OUTRIDER_LOOP_HELD = 1, OUTRIDER_LOOP_SAFE = 2 };
/* reason why it is not the model's of this tick */
enum {
  OUTRIDER_LOOP_OK = 0,
  OUTRIDER_LOOP_WAITING = 1, /* no observation has come yet */
  OUTRIDER_LOOP_STALE = 2,   /* the newest observation is too old */
  OUTRIDER_LOOP_BAD = 3,     /* the observation holds a NaN, an infinity or a time to come */
  OUTRIDER_LOOP_FAILED = 4,  /* the runtime refused or failed */
  OUTRIDER_LOOP_LATE = 5,    /* no answer within the deadline */
  OUTRIDER_LOOP_ENDED = 6,   /* the last frame: the loop has stopped */
  OUTRIDER_LOOP_REASONS = 7
};
/* state of a segment */
enum { OUTRIDER_LOOP_STARTING = 0, OUTRIDER_LOOP_RUNNING = 1, OUTRIDER_LOOP_STOPPED = 2 };

typedef struct outrider_loop_frame {
  uint32_t magic;   /* OUTRIDER_LOOP_FRAME_MAGIC */
  uint32_t bytes;   /* of the payload */
  uint64_t number;  /* counts observations; of an action: its tick, from 0 */
  int64_t time_ns;  /* CLOCK_MONOTONIC when it was taken or sent; 0: not known */
  uint64_t answers; /* of an action: number of the observation it was made from */
  uint16_t origin;
  uint16_t reason;
  uint32_t flags;
} outrider_loop_frame;

/* One port of the runtime. 192 bytes. */
typedef struct outrider_loop_port {
  char name[64];                  /* terminated; cut when longer */
  uint32_t direction;             /* FRT_PORT_IN: part of observations; FRT_PORT_OUT: of actions */
  uint32_t modality, dtype, rank; /* as in frt_v1.h */
  int64_t shape[8];
  uint64_t offset, bytes; /* within the payload */
  uint64_t reserved[4];
} outrider_loop_port;

/* Where a ring lies. 32 bytes. */
typedef struct outrider_loop_place {
  uint64_t offset; /* of the ring, from the begin of the segment */
  uint32_t n_slots, slot_bytes;
  uint32_t payload_bytes, reserved;
  uint64_t reserved2;
} outrider_loop_place;

/* The begin of the segment. 256 bytes; the port table follows. */
typedef struct outrider_loop_header {
  uint64_t magic;
  uint32_t version, state;
  uint64_t segment_bytes;
  int64_t period_ns, deadline_ns;
  uint32_t owner_pid, n_ports;
  uint64_t reserved[2];
  outrider_loop_place observations, actions;
  uint64_t reserved2[16];
} outrider_loop_header;

/* A ring: 64 bytes, then slots of slot_bytes. A slot: sequence (2 n + 1 while frame n is written,
 * 2 n + 2 when it is whole), frame, padding to 64 bytes, payload. Frame n lies in slot n % n_slots.
 */
typedef struct outrider_loop_ring {
  uint64_t head; /* one more than the highest number written */
  uint32_t wake; /* its low half: a futex word */
  uint32_t reserved[13];
} outrider_loop_ring;
#define OUTRIDER_LOOP_SLOT_HEADER 64u

/* What one side keeps of a ring: checked once, its own from then on. */
typedef struct outrider_loop_view {
  outrider_loop_ring* ring;
  uint32_t n_slots, slot_bytes, payload_bytes;
} outrider_loop_view;

#ifdef __cplusplus
#define OUTRIDER_LOOP_CHECK(x) static_assert(x, #x)
#else
#define OUTRIDER_LOOP_CHECK(x) _Static_assert(x, #x)
#endif
OUTRIDER_LOOP_CHECK(sizeof(outrider_loop_frame) == 40);
OUTRIDER_LOOP_CHECK(sizeof(outrider_loop_port) == 192);
OUTRIDER_LOOP_CHECK(sizeof(outrider_loop_place) == 32);
OUTRIDER_LOOP_CHECK(sizeof(outrider_loop_header) == 256);
OUTRIDER_LOOP_CHECK(sizeof(outrider_loop_ring) == 64);
OUTRIDER_LOOP_CHECK(8 + sizeof(outrider_loop_frame) <= OUTRIDER_LOOP_SLOT_HEADER);

/* [setup] The rings of a mapped segment, or -1: no segment, another version, sizes that contradict
 * each other or the mapping. */
static inline int outrider_loop_place_view(unsigned char* base, uint64_t mapped_bytes,
                                           const outrider_loop_place* place,
                                           outrider_loop_view* view) {
  const outrider_loop_place p = *place;
  const uint64_t least = OUTRIDER_LOOP_SLOT_HEADER + (uint64_t)p.payload_bytes;
  if (p.payload_bytes > OUTRIDER_LOOP_MAX_PAYLOAD || p.n_slots < 2 || p.n_slots > 1024 ||
      p.slot_bytes % 64 != 0 || p.slot_bytes < least || p.offset % 64 != 0 ||
      p.offset > mapped_bytes ||
      mapped_bytes - p.offset < sizeof(outrider_loop_ring) + (uint64_t)p.n_slots * p.slot_bytes)
    return -1;
  view->ring = (outrider_loop_ring*)(void*)(base + p.offset);
  view->n_slots = p.n_slots;
  view->slot_bytes = p.slot_bytes;
  view->payload_bytes = p.payload_bytes;
  return 0;
}
static inline int outrider_loop_attach(void* base, uint64_t mapped_bytes,
                                       outrider_loop_view* observations,
                                       outrider_loop_view* actions) {
  outrider_loop_header h;
  if (base == NULL || mapped_bytes < sizeof h) return -1;
  memcpy(&h, base, sizeof h);
  if (h.magic != OUTRIDER_LOOP_MAGIC || h.version != OUTRIDER_LOOP_VERSION) return -1;
  if (outrider_loop_place_view((unsigned char*)base, mapped_bytes, &h.observations, observations) !=
      0)
    return -1;
  return outrider_loop_place_view((unsigned char*)base, mapped_bytes, &h.actions, actions);
}

static inline uint64_t* outrider_loop_slot(const outrider_loop_view* v, uint64_t number) {
  unsigned char* first = (unsigned char*)(void*)(v->ring + 1);
  return (uint64_t*)(void*)(first + (number % v->n_slots) * (uint64_t)v->slot_bytes);
}
/* [hot] Words that another process reads or writes meanwhile; bytes is rounded down to whole words
 * plus a tail. */
static inline void outrider_loop_store_words(uint64_t* to, const void* from, uint32_t bytes) {
  const unsigned char* p = (const unsigned char*)from;
  for (; bytes > 0; p += 8, ++to) {
    uint64_t word = 0;
    const uint32_t n = bytes < 8 ? bytes : 8;
    memcpy(&word, p, n);
    __atomic_store_n(to, word, __ATOMIC_RELEASE);
    bytes -= n;
  }
}
static inline void outrider_loop_load_words(void* to, const uint64_t* from, uint32_t bytes) {
  unsigned char* p = (unsigned char*)to;
  for (; bytes > 0; p += 8, ++from) {
    const uint64_t word = __atomic_load_n(from, __ATOMIC_ACQUIRE);
    const uint32_t n = bytes < 8 ? bytes : 8;
    memcpy(p, &word, n);
    bytes -= n;
  }
}
static inline void outrider_loop_announce(const outrider_loop_view* v, uint64_t number) {
  uint64_t head = __atomic_load_n(&v->ring->head, __ATOMIC_RELAXED);
  while (head < number + 1 && !__atomic_compare_exchange_n(&v->ring->head, &head, number + 1, 0,
                                                           __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
  __atomic_store_n(&v->ring->wake, (uint32_t)(number + 1), __ATOMIC_RELEASE);
  syscall(SYS_futex, &v->ring->wake, FUTEX_WAKE, 0x7fffffff, NULL, NULL, 0);
}

/* [hot] Writes frame->number with v->payload_bytes of payload. For writers that share a ring: 1
 * when it was written, 0 when another is in that slot or a newer frame has taken it. */
static inline int outrider_loop_put(const outrider_loop_view* v, const outrider_loop_frame* frame,
                                    const void* payload) {
  uint64_t* slot = outrider_loop_slot(v, frame->number);
  const uint64_t writing = 2 * frame->number + 1;
  uint64_t old = __atomic_load_n(slot, __ATOMIC_RELAXED);
  if ((old & 1) != 0 || old > writing ||
      !__atomic_compare_exchange_n(slot, &old, writing, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return 0;
  outrider_loop_store_words(slot + 1, frame, sizeof *frame);
  outrider_loop_store_words(slot + OUTRIDER_LOOP_SLOT_HEADER / 8, payload, v->payload_bytes);
  __atomic_store_n(slot, writing + 1, __ATOMIC_RELEASE);
  outrider_loop_announce(v, frame->number);
  return 1;
}

/* [hot] The next observation; one writer at a time. A writer that died in the middle does not stand
 * in the way of the next. Returns its number. */
static inline uint64_t outrider_loop_send(const outrider_loop_view* v, const void* payload,
                                          int64_t time_ns, uint32_t flags) {
  outrider_loop_frame frame;
  memset(&frame, 0, sizeof frame);
  frame.magic = OUTRIDER_LOOP_FRAME_MAGIC;
  frame.bytes = v->payload_bytes;
  frame.number = __atomic_load_n(&v->ring->head, __ATOMIC_RELAXED);
  frame.time_ns = time_ns;
  frame.flags = flags;
  {
    uint64_t* slot = outrider_loop_slot(v, frame.number);
    __atomic_store_n(slot, 2 * frame.number + 1, __ATOMIC_RELEASE);
    outrider_loop_store_words(slot + 1, &frame, sizeof frame);
    outrider_loop_store_words(slot + OUTRIDER_LOOP_SLOT_HEADER / 8, payload, v->payload_bytes);
    __atomic_store_n(slot, 2 * frame.number + 2, __ATOMIC_RELEASE);
  }
  outrider_loop_announce(v, frame.number);
  return frame.number;
}

/* [hot] Frames ever written; the newest is one less. */
static inline uint64_t outrider_loop_head(const outrider_loop_view* v) {
  return __atomic_load_n(&v->ring->head, __ATOMIC_ACQUIRE);
}

/* [hot] Copies frame `number` and its v->payload_bytes. 1 when it is whole; 0 when it was replaced,
 * is being written, or is no frame of this ring. */
static inline int outrider_loop_read(const outrider_loop_view* v, uint64_t number,
                                     outrider_loop_frame* frame, void* payload) {
  const uint64_t* slot = outrider_loop_slot(v, number);
  const uint64_t whole = 2 * number + 2;
  if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) != whole) return 0;
  outrider_loop_load_words(frame, slot + 1, sizeof *frame);
  outrider_loop_load_words(payload, slot + OUTRIDER_LOOP_SLOT_HEADER / 8, v->payload_bytes);
  return __atomic_load_n(slot, __ATOMIC_ACQUIRE) == whole &&
         frame->magic == OUTRIDER_LOOP_FRAME_MAGIC && frame->bytes == v->payload_bytes &&
         frame->number == number;
}

/* [hot] The newest whole frame; a bounded number of tries. 0 when there is none. */
static inline int outrider_loop_newest(const outrider_loop_view* v, outrider_loop_frame* frame,
                                       void* payload) {
  for (uint32_t n_tries = 0; n_tries < 4; ++n_tries) {
    const uint64_t head = outrider_loop_head(v);
    if (head == 0) return 0;
    for (uint64_t back = 1; back <= 2 && back <= head; ++back)
      if (outrider_loop_read(v, head - back, frame, payload)) return 1;
  }
  return 0;
}

/* Sleeps until the head is no longer `seen` or timeout_ns have passed. Returns the head. */
static inline uint64_t outrider_loop_wait(const outrider_loop_view* v, uint64_t seen,
                                          int64_t timeout_ns) {
  if (outrider_loop_head(v) == seen) {
    struct timespec t;
    t.tv_sec = (time_t)(timeout_ns / 1000000000);
    t.tv_nsec = (long)(timeout_ns % 1000000000);
    syscall(SYS_futex, &v->ring->wake, FUTEX_WAIT, (uint32_t)seen, &t, NULL, 0);
  }
  return outrider_loop_head(v);
}

#ifdef __cplusplus
}
#endif
#endif /* OUTRIDER_LOOP_H_ */
