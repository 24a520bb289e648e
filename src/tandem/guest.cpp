// Authority: who may have it and how it goes; and the lead while it does not lead.
#include "tandem/stepper.h"

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

}  // namespace

// ---- authority ----------------------------------------------------------------------------------

bool Stepper::may_take_over() const {
  const bool proven = l_.agree_ticks > 0 && s_.agreed >= l_.agree_ticks;
  return s_.phase == Phase::kReady && !s_.lead_busy && s_.published &&
         s_.standby_ran >= l_.standby_first_ticks && s_.caught_up_tick == s_.tick - 1 &&
         s_.good_returns >= l_.return_ticks && (!s_.engaged || proven);
}

void Stepper::change(Leader leader, Reason reason) {
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

void Stepper::take_over() {
  change(Leader::kLead, s_.engaged ? Reason::kTakeOverProof : Reason::kTakeOver);
  s_.phase = Phase::kLeading;
  ++s_.counts.takeovers;
}

void Stepper::hand_back(Reason reason) {
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
void Stepper::lose(Reason reason) {
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

// ---- the lead as a guest
// -------------------------------------------------------------------------

// What a lead that waits is given to do, apart from this tick.
void Stepper::guest_work() {
  if (s_.phase != Phase::kReady) return;
  ++s_.waited_ticks;
  if (s_.lead_busy) {
    if (s_.now_ns - s_.busy_since_ns > l_.ping_ns) fail(Reason::kSilent);
    return;
  }
  const bool follows = !s_.engaged || l_.agree_ticks > 0;
  const bool shadow_due = l_.shadow_every_ticks > 0 && s_.waited_ticks >= l_.shadow_every_ticks;
  const bool ping_due = s_.now_ns - s_.contact_ns >= l_.keepalive_ns;
  if (!follows && !shadow_due && !ping_due) return;
  act(follows ? act::kFollowLead : shadow_due ? act::kShadowLead : act::kPingLead);
  if (follows || shadow_due) s_.waited_ticks = 0;
  s_.lead_busy = true;
  s_.busy_since_ns = s_.now_ns;
}

void Stepper::forget_lead() {
  s_.connecting = s_.lead_busy = false;
  s_.caught_up_tick = -1;
  s_.good_returns = s_.agreed = 0;
}

void Stepper::close_lead() {
  if (s_.joined) act(act::kCloseLead);
  s_.joined = false;
  ++s_.link;  // what the closed one still has to say is another's
}

void Stepper::fail(Reason reason) {
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

int64_t Stepper::backoff_ns() const {
  const int64_t slow = s_.failures - l_.retry_quick_count;  // 1 is the first slow one
  if (slow <= 0) return l_.retry_quick_ns;
  int64_t wait = l_.retry_ns;
  for (int64_t i = 1; i < slow && wait < l_.retry_max_ns; ++i) wait *= 2;
  return std::min(wait, l_.retry_max_ns);
}

void Stepper::retry() {
  const bool first = s_.phase == Phase::kJoining && !s_.connecting;
  const bool due = s_.phase == Phase::kRetrying && !s_.connecting && s_.now_ns >= s_.retry_at_ns;
  if (due && s_.joined) return make_ready();
  if (!first && !due) return;
  s_.connecting = true;
  ++s_.link;
  ++s_.counts.connects;
  act(act::kConnect);
}

void Stepper::make_ready() {
  forget_lead();
  s_.joined = true;
  s_.phase = Phase::kReady;
  s_.contact_ns = s_.good_since_ns = s_.now_ns;
  s_.waited_ticks = 0;
}

void Stepper::joined(const Event& e) {
  const bool waits = s_.phase == Phase::kJoining || s_.phase == Phase::kRetrying;
  if (!waits || s_.joined || e.link != s_.link) return;
  make_ready();
}

void Stepper::failed(const Event& e) {
  if (e.link != s_.link || s_.phase == Phase::kUnavailable) return;
  if (lead_leads()) return lose(Reason::kLost);
  if (s_.joined || s_.connecting || s_.phase == Phase::kJoining) fail(Reason::kLost);
}

void Stepper::shadow(const Event& e) {
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

void Stepper::pong(const Event& e) {
  if (e.link != s_.link || s_.phase != Phase::kReady || !s_.lead_busy) return;
  if (!e.sound) return fail(Reason::kLost);
  s_.lead_busy = false;
  s_.contact_ns = s_.now_ns;
}

void Stepper::replugged() {
  if (s_.phase != Phase::kRetrying || s_.replug_used) return;
  s_.replug_used = true;
  s_.retry_at_ns = s_.now_ns;
}

void Stepper::retire(Reason reason) {
  s_.phase = Phase::kUnavailable;
  s_.reason = reason;
  forget_lead();
  close_lead();
}

void Stepper::mismatch(const Event& e) {
  if (e.link != s_.link || s_.joined || s_.phase == Phase::kUnavailable) return;
  act(act::kCloseLead);  // it is open, although it never joined
  retire(Reason::kMismatch);
}

void Stepper::stop() {
  if (s_.phase == Phase::kUnavailable) return;
  lead_leads() ? lose(Reason::kStopped) : retire(Reason::kStopped);
}

}  // namespace outrider::tandem
