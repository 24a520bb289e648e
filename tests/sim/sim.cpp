#include "sim/sim.h"

#include <cstring>

namespace outrider::sim {

using tandem::Answer;
using tandem::Event;
using tandem::EventKind;
using tandem::JobKind;

// ---- between caller and control thread ----------------------------------------------------------

SimChannel::SimChannel(Baton& baton, link::sim::World& world, Trace& trace,
                       const tandem::Ports& ports, Arena& arena)
    : baton_(baton), world_(world), trace_(trace) {
  for (size_t i = 0; i < kAnswers; ++i) answers_.push_back(take_answer(ports, arena));
}

namespace {

const char* job_words(JobKind kind) {
  constexpr const char* kNames[] = {"asks nothing",       "asks: connect", "asks: close",
                                    "asks: answer",       "asks: follow",  "asks: shadow",
                                    "asks: are you there"};
  return kNames[static_cast<size_t>(kind)];
}

const char* event_words(EventKind kind) {
  constexpr const char* kNames[] = {"tick",       "lead answers", "point",      "standby",
                                    "joined",     "mismatch",     "lead fails", "shadow done",
                                    "lead there", "replugged",    "stop"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

void SimChannel::post(const Job& job) noexcept {
  trace_.put(world_.now_ns, job.tick, job_words(job.kind), "epoch", job.epoch, "link", job.link);
  if (job.kind == JobKind::kAsk) asked_[job.tick] = job.epoch;
  if (asked_.size() > 64) asked_.erase(asked_.begin());
  waiting_ = job;  // the newest replaces one that was not begun
  if (idle) baton_.wake(kControl);
}

void SimChannel::pop() noexcept {
  if (queue_.front().answer != nullptr) ++n_free_;
  queue_.pop_front();
}

void SimChannel::wait_until(int64_t at_ns) noexcept {
  caller_listens_ = true;
  while (world_.now_ns < at_ns && queue_.empty()) baton_.sleep_until(kCaller, at_ns);
  caller_listens_ = false;
}

uint32_t SimChannel::asked_epoch(int64_t tick) const {
  const auto at = asked_.find(tick);
  return at == asked_.end() ? 0 : at->second;
}

bool SimChannel::take(Job& job) {
  job = waiting_;
  waiting_ = {};
  return job.kind != JobKind::kNone;
}

Answer* SimChannel::free_answer() {
  while (n_free_ == 0) {
    if (stop) return nullptr;
    pause();
  }
  return &answers_[n_answers_ % kAnswers];
}

void SimChannel::report(const Event& event, const Answer* answer) {
  trace_.put(world_.now_ns, event.tick, event_words(event.kind), "sound", event.sound, "took us",
             event.took_ns / 1000, event.caught_up ? "caught up" : "");
  if (answer != nullptr) ++n_answers_, --n_free_;
  queue_.push_back({event, answer, world_.now_ns});
  if (caller_listens_) baton_.wake(kCaller);
}

// ---- the whole ----------------------------------------------------------------------------------

Sim::Sim(const SimOptions& options)
    : o(options), world(options.seed), standby(nullptr, {.who = 1}) {
  trace.begin_ns = world.now_ns;
  world.stop_host();
  world.make_runtime = [this] {
    return std::make_unique<HostModel>(world, run_ns_, nan_, o.lead_who);
  };
  world.on_time = [this](int64_t at_ns) { baton.sleep_until(kControl, at_ns); };
  world.weather[0].delay_ns = world.weather[1].delay_ns = o.cable_ns;
  world.start_host();
  standby.now.took_ns = o.standby_ns;
  standby.now.spend = [this](int64_t ns) {
    standby_begun_ns_ = world.now_ns;
    const int64_t until_ns = world.now_ns + ns;
    while (world.now_ns < until_ns) baton.sleep_until(kCaller, until_ns);
  };
  ports_ = tandem::plan_ports(standby.runtime(), {.max_output_bytes = 64}).value();
  EXPECT_TRUE(arena_.reserve(uint64_t{4} << 20));
  const bool compares = o.limits.agree_ticks > 0;
  ring_ = std::make_unique<tandem::InputRing>(ports_, o.limits.history_ticks, compares, arena_);
  channel_ = std::make_unique<SimChannel>(baton, world, trace, ports_, arena_);
  const auto open = [this]() -> Result<std::unique_ptr<host::SessionCore>> {
    link::DeviceConfig config;
    config.connect_ns = 1000 * kMs;
    auto device = world.open_device(config);
    if (!device) return device.error();
    return RemoteModel::open(std::move(device.value()), &device_, world.device_clock);
  };
  driver_ = std::make_unique<tandem::LeadDriver>(
      tandem::LeadDriver::Parts{open, &standby.runtime(), &ports_, ring_.get(), &world.device_clock,
                                o.agree_distance, compares ? o.limits.period_ns : 0},
      *channel_, arena_);
  runner = std::make_unique<tandem::Runner>(
      tandem::Runner::Parts{o.limits, &ports_, &standby.core(),
                            tandem::History::of(standby.core()).value(), channel_.get(),
                            ring_.get(), &world.device_clock, nullptr},
      arena_);
  standby.n_resets = 0;  // those of the set-up
  next_due_ns_ = world.now_ns + 10 * kMs;
  baton.start([this] { control(); });
}

Sim::~Sim() {
  channel_->stop = true;
  while (!baton.over()) {
    baton.wake(kControl);
    baton.sleep_until(kCaller, world.now_ns + kMs);
  }
  world.on_time = nullptr;
}

// One job at a time; without one the link keeps itself up, as the thread of its provider does.
void Sim::control() {
  constexpr int64_t kUpkeepNs = 50 * kMs;
  int64_t upkeep_ns = 0;
  while (!channel_->stop) {
    Job job;
    if (channel_->take(job)) {
      driver_->work(job);
      continue;
    }
    if (device_ != nullptr && world.now_ns >= upkeep_ns) {
      device_->upkeep();
      upkeep_ns = world.now_ns + kUpkeepNs;
      continue;  // a job may have come meanwhile
    }
    channel_->idle = true;
    world.step(device_ != nullptr ? upkeep_ns : world.now_ns + kUpkeepNs);
    channel_->idle = false;
  }
  driver_->close();
}

// ---- fate ---------------------------------------------------------------------------------------

void Sim::kill_host() {
  note("host dies");
  world.stop_host();
}
void Sim::start_host() {
  if (world.host_up) return;
  note("host is born");
  world.start_host();
}
void Sim::cut(bool to_host, bool to_device) {
  note(to_host && to_device ? "cable cut" : to_host ? "cut to the host" : "cut to the device");
  world.weather[0].silent = to_host;
  world.weather[1].silent = to_device;
}
void Sim::mend() {
  note("cable whole");
  world.weather[0].silent = world.weather[1].silent = false;
}
void Sim::tear() {
  note("connections torn");
  world.break_all();
}
void Sim::delay(int64_t run_ns, int64_t jitter_ns) {
  note("model takes", "us", run_ns / 1000);
  run_ns_ = run_ns;
  world.weather[0].jitter_ns = world.weather[1].jitter_ns = jitter_ns;
}
void Sim::step_host_clock(int64_t by_ns) {
  note("host's clock steps", "ms", by_ns / kMs);
  world.host_clock.step_ns += by_ns;
  ++clock_steps;
}
void Sim::stall(int64_t ns) {
  note("device stands still", "ms", ns / kMs);
  baton.stand_still(ns);
}
void Sim::set_nan(bool on) {
  note(on ? "model unsound" : "model sound");
  nan_ = on;
}

// ---- ticks --------------------------------------------------------------------------------------

Sim::Seen Sim::tick(bool engaged) {
  const int64_t wake_ns = next_due_ns_ + wake_late_ns_;
  while (world.now_ns < wake_ns) baton.sleep_until(kCaller, wake_ns);
  ++n_ticks;
  runner->due(next_due_ns_);
  const float input[2] = {static_cast<float>(n_ticks), 1};
  EXPECT_EQ(runner->set_input(0, input, sizeof input), 0);
  runner->set_engaged(engaged);
  const int64_t begin_ns = world.now_ns, stalled_ns = baton.stalled_ns;
  Seen seen;
  seen.late_ns = begin_ns - next_due_ns_;
  // Beyond its wake-up a loop is late because the device stood still.
  stalled_at_start_[n_ticks] = stalled_ns - (seen.late_ns - wake_late_ns_);
  if (stalled_at_start_.size() > 64) stalled_at_start_.erase(stalled_at_start_.begin());
  note("tick begins", "engaged", engaged);
  seen.code = runner->tick();
  const int64_t stood_ns = baton.stalled_ns - stalled_ns;
  seen.took_ns = world.now_ns - begin_ns - stood_ns;
  runner->read_origin(seen.origin);
  if (seen.held()) seen.decided_ns = seen.late_ns + seen.took_ns;
  if (!seen.held() && seen.leader() != 2)
    seen.decided_ns =
        seen.late_ns + standby_begun_ns_ - begin_ns - (standby_begun_ns_ > begin_ns ? stood_ns : 0);
  uint64_t written = 0;
  if (seen.code == 0) {
    EXPECT_EQ(runner->get_output(0, seen.command, sizeof seen.command, &written), 0);
    const auto made_for = static_cast<int64_t>(seen.command[1]);
    const auto at = stalled_at_start_.find(made_for);
    seen.age_ns = seen.origin[OUTRIDER_ORIGIN_AGE_NS];
    if (at != stalled_at_start_.end()) seen.age_ns -= baton.stalled_ns - at->second;
  }
  trace.put(world.now_ns, n_ticks,
            seen.code != 0       ? "refused:"
            : seen.held()        ? "held:"
            : seen.leader() == 2 ? "by the lead:"
                                 : "by the standby:",
            "epoch", seen.origin[OUTRIDER_ORIGIN_EPOCH], "took us", seen.took_ns / 1000,
            tandem::phase_name(state().phase));
  check(seen);
  // What was due while the loop was kept is never made up for.
  next_due_ns_ += o.limits.period_ns;
  while (next_due_ns_ + o.limits.period_ns < world.now_ns) next_due_ns_ += o.limits.period_ns;
  return seen;
}

bool Sim::run(int n, bool engaged) {
  for (int i = 0; i < n && broken_.empty(); ++i) tick(engaged);
  return broken_.empty();
}

bool Sim::settle() {
  for (int i = 0; i < 400 && state().led_ticks < o.limits.proving_ticks; ++i) tick();
  return broken_.empty() && state().led_ticks >= o.limits.proving_ticks;
}

bool Sim::until(Phase phase, bool engaged, int most) {
  for (int i = 0; i < most && state().phase != phase; ++i) tick(engaged);
  return state().phase == phase;
}

void Sim::broke(const char* what, int64_t found, int64_t allowed) {
  if (!broken_.empty()) return;
  broken_ = "tick " + std::to_string(n_ticks) + ": " + what + ": found " + std::to_string(found) +
            ", allowed " + std::to_string(allowed);
}

std::string Sim::story(size_t lines) const {
  return "seed " + std::to_string(o.seed) + ": " + (broken_.empty() ? "all kept" : broken_) + "\n" +
         trace.text(lines) + "again: OUTRIDER_SIM_SEED=" + std::to_string(o.seed) + "\n";
}

// The promises. What is said of age and duration is without the time the device stood still.
void Sim::check(const Seen& seen) {
  const Limits& l = o.limits;
  worst_tick_ns = std::max(worst_tick_ns, seen.took_ns);
  if (seen.took_ns > l.period_ns)
    broke("a tick outlived its period, ns", seen.took_ns, l.period_ns);
  if (seen.code != 0) {
    ++refused;
    if (!may_refuse) broke("a tick without an answer, code", seen.code, 0);
    return;
  }
  worst_age_ns = std::max(worst_age_ns, seen.age_ns);
  worst_decision_ns = std::max(worst_decision_ns, seen.decided_ns);
  if (last_end_ns_ > 0) {
    const int64_t gap_ns = world.now_ns - last_end_ns_ - (baton.stalled_ns - last_end_stalled_ns_);
    worst_gap_ns = std::max(worst_gap_ns, gap_ns);
    if (gap_ns > 2 * l.period_ns) broke("time between two outputs, ns", gap_ns, 2 * l.period_ns);
  }
  last_end_ns_ = world.now_ns;
  last_end_stalled_ns_ = baton.stalled_ns;
  const int64_t hold_ns = std::max(l.hold_ns, seen.late_ns);  // at once where that is past
  if (seen.decided_ns > hold_ns + kMs)
    broke("fall-back decided after the hold point, ns", seen.decided_ns, hold_ns + kMs);
  if (seen.age_ns > most_age_ns() && !may_refuse)
    broke("what acts is old, ns", seen.age_ns, most_age_ns());
  const int64_t epoch = seen.origin[OUTRIDER_ORIGIN_EPOCH];
  const auto maker = static_cast<int64_t>(seen.command[0]),
             made_for = static_cast<int64_t>(seen.command[1]),
             n_runs = static_cast<int64_t>(seen.command[3]);
  if (epoch < last_epoch_) broke("the epoch fell", epoch, last_epoch_);
  const bool changed = seen.leader() != last_leader_;
  if (last_epoch_ > 0 && ((epoch - last_epoch_) % 2 != 0) != changed)
    broke("leader and epoch did not change together", epoch, last_epoch_);
  if (maker == 2 && channel_->asked_epoch(made_for) != static_cast<uint32_t>(epoch) &&
      seen.leader() == 2)
    broke("an answer of another epoch acts", channel_->asked_epoch(made_for), epoch);
  if (seen.held()) {
    ++held_ticks;
    // It began past its hold point, so the next tick begins at once: the newer frame may replace
    // this one at the host before it ran (FC-40).
    if (seen.late_ns >= l.hold_ns) ++replaced_ticks_;
    if (made_for >= n_ticks) broke("held what was made for", made_for, n_ticks - 1);
  } else {
    if (maker != seen.leader()) broke("two authorities: made by", maker, seen.leader());
    if (made_for != n_ticks) broke("an answer of another tick", made_for, n_ticks);
    const int64_t known = std::min(n_ticks - replaced_ticks_, l.history_ticks);
    if (maker == 2 && n_runs < known)
      broke("the lead is cold: runs since its reset", n_runs, known);
    if (maker == 1 && last_leader_ == 2 && l.standby_every_ticks == 0 && n_runs != 1)
      broke("the standby did not start anew: runs since its reset", n_runs, 1);
  }
  lead_ticks += !seen.held() && maker == 2;
  standby_ticks += !seen.held() && maker == 1;
  last_epoch_ = epoch;
  last_leader_ = seen.leader();
}

}  // namespace outrider::sim
