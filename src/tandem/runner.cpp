#include "tandem/runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace outrider::tandem {

Runner::Runner(const Parts& parts, Arena& arena)
    : parts_(parts),
      published_(take_answer(*parts.ports, arena)),
      standby_answer_(take_answer(*parts.ports, arena)) {
  for (const Port& port : parts_.ports->out) out_index_.push_back(port.index);
  state_.connecting = true;  // the first attempt runs already; its link is 0
  post(JobKind::kConnect);
}

int Runner::fail(Fault fault, int code, size_t port, uint64_t bytes) noexcept {
  failure_ = {fault, code, port, bytes};
  return code;
}

// ---- inputs and outputs -----------------------------------------------------------------------

// The standby takes every input at once: it can answer any tick without further ado.
int Runner::set_input(size_t input, const void* data, uint64_t bytes) noexcept {
  ready_ = false;
  const int copied = parts_.ring->stage(input, data, bytes);
  if (copied == FRT_ERR_SHAPE) return fail(Fault::kTooLarge, copied, input, bytes);
  const int code = parts_.standby->set_input(parts_.ports->in[input].index, data, bytes);
  if (code != FRT_OK || copied != FRT_OK) parts_.ring->forget(input);
  if (code != FRT_OK) return fail(Fault::kStandbyInput, code, input, bytes);
  if (copied != FRT_OK) return fail(Fault::kBadImage, copied, input, bytes);
  clear_failure();
  return FRT_OK;
}

void Runner::set_engaged(bool engaged) noexcept {
  engaged_ = engaged;
  engaged_ns_ = parts_.clock->now_ns();
  clear_failure();
}

void Runner::forget_engaged() noexcept {
  engaged_ns_ = INT64_MIN;
  ready_ = false;
}

// Unknown counts as in control: never staged, or too old.
bool Runner::engaged(int64_t now_ns) const noexcept {
  return engaged_ || engaged_ns_ == INT64_MIN ||
         now_ns - engaged_ns_ > parts_.limits.engaged_max_age_ns;
}

bool Runner::missing_input(size_t& input) const noexcept {
  for (input = 0; input < parts_.ports->in.size(); ++input)
    if (parts_.ports->in[input].required && !parts_.ring->staged(input)) return true;
  return false;
}

int Runner::get_output(size_t output, void* out, uint64_t capacity, uint64_t* written) noexcept {
  *written = 0;
  const Output& source = published_.outputs[output];
  if (!ready_ || source.code != FRT_OK) return fail(Fault::kNotReady, FRT_ERR_NOT_READY, output);
  *written = source.bytes;
  if (out == nullptr || capacity < source.bytes)
    return fail(Fault::kStorage, FRT_ERR_STORAGE, output, source.bytes);
  if (source.bytes > 0) std::memcpy(out, source.room.data(), source.bytes);
  clear_failure();
  return FRT_OK;
}

// ---- a tick -------------------------------------------------------------------------------------

int Runner::tick() noexcept {
  const int64_t due_ns = std::exchange(due_ns_, INT64_MAX);
  size_t missing = 0;
  if (missing_input(missing)) return fail(Fault::kNotStaged, FRT_ERR_INVALID, missing);
  const int64_t begin_ns = parts_.clock->now_ns(),
                start_ns = std::clamp(due_ns, begin_ns - parts_.limits.period_ns, begin_ns);
  ready_ = false;
  drain();  // what came between two ticks belongs to the one before
  if (replugged_.exchange(false, std::memory_order_relaxed)) {
    Event back;
    back.kind = EventKind::kReplugged;
    advance(back, nullptr);
  }
  lead_ns_ = standby_ns_ = 0;
  const int64_t tick = state_.tick + 1;
  start_ns_[static_cast<size_t>(tick) % kStarts] = start_ns;
  parts_.ring->commit(tick);
  Event event;
  event.kind = EventKind::kTick;
  event.tick = tick;
  event.engaged = engaged(begin_ns);
  event.dropped = dropped_;
  event.late_ns = begin_ns - start_ns;
  standby_code_ = FRT_OK;
  advance(event, nullptr);
  // Ends: every kPoint at or after the hold point ends the tick or leaves it to the standby.
  while (state_.turn != Turn::kIdle) {
    if (state_.turn == Turn::kAwaitLead)
      await_lead();
    else
      run_standby();
  }
  note_end(start_ns);
  if (!ready_) return fail(Fault::kRefused, standby_code_ != 0 ? standby_code_ : FRT_ERR_FAILED);
  clear_failure();
  return FRT_OK;
}

void Runner::drain() noexcept {
  while (const Report* report = parts_.lead->peek()) {
    Event event = report->event;
    if (event.kind == EventKind::kAnswer) {
      event.took_ns = report->arrived_ns - start_ns_[static_cast<size_t>(event.tick) % kStarts];
      more_[OUTRIDER_TANDEM_LAST_LEAD_NS] = event.took_ns;
      more_[OUTRIDER_TANDEM_WORST_LEAD_NS] =
          std::max(more_[OUTRIDER_TANDEM_WORST_LEAD_NS], event.took_ns);
    }
    advance(event, report);
    parts_.lead->pop();
  }
}

void Runner::await_lead() noexcept {
  const int64_t until_ns = actions_.wait_until_ns;
  const int64_t begin_ns = parts_.clock->now_ns();
  parts_.lead->wait_until(until_ns);
  lead_ns_ += parts_.clock->now_ns() - begin_ns;
  drain();
  if (state_.turn != Turn::kAwaitLead || parts_.clock->now_ns() < until_ns) return;
  Event event;
  event.kind = EventKind::kPoint;
  advance(event, nullptr);
}

void Runner::run_standby() noexcept {
  Event event;
  event.kind = EventKind::kStandby;
  event.tick = state_.tick;
  const int64_t begin_ns = parts_.clock->now_ns();
  event.sound = standby_answers();
  if (!event.sound) ++more_[OUTRIDER_TANDEM_STANDBY_FAILURES];
  event.took_ns = parts_.clock->now_ns() - begin_ns;
  standby_ns_ += event.took_ns;
  advance(event, nullptr);
}

// A history that could not be put back to its start is nobody's: the standby does not act on it.
bool Runner::standby_answers() noexcept {
  if (standby_dirty_) reset_standby();
  if (standby_dirty_) return false;
  standby_code_ = parts_.standby_history.tick(*parts_.standby);
  return standby_code_ == FRT_OK &&
         read_answer(*parts_.standby, parts_.ports->out, out_index_, standby_answer_);
}

void Runner::reset_standby() noexcept {
  standby_code_ = parts_.standby_history.reset(*parts_.standby);
  standby_dirty_ = standby_code_ != FRT_OK;
  if (!standby_dirty_) ++more_[OUTRIDER_TANDEM_RESETS];
}

void Runner::post(JobKind kind) noexcept {
  parts_.lead->post({kind, state_.tick, state_.epoch, state_.link});
}

// One event through the machine, and what it asks for. The standby's runs are left to tick().
void Runner::advance(const Event& event, const Report* report) noexcept {
  const uint8_t phase = static_cast<uint8_t>(state_.phase);
  const int64_t wait_until_ns = actions_.wait_until_ns;
  Step next = step(parts_.limits, state_, event, parts_.clock->now_ns());
  state_ = next.state;
  actions_ = next.actions;
  if (!actions_.has(act::kWait)) actions_.wait_until_ns = wait_until_ns;
  if (actions_.has(act::kResetStandby) && parts_.standby_history.exists()) reset_standby();
  if (actions_.has(act::kCloseLead)) post(JobKind::kClose);
  if (actions_.has(act::kConnect)) post(JobKind::kConnect);
  if (actions_.has(act::kAskLead)) post(JobKind::kAsk);
  if (actions_.has(act::kFollowLead)) post(JobKind::kFollow);
  if (actions_.has(act::kShadowLead)) post(JobKind::kShadow);
  if (actions_.has(act::kPingLead)) post(JobKind::kPing);
  if (actions_.has(act::kKeepLate)) publish(*report->answer, event.tick, true);
  if ((actions_.bits & act::kEnds) != 0) finish(actions_.bits & act::kEnds, report);
  if (static_cast<uint8_t>(state_.phase) != phase) {
    glance_.phase.store(static_cast<uint8_t>(state_.phase), std::memory_order_release);
    if (parts_.changed != nullptr) parts_.changed->raise();
  }
  if (actions_.has(act::kCover)) run_standby();
}

void Runner::publish(const Answer& answer, int64_t tick, bool copy) noexcept {
  if (copy)
    copy_answer(answer, published_);
  else
    std::swap(published_, standby_answer_);
  published_tick_ = tick;
}

void Runner::finish(uint32_t ends, const Report* report) noexcept {
  held_ = ends == act::kPublishHeld;
  ready_ = ends != act::kRefuse;
  if (ends == act::kPublishLead) {
    publish(*report->answer, state_.tick, true);
    const bool first = glance_.lead_output_ns.load(std::memory_order_relaxed) == 0;
    glance_.lead_output_ns.store(parts_.clock->now_ns(), std::memory_order_relaxed);
    if (first && parts_.changed != nullptr) parts_.changed->raise();
  } else if (ends == act::kPublishStandby) {
    publish(standby_answer_, state_.tick, false);
    parts_.ring->put_answer(published_);
  }
  if (!leads(state_)) glance_.lead_output_ns.store(0, std::memory_order_relaxed);
  glance_.handovers.store(state_.counts.handovers, std::memory_order_relaxed);
}

void Runner::note_end(int64_t start_ns) noexcept {
  const int64_t now_ns = parts_.clock->now_ns(), took_ns = now_ns - start_ns;
  dropped_ = took_ns / parts_.limits.period_ns;
  more_[OUTRIDER_TANDEM_DROPPED_PERIODS] += dropped_;
  more_[OUTRIDER_TANDEM_LATE_TICKS] += took_ns > parts_.limits.period_ns;
  more_[OUTRIDER_TANDEM_WORST_TICK_NS] = std::max(more_[OUTRIDER_TANDEM_WORST_TICK_NS], took_ns);
  const Leader leader = ready_ ? state_.leader : Leader::kNobody;
  if (took_ns > parts_.limits.period_ns)
    slow_.put({state_.tick, took_ns, lead_ns_, standby_ns_, leader, held_});
  const int64_t made_ns = start_ns_[static_cast<size_t>(published_tick_) % kStarts];
  origin_ = {static_cast<int64_t>(leader),
             state_.epoch,
             held_ ? 1 : 0,
             ready_ ? now_ns - made_ns : 0,
             static_cast<int64_t>(state_.reason),
             state_.tick};
}

void Runner::read_origin(int64_t (&out)[OUTRIDER_ORIGIN_COUNT]) const noexcept {
  std::copy(origin_.begin(), origin_.end(), out);
}

void Runner::read_counters(int64_t (&out)[OUTRIDER_TANDEM_COUNT]) const noexcept {
  std::copy(more_.begin(), more_.end(), out);
  const Counts& c = state_.counts;
  out[OUTRIDER_TANDEM_TICKS] = state_.tick;
  out[OUTRIDER_TANDEM_BY_LEAD] = c.led_lead;
  out[OUTRIDER_TANDEM_BY_STANDBY] = c.led_standby;
  out[OUTRIDER_TANDEM_HELD] = c.held;
  out[OUTRIDER_TANDEM_REFUSED] = c.refused;
  out[OUTRIDER_TANDEM_HANDOVERS] = c.handovers;
  out[OUTRIDER_TANDEM_TAKEOVERS] = c.takeovers;
  out[OUTRIDER_TANDEM_HANDBACKS] = c.handbacks;
  out[OUTRIDER_TANDEM_LOSSES] = c.losses;
  out[OUTRIDER_TANDEM_CONNECTS] = c.connects + 1;  // and the first one, made here
  out[OUTRIDER_TANDEM_STALE_ANSWERS] = c.stale_answers;
  out[OUTRIDER_TANDEM_LATE_ANSWERS] = c.late_answers;
  out[OUTRIDER_TANDEM_REPEATED_ANSWERS] = c.repeated_answers;
  out[OUTRIDER_TANDEM_FORECASTS] = c.forecasts;
  out[OUTRIDER_TANDEM_SHADOWS] = c.shadows;
  out[OUTRIDER_TANDEM_COVERED] = c.covered;
  out[OUTRIDER_TANDEM_STANDBY_NS] = state_.standby_ns;
  out[OUTRIDER_TANDEM_PROVING] =
      leads(state_) && state_.led_ticks <= parts_.limits.proving_ticks ? 1 : 0;
  out[OUTRIDER_TANDEM_PHASE] = static_cast<int64_t>(state_.phase);
}

}  // namespace outrider::tandem
