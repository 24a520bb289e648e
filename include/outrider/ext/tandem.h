/* Extension: a runtime that is a lead and a standby. The order of the port `counters`, the numbers
 * of the port `origin`, and a table to read both without the port.
 *
 * query_extension(runtime, OUTRIDER_EXT_TANDEM, 1, &table). Calls belong to the thread of the
 * verbs.
 */
#ifndef OUTRIDER_EXT_TANDEM_H_
#define OUTRIDER_EXT_TANDEM_H_
#include <stdint.h>

#define OUTRIDER_EXT_TANDEM UINT64_C(0x4F55000000000010)

/* Port `origin`, I64 {6}. */
enum outrider_origin {
  OUTRIDER_ORIGIN_LEADER = 0, /* 0 nobody (the tick was refused), 1 standby, 2 lead */
  OUTRIDER_ORIGIN_EPOCH = 1,  /* of the authority; rises by one with every change of leader */
  OUTRIDER_ORIGIN_HELD = 2,   /* 1: the previous output was given again */
  OUTRIDER_ORIGIN_AGE_NS = 3, /* from when the tick was due whose inputs were answered to the end of
                                 this tick: what a consumer can compensate */
  OUTRIDER_ORIGIN_REASON = 4, /* of the last change of leader: outrider_tandem_reason */
  OUTRIDER_ORIGIN_TICK = 5,   /* number of this tick, from 1 */
  OUTRIDER_ORIGIN_COUNT = 6
};

/* Port `counters`, I64 {32}. Slots from OUTRIDER_TANDEM_USED on are 0. */
enum outrider_tandem_counter {
  OUTRIDER_TANDEM_TICKS = 0,
  OUTRIDER_TANDEM_BY_LEAD = 1,
  OUTRIDER_TANDEM_BY_STANDBY = 2,
  OUTRIDER_TANDEM_HELD = 3,
  OUTRIDER_TANDEM_REFUSED = 4,
  OUTRIDER_TANDEM_HANDOVERS = 5, /* changes of leader, both ways */
  OUTRIDER_TANDEM_TAKEOVERS = 6,
  OUTRIDER_TANDEM_HANDBACKS = 7,
  OUTRIDER_TANDEM_LOSSES = 8,
  OUTRIDER_TANDEM_CONNECTS = 9,
  OUTRIDER_TANDEM_STALE_ANSWERS = 10, /* of an older epoch, dropped */
  OUTRIDER_TANDEM_LATE_ANSWERS = 11,  /* came after their tick, refreshed what is held */
  OUTRIDER_TANDEM_REPEATED_ANSWERS = 12,
  OUTRIDER_TANDEM_FORECASTS = 13, /* hand-backs before a tick was late */
  OUTRIDER_TANDEM_SHADOWS = 14,
  OUTRIDER_TANDEM_COVERED = 15, /* ticks the standby computed beside the lead */
  OUTRIDER_TANDEM_DROPPED_PERIODS = 16,
  OUTRIDER_TANDEM_LATE_TICKS = 17, /* ended more than a period after they were due */
  OUTRIDER_TANDEM_WORST_TICK_NS = 18,
  OUTRIDER_TANDEM_LAST_LEAD_NS =
      19, /* of the last answer of the lead, from when its tick was due */
  OUTRIDER_TANDEM_WORST_LEAD_NS = 20,
  OUTRIDER_TANDEM_STANDBY_NS = 21, /* what the standby is reckoned to need */
  OUTRIDER_TANDEM_RESETS = 22,     /* of the standby's history */
  OUTRIDER_TANDEM_PHASE = 23, /* 0 joining 1 ready 2 leading 3 holding 4 retrying 5 unavailable */
  OUTRIDER_TANDEM_STANDBY_FAILURES = 24,
  OUTRIDER_TANDEM_PROVING = 25, /* 1: the lead took over less than proving_ticks ago; hold off who
                                   wants to engage */
  OUTRIDER_TANDEM_USED = 26,
  OUTRIDER_TANDEM_COUNT = 32
};

enum outrider_tandem_reason {
  OUTRIDER_REASON_NONE = 0,
  OUTRIDER_REASON_TAKE_OVER = 1,
  OUTRIDER_REASON_TAKE_OVER_PROOF = 2,
  OUTRIDER_REASON_LOST = 3,
  OUTRIDER_REASON_UNSOUND = 4,
  OUTRIDER_REASON_SILENT = 5,
  OUTRIDER_REASON_DEADLINE = 6,
  OUTRIDER_REASON_ROW_HOLDS = 7,
  OUTRIDER_REASON_WINDOW_HOLDS = 8,
  OUTRIDER_REASON_PROVING = 9,
  OUTRIDER_REASON_DROPS = 10,
  OUTRIDER_REASON_FORECAST = 11,
  OUTRIDER_REASON_MISMATCH = 12,
  OUTRIDER_REASON_GAVE_UP = 13,
  OUTRIDER_REASON_STOPPED = 14
};

typedef struct outrider_tandem_v1 {
  uint32_t abi_version; /* 1 */
  uint32_t struct_size; /* sizeof(outrider_tandem_v1) */
  void* self;
  /* [hot] The two ports, any time. */
  void (*read_origin)(void* self, int64_t out[OUTRIDER_ORIGIN_COUNT]);
  void (*read_counters)(void* self, int64_t out[OUTRIDER_TANDEM_COUNT]);
  /* Names of the numbers above; NULL beyond their end. */
  const char* (*counter_name)(uint64_t index);
  const char* (*phase_name)(int64_t phase);
  const char* (*reason_name)(int64_t reason);
  /* Why the lead failed last: one line, "" when it never did. Valid until the next call. */
  const char* (*lead_error)(void* self);
  /* Absent where struct_size ends before them.
   * [any], any thread: the lead's device left and came back. The next tick ends the wait for the
   * next attempt, once in a streak of failures. */
  void (*replugged)(void* self);
  /* [setup], any thread: how the camera warp's output reaches the link (docs/design/memory.md), for
   * the status record: "direct" or "staged", and why, at most 160 bytes. 0, or FRT_ERR_INVALID. */
  int (*note_warp)(void* self, const char* route, const char* reason);
  /* [hot] When the next tick was due, in ns of CLOCK_MONOTONIC: the hold point and every other time
   * of that tick count from then, so that a late wake-up of the loop costs the lead and not the
   * consumer. A time to come counts as now, one further back than period_ms as that. A tick that
   * was not told of is due when it begins. */
  void (*due)(void* self, int64_t due_ns);
} outrider_tandem_v1;

#endif
