#include "tandem/machine.h"

#include <algorithm>

namespace outrider::tandem {
namespace {

// After these the lead is closed and opened anew; after the others its runtime stays as it is.
bool is_loss(Reason reason) {
  switch (reason) {
    case Reason::kLost:
    case Reason::kUnsound:
    case Reason::kSilent:
    case Reason::kDeadline:
      return true;
    default:
      return false;
  }
}

// One step: works on a copy of the state.
class Stepper {
 public:
  Stepper(const Limits& limits, const State& state, int64_t now_ns) : l_(limits), s_(state) {
    s_.now_ns = std::max(s_.now_ns, now_ns);
  }
  Step take(const Event& event) noexcept {
    switch (event.kind) {
      case EventKind::kTick:
        tick(event);
        break;
      case EventKind::kAnswer:
        answer(event);
        break;
      case EventKind::kPoint:
        point();
        break;
      case EventKind::kStandby:
        standby(event);
        break;
      case EventKind::kJoined:
        joined(event);
        break;
      case EventKind::kMismatch:
        mismatch(event);
        break;
      case EventKind::kFailed:
        failed(event);
        break;
      case EventKind::kShadow:
        shadow(event);
        break;
      case EventKind::kReplugged:
        replugged();
        break;
      case EventKind::kStop:
        stop();
        break;
      case EventKind::kCount:
        break;
    }
    return {s_, a_};
  }

 private:
  bool lead_leads() const { return s_.leader == Leader::kLead; }
  bool question_open() const { return s_.asked_tick > s_.answered_tick; }
  void act(uint32_t bits) { a_.bits |= bits; }

  // ---- a tick begins ---------------------------------------------------------------------------

  void tick(const Event& e) {
    s_.tick = e.tick;
    s_.start_ns = s_.now_ns;
    s_.engaged = e.engaged;
    s_.covered = false;
    s_.turn = Turn::kIdle;
    ++s_.n_ticks;
    note_drops(e.dropped);
    if (lead_leads())
      if (const Reason why = doubt(); why != Reason::kNone) hand_back(why);
    if (!lead_leads()) {
      retry();
      if (may_take_over()) take_over();
    }
    lead_leads() ? ask() : serve();
  }

  void note_drops(int64_t dropped) {
    const bool first = s_.n_ticks <= l_.drop_first_ticks;
    if (first) s_.drops = {};
    if (!first) s_.drops.put(l_, s_.forgive_drops ? 0 : dropped);
    s_.forgive_drops = false;
  }

  // Why the lead must not have this tick.
  Reason doubt() const {
    if (s_.pending != Reason::kNone) return s_.pending;
    if (overdue()) return Reason::kDeadline;
    if (s_.drops.beyond(l_)) return Reason::kDrops;
    if (s_.lag.late_soon(l_)) return Reason::kForecast;
    if (suspicious() && doubt_point_ns() <= s_.now_ns) return Reason::kSilent;
    return Reason::kNone;
  }

  bool overdue() const {
    return question_open() && s_.now_ns - s_.oldest_asked_ns >= l_.deadline_ns;
  }
  // One more silent tick and the lead is lost.
  bool suspicious() const {
    return l_.silent_holds > 0 && s_.silent + 1 >= l_.silent_holds &&
           s_.led_ticks > l_.settling_ticks;
  }
  int64_t hold_point_ns() const { return s_.start_ns + l_.hold_ns; }
  // The last moment at which the standby still answers this tick by the hold point.
  int64_t doubt_point_ns() const { return hold_point_ns() - s_.standby_ns; }

  void wait() {
    a_.wait_until_ns = suspicious() ? doubt_point_ns() : hold_point_ns();
    a_.wait_until_ns = std::min(a_.wait_until_ns, s_.oldest_asked_ns + l_.deadline_ns);
    act(act::kWait);
  }

  void ask() {
    if (!question_open()) s_.oldest_asked_ns = s_.now_ns;
    s_.asked_tick = s_.tick;
    s_.turn = Turn::kAwaitLead;
    ++s_.led_ticks;
    act(act::kAskLead);
    const int64_t every = l_.standby_every_ticks;
    if (every > 0 && s_.tick % every == 0 && s_.standby_ns <= l_.hold_ns) act(act::kCover);
    wait();
  }

  void serve() {
    s_.turn = Turn::kAwaitStandby;
    act(act::kRunStandby);
    guest_work();
  }

  // What a lead that waits is given to do, apart from this tick.
  void guest_work() {
    if (s_.phase != Phase::kReady) return;
    ++s_.waited_ticks;
    if (s_.lead_busy) {
      if (s_.now_ns - s_.busy_since_ns > l_.ping_ns) fail(Reason::kSilent);
      return;
    }
    const bool shadow_due =
        (l_.shadow_every_ticks > 0 && s_.waited_ticks >= l_.shadow_every_ticks) ||
        s_.now_ns - s_.contact_ns >= l_.keepalive_ns;
    if (!s_.engaged || l_.agree_ticks > 0)
      act(act::kFollowLead);
    else if (shadow_due)
      act(act::kShadowLead);
    else
      return;
    s_.waited_ticks = 0;
    s_.lead_busy = true;
    s_.busy_since_ns = s_.now_ns;
  }

  // ---- the tick ends ---------------------------------------------------------------------------

  void end(uint32_t how) {
    s_.turn = Turn::kIdle;
    act(how);
    if (how == act::kRefuse) ++s_.counts.refused;
    if (how == act::kPublishHeld) ++s_.counts.held;
    if (how == act::kPublishLead) ++s_.counts.led_lead;
    if (how == act::kPublishStandby) ++s_.counts.led_standby;
    if (how != act::kRefuse) s_.published = true;
  }

  void answer(const Event& e) {
    if (!lead_leads() || e.epoch != s_.epoch) return drop(s_.counts.stale_answers);
    if (e.tick <= s_.answered_tick || e.tick > s_.asked_tick)
      return drop(s_.counts.repeated_answers);
    if (!e.sound) return lose(Reason::kUnsound);
    s_.answered_tick = e.tick;
    s_.silent = 0;
    if (e.tick == s_.tick && s_.turn == Turn::kAwaitLead) {
      if (s_.led_ticks > l_.settling_ticks) s_.lag.put(l_, e.took_ns);
      s_.holds_row = 0;
      s_.phase = Phase::kLeading;
      return end(act::kPublishLead);
    }
    ++s_.counts.late_answers;
    act(act::kKeepLate);
    if (question_open()) s_.oldest_asked_ns = s_.start_ns;
    if (s_.turn == Turn::kAwaitLead) wait();
  }

  void drop(int64_t& count) {
    ++count;
    act(act::kDropAnswer);
    if (s_.turn == Turn::kAwaitLead) wait();
  }

  void point() {
    if (s_.turn != Turn::kAwaitLead) return;
    if (overdue()) return lose(Reason::kDeadline);
    if (suspicious() && s_.now_ns >= doubt_point_ns()) return lose(Reason::kSilent);
    if (s_.now_ns < hold_point_ns()) return wait();
    hold();
  }

  void hold() {
    s_.phase = Phase::kHolding;
    ++s_.silent;
    end(act::kPublishHeld);
    if (s_.led_ticks <= l_.settling_ticks) return;
    ++s_.holds_row;
    s_.hold_ns[static_cast<size_t>(s_.n_holds++) % s_.hold_ns.size()] = s_.now_ns;
    if (s_.led_ticks <= l_.proving_ticks)
      s_.pending = Reason::kProving;
    else if (s_.holds_row >= l_.row_holds)
      s_.pending = Reason::kRowHolds;
    else if (window_is_full())
      s_.pending = Reason::kWindowHolds;
  }

  bool window_is_full() const {
    if (s_.n_holds <= l_.window_holds) return false;
    const auto first = static_cast<size_t>(s_.n_holds - 1 - l_.window_holds);
    return s_.now_ns - s_.hold_ns[first % s_.hold_ns.size()] <= l_.window_ns;
  }

  void standby(const Event& e) {
    if (s_.turn == Turn::kIdle) return;
    s_.standby_ns = e.took_ns > s_.standby_ns
                        ? e.took_ns
                        : s_.standby_ns - (s_.standby_ns - e.took_ns) / kStandbyDecay;
    s_.standby_ran = e.sound ? s_.standby_ran + 1 : 0;
    s_.standby_failed = e.sound ? 0 : s_.standby_failed + 1;
    if (s_.turn == Turn::kAwaitLead) {
      s_.covered = e.sound;
      if (e.sound) ++s_.counts.covered;
      return wait();
    }
    if (e.sound) return end(act::kPublishStandby);
    end(s_.published && s_.standby_failed <= l_.stop_holds ? act::kPublishHeld : act::kRefuse);
  }

  // ---- authority -------------------------------------------------------------------------------

  bool may_take_over() const {
    const bool proven = l_.agree_ticks > 0 && s_.agreed >= l_.agree_ticks;
    return s_.phase == Phase::kReady && !s_.lead_busy && s_.published &&
           s_.standby_ran >= l_.standby_first_ticks && s_.caught_up_tick == s_.tick - 1 &&
           s_.good_returns >= l_.return_ticks && (!s_.engaged || proven);
  }

  void change(Leader leader, Reason reason) {
    ++s_.epoch;
    ++s_.counts.handovers;
    s_.leader = leader;
    s_.reason = reason;
    s_.pending = Reason::kNone;
    s_.led_ticks = s_.holds_row = s_.silent = s_.n_holds = 0;
    s_.asked_tick = s_.answered_tick = s_.tick - 1;
    s_.drops = {};
    s_.lag = {};
    s_.forgive_drops = true;
  }

  void take_over() {
    change(Leader::kLead, s_.engaged ? Reason::kTakeOverProof : Reason::kTakeOver);
    s_.phase = Phase::kLeading;
    ++s_.counts.takeovers;
  }

  void hand_back(Reason reason) {
    change(Leader::kStandby, reason);
    ++s_.counts.handbacks;
    if (reason == Reason::kForecast) ++s_.counts.forecasts;
    if (l_.standby_every_ticks == 0) {
      act(act::kResetStandby);
      s_.standby_ran = 0;
    }
    fail(reason);
    if (l_.max_handbacks > 0 && s_.counts.handbacks >= l_.max_handbacks) retire(Reason::kGaveUp);
    if (reason == Reason::kStopped) retire(reason);
  }

  // The lead is lost while it leads. The tick that waits for it goes to the standby, or, where
  // the standby would be late, the next one does. (A lead took over after a published output, so
  // there is always something to hold.)
  void lose(Reason reason) {
    const bool waits = s_.turn == Turn::kAwaitLead;
    const bool in_time = s_.now_ns + s_.standby_ns <= s_.start_ns + l_.period_ns;
    if (waits && !s_.covered && !in_time) {
      s_.pending = reason;
      s_.phase = Phase::kHolding;
      return end(act::kPublishHeld);
    }
    hand_back(reason);
    if (!waits) return;
    if (s_.covered) return end(act::kPublishStandby);
    s_.turn = Turn::kAwaitStandby;
    act(act::kRunStandby);
  }

  // ---- the lead as a guest ---------------------------------------------------------------------

  void forget_lead() {
    s_.connecting = s_.lead_busy = false;
    s_.caught_up_tick = -1;
    s_.good_returns = s_.agreed = 0;
  }

  void close_lead() {
    if (s_.joined) act(act::kCloseLead);
    s_.joined = false;
    ++s_.link;  // what the closed one still has to say is another's
  }

  void fail(Reason reason) {
    forget_lead();
    if (s_.joined && s_.now_ns - s_.good_since_ns > l_.streak_ns) {
      s_.failures = 0;
      s_.replug_used = false;
    }
    if (is_loss(reason)) {
      ++s_.counts.losses;
      close_lead();
    }
    ++s_.failures;
    s_.retry_at_ns = s_.now_ns + backoff_ns();
    s_.phase = Phase::kRetrying;
  }

  int64_t backoff_ns() const {
    const int64_t slow = s_.failures - l_.retry_quick_count;  // 1 is the first slow one
    if (slow <= 0) return l_.retry_quick_ns;
    int64_t wait = l_.retry_ns;
    for (int64_t i = 1; i < slow && wait < l_.retry_max_ns; ++i) wait *= 2;
    return std::min(wait, l_.retry_max_ns);
  }

  void retry() {
    const bool first = s_.phase == Phase::kJoining && !s_.connecting;
    const bool due = s_.phase == Phase::kRetrying && !s_.connecting && s_.now_ns >= s_.retry_at_ns;
    if (due && s_.joined) return make_ready();
    if (!first && !due) return;
    s_.connecting = true;
    ++s_.link;
    ++s_.counts.connects;
    act(act::kConnect);
  }

  void make_ready() {
    forget_lead();
    s_.joined = true;
    s_.phase = Phase::kReady;
    s_.contact_ns = s_.good_since_ns = s_.now_ns;
    s_.waited_ticks = 0;
  }

  void joined(const Event& e) {
    const bool waits = s_.phase == Phase::kJoining || s_.phase == Phase::kRetrying;
    if (!waits || s_.joined || e.link != s_.link) return;
    make_ready();
  }

  void failed(const Event& e) {
    if (e.link != s_.link || s_.phase == Phase::kUnavailable) return;
    if (lead_leads()) return lose(Reason::kLost);
    if (s_.joined || s_.connecting || s_.phase == Phase::kJoining) fail(Reason::kLost);
  }

  void shadow(const Event& e) {
    if (e.link != s_.link || s_.phase != Phase::kReady) return;
    if (!e.sound) return fail(Reason::kUnsound);
    ++s_.counts.shadows;
    s_.lead_busy = false;
    s_.contact_ns = s_.now_ns;
    s_.caught_up_tick = e.caught_up ? e.tick : -1;
    s_.good_returns = e.took_ns <= l_.return_ns ? s_.good_returns + 1 : 0;
    if (e.agreement == Agreement::kWithin) ++s_.agreed;
    if (e.agreement == Agreement::kBeyond) s_.agreed = 0;
  }

  void replugged() {
    if (s_.phase != Phase::kRetrying || s_.replug_used) return;
    s_.replug_used = true;
    s_.retry_at_ns = s_.now_ns;
  }

  void retire(Reason reason) {
    s_.phase = Phase::kUnavailable;
    s_.reason = reason;
    forget_lead();
    close_lead();
  }

  void mismatch(const Event& e) {
    if (e.link != s_.link || s_.joined || s_.phase == Phase::kUnavailable) return;
    act(act::kCloseLead);  // it is open, although it never joined
    retire(Reason::kMismatch);
  }

  void stop() {
    if (s_.phase == Phase::kUnavailable) return;
    lead_leads() ? lose(Reason::kStopped) : retire(Reason::kStopped);
  }

  static constexpr int64_t kStandbyDecay = 16;

  const Limits& l_;
  State s_;
  Actions a_;
};

template <class Enum, size_t n>
const char* name_in(const char* const (&names)[n], Enum value) {
  const auto index = static_cast<size_t>(value);
  return index < n ? names[index] : "unknown";
}

}  // namespace

Step step(const Limits& limits, const State& state, const Event& event, int64_t now_ns) noexcept {
  return Stepper(limits, state, now_ns).take(event);
}

bool leads(const State& state) noexcept {
  return state.leader == Leader::kLead;
}

const char* phase_name(Phase phase) {
  static constexpr const char* kNames[] = {"joining", "ready",    "leading",
                                           "holding", "retrying", "unavailable"};
  return name_in(kNames, phase);
}
const char* leader_name(Leader leader) {
  static constexpr const char* kNames[] = {"nobody", "standby", "lead"};
  return name_in(kNames, leader);
}
const char* reason_name(Reason reason) {
  static constexpr const char* kNames[] = {
      "none",   "take_over", "take_over_proof", "lost",         "unsound",
      "silent", "deadline",  "row_holds",       "window_holds", "proving",
      "drops",  "forecast",  "mismatch",        "gave_up",      "stopped"};
  static_assert(std::size(kNames) == static_cast<size_t>(Reason::kCount));
  return name_in(kNames, reason);
}

}  // namespace outrider::tandem
