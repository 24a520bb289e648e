// Who answers: the tandem's state machine. Pure: (limits, state, event, now) -> (state, actions).
//
// No clock, no I/O, no memory beyond the state. One thread (the caller of the tick) owns the state;
// what other threads have to say reaches it as events. Time never runs backwards here: an older
// `now` counts as the newest one seen.
//
// The three promises, whatever the events and their order:
//   - one authority: `epoch` rises by one with every change of leader, an answer that carries
//     another epoch is dropped, so two leaders can never both act;
//   - every tick ends in exactly one of kPublishLead, kPublishHeld, kPublishStandby, kRefuse;
//   - doubt moves authority to the standby, never to the lead; if the standby fails too the
//     previous output is held, then the tick is refused.
//
// Source: link.md 10 (rules and numbers), driving.md d and g. What differs from there is said in
// docs/design/tandem.md.
#pragma once
#include <array>
#include <cstdint>

#include "tandem/lag.h"
#include "tandem/limits.h"

namespace outrider::tandem {

enum class Phase : uint8_t {
  kJoining,      // the standby answers; the lead was not there yet
  kReady,        // the standby answers; the lead is there and waits for a window
  kLeading,      // the lead answers
  kHolding,      // the lead leads, its last answer was late and the previous output was given again
  kRetrying,     // the standby answers after a failure; the backoff runs
  kUnavailable,  // the standby answers for good
};
enum class Leader : uint8_t { kNobody, kStandby, kLead };

enum class Reason : uint8_t {
  kNone,
  kTakeOver,       // to the lead, nobody in control
  kTakeOverProof,  // to the lead while engaged, after a proof of agreement
  kLost,           // the lead's runtime failed, or its link did
  kUnsound,        // the lead's answer had a NaN, a wrong size or was malformed
  kSilent,         // no answer of any kind for silent_holds ticks
  kDeadline,       // a question was unanswered for deadline_ms
  kRowHolds,
  kWindowHolds,
  kProving,   // a held tick in the proving time
  kDrops,     // too many missed periods
  kForecast,  // the next ticks would have been late
  kMismatch,  // the lead's ports are not the standby's
  kGaveUp,    // max_handbacks reached
  kStopped,
  kCount
};

enum class EventKind : uint8_t {
  kTick,     // a tick begins. tick, engaged, dropped (periods the last tick took too long), late_ns
             // (since it was due; more than a period counts as one)
  kAnswer,   // the lead answered a question. tick, epoch, sound, took_ns (since its tick was due)
  kPoint,    // wait_until_ns has come and no answer for this tick
  kStandby,  // the standby ran for this tick. sound, took_ns
  kJoined,   // the lead is open and its ports agree. link
  kMismatch,   // the lead is open and its ports do not agree. link
  kFailed,     // the lead failed: open, a verb, the link. link
  kShadow,     // shadow work is done. link, tick, sound, took_ns, caught_up, agreement
  kPong,       // the lead was asked whether it is there. link, sound: it is
  kReplugged,  // the lead's device left and came back
  kStop,
  kCount
};

enum class Agreement : uint8_t { kNotCompared, kWithin, kBeyond };

struct Event {
  EventKind kind = EventKind::kTick;
  int64_t tick = 0;
  uint32_t epoch = 0, link = 0;
  bool engaged = true;
  bool sound = true;
  bool caught_up = false;  // the lead's history holds every tick up to `tick`
  Agreement agreement = Agreement::kNotCompared;
  int64_t dropped = 0, took_ns = 0, late_ns = 0;
};

// What the owner of the state must do now, in the order of this list.
namespace act {
inline constexpr uint32_t kResetStandby = 1u << 0;  // its history to zero, in place
inline constexpr uint32_t kCloseLead = 1u << 1;
inline constexpr uint32_t kConnect = 1u << 2;     // open the lead; report with this link
inline constexpr uint32_t kAskLead = 1u << 3;     // ask this tick under this epoch
inline constexpr uint32_t kFollowLead = 1u << 4;  // let the lead see every input up to this tick
inline constexpr uint32_t kShadowLead = 1u << 5;  // let the lead answer this tick for nobody
inline constexpr uint32_t kCover = 1u << 6;       // run the standby while the lead is thinking
inline constexpr uint32_t kWait = 1u << 7;        // until wait_until_ns, then kPoint
inline constexpr uint32_t kRunStandby = 1u << 8;  // then kStandby
inline constexpr uint32_t kKeepLate = 1u << 9;    // this late answer is what is held from now on
inline constexpr uint32_t kDropAnswer = 1u << 10;
inline constexpr uint32_t kPublishLead = 1u << 11;  // these four end the tick
inline constexpr uint32_t kPublishHeld = 1u << 12;
inline constexpr uint32_t kPublishStandby = 1u << 13;
inline constexpr uint32_t kRefuse = 1u << 14;
inline constexpr uint32_t kPingLead = 1u << 15;  // ask whether it is there; it answers no tick
inline constexpr uint32_t kEnds = kPublishLead | kPublishHeld | kPublishStandby | kRefuse;
}  // namespace act

struct Actions {
  uint32_t bits = 0;
  int64_t wait_until_ns = 0;  // with kWait
  bool has(uint32_t one) const noexcept { return (bits & one) != 0; }
};

enum class Turn : uint8_t { kIdle, kAwaitLead, kAwaitStandby };

struct Counts {
  int64_t handovers = 0, takeovers = 0, handbacks = 0;
  int64_t led_lead = 0, led_standby = 0, held = 0, refused = 0;  // how ticks ended
  int64_t stale_answers = 0, late_answers = 0, repeated_answers = 0;
  int64_t forecasts = 0, losses = 0, connects = 0, shadows = 0, covered = 0;
  bool operator==(const Counts&) const = default;
};

struct State {
  Phase phase = Phase::kJoining;
  Leader leader = Leader::kStandby;
  Turn turn = Turn::kIdle;
  Reason reason = Reason::kNone;   // of the last change of leader
  Reason pending = Reason::kNone;  // hand back at the next tick because of this
  uint32_t epoch = 1, link = 0;
  int64_t now_ns = INT64_MIN;

  // This tick.
  int64_t tick = 0, start_ns = 0, n_ticks = 0;  // start: when it was due
  bool engaged = true, covered = false, published = false;

  // The standby.
  int64_t standby_ran = 0, standby_failed = 0, standby_ns = 0;

  // The lead as leader.
  int64_t led_ticks = 0, holds_row = 0, silent = 0;
  int64_t asked_tick = 0, answered_tick = 0, oldest_asked_ns = 0;  // open: asked > answered
  std::array<int64_t, kMaxWindowHolds + 1> hold_ns{};              // ring of held ticks
  int64_t n_holds = 0;
  DropFilter drops;
  LagForecast lag;
  bool forgive_drops = false;

  // The lead as a guest.
  bool joined = false, connecting = false, lead_busy = false, replug_used = false;
  int64_t busy_since_ns = 0, contact_ns = 0, caught_up_tick = -1;
  int64_t good_returns = 0, agreed = 0, waited_ticks = 0;
  int64_t failures = 0, good_since_ns = 0, retry_at_ns = 0;

  Counts counts;
  bool operator==(const State&) const = default;
};

struct Step {
  State state;
  Actions actions;
};

// [hot] Never fails: an event that cannot happen in a state changes nothing but the clock.
Step step(const Limits& limits, const State& state, const Event& event, int64_t now_ns) noexcept;

bool leads(const State& state) noexcept;  // the lead has the authority
const char* phase_name(Phase phase);      // "joining", ...
const char* leader_name(Leader leader);   // "nobody", "standby", "lead"
const char* reason_name(Reason reason);   // "lost", ...

}  // namespace outrider::tandem
