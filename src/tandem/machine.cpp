#include "tandem/machine.h"

#include "tandem/stepper.h"

namespace outrider::tandem {

Step Stepper::take(const Event& event) noexcept {
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
    case EventKind::kPong:
      pong(event);
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

// ---- a tick begins -----------------------------------------------------------------------------

void Stepper::tick(const Event& e) {
  if (s_.turn != Turn::kIdle) return;  // the one before has not ended
  s_.tick = e.tick;
  s_.start_ns = s_.now_ns - std::clamp<int64_t>(e.late_ns, 0, l_.period_ns);
  s_.engaged = e.engaged;
  s_.covered = false;
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

void Stepper::note_drops(int64_t dropped) {
  if (s_.n_ticks > l_.drop_first_ticks) s_.drops.put(l_, s_.forgive_drops ? 0 : dropped);
  s_.forgive_drops = false;
}

// Why the lead must not have this tick.
Reason Stepper::doubt() const {
  if (s_.pending != Reason::kNone) return s_.pending;
  if (overdue()) return Reason::kDeadline;
  if (s_.drops.beyond(l_)) return Reason::kDrops;
  if (s_.lag.late_soon(l_)) return Reason::kForecast;
  if (suspicious(s_.led_ticks + 1) && doubt_point_ns() <= s_.now_ns) return Reason::kSilent;
  return Reason::kNone;
}

bool Stepper::overdue() const {
  return question_open() && s_.now_ns - s_.oldest_asked_ns >= l_.deadline_ns;
}

// One more silent tick, its `led_ticks`th as leader, and the lead is lost.
bool Stepper::suspicious(int64_t led_ticks) const {
  return l_.silent_holds > 0 && s_.silent + 1 >= l_.silent_holds && led_ticks > l_.settling_ticks;
}

void Stepper::wait() {
  a_.wait_until_ns = suspicious(s_.led_ticks) ? doubt_point_ns() : hold_point_ns();
  a_.wait_until_ns = std::min(a_.wait_until_ns, s_.oldest_asked_ns + l_.deadline_ns);
  act(act::kWait);
}

void Stepper::ask() {
  if (!question_open()) s_.oldest_asked_ns = s_.start_ns;
  s_.asked_tick = s_.tick;
  s_.turn = Turn::kAwaitLead;
  ++s_.led_ticks;
  act(act::kAskLead);
  const int64_t every = l_.standby_every_ticks;
  if (every > 0 && s_.tick % every == 0 && s_.now_ns <= doubt_point_ns()) act(act::kCover);
  wait();
}

void Stepper::serve() {
  s_.turn = Turn::kAwaitStandby;
  act(act::kRunStandby);
  guest_work();
}

// ---- it ends -----------------------------------------------------------------------------------

namespace {
constexpr int64_t kStandbyDecay = 16;
}

void Stepper::end(uint32_t how) {
  s_.turn = Turn::kIdle;
  act(how);
  if (how == act::kRefuse) ++s_.counts.refused;
  if (how == act::kPublishHeld) ++s_.counts.held;
  if (how == act::kPublishLead) ++s_.counts.led_lead;
  if (how == act::kPublishStandby) ++s_.counts.led_standby;
  if (how != act::kRefuse) s_.published = true;
}

void Stepper::answer(const Event& e) {
  if (!lead_leads() || e.epoch != s_.epoch) return drop(s_.counts.stale_answers);
  if (e.tick <= s_.answered_tick || e.tick > s_.asked_tick) return drop(s_.counts.repeated_answers);
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

void Stepper::drop(int64_t& count) {
  ++count;
  act(act::kDropAnswer);
  if (s_.turn == Turn::kAwaitLead) wait();
}

void Stepper::point() {
  if (s_.turn != Turn::kAwaitLead) return;
  if (overdue()) return lose(Reason::kDeadline);
  if (suspicious(s_.led_ticks) && s_.now_ns >= doubt_point_ns()) return lose(Reason::kSilent);
  if (s_.now_ns < hold_point_ns()) return wait();
  hold();
}

void Stepper::hold() {
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

bool Stepper::window_is_full() const {
  if (s_.n_holds <= l_.window_holds) return false;
  const auto first = static_cast<size_t>(s_.n_holds - 1 - l_.window_holds);
  return s_.now_ns - s_.hold_ns[first % s_.hold_ns.size()] <= l_.window_ns;
}

void Stepper::standby(const Event& e) {
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

Step step(const Limits& limits, const State& state, const Event& event, int64_t now_ns) noexcept {
  return Stepper(limits, state, now_ns).take(event);
}

bool leads(const State& state) noexcept {
  return state.leader == Leader::kLead;
}

}  // namespace outrider::tandem
