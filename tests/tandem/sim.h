// A tandem in simulated time: the real runner and ring, a scripted standby, and a lead at the end
// of a cable that loses, delays, repeats, cuts and dies as a seed says. Nothing here reads a real
// clock.
#pragma once
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "base/rng.h"
#include "tandem/runner.h"
#include "tandem/scripted.h"

namespace outrider::tandem::test {

inline constexpr int64_t kSimMs = 1000000;

// What the cable and the host behind it do just now.
struct Cable {
  bool alive = true;     // false: every call fails (connection refused, reset)
  bool silent = false;   // true: what is asked is never answered
  bool unsound = false;  // answers hold a NaN
  int64_t delay_ns = 25 * kSimMs, jitter_ns = 0;
  double loss = 0, repeat = 0;  // share of answers lost, delivered twice
};

// Plays the control thread and all that is behind it.
class SimLead final : public LeadChannel {
 public:
  SimLead(ManualClock* clock, const Ports& ports, uint64_t seed, Arena& arena)
      : clock_(clock), noise_(seed) {
    for (int i = 0; i < kAnswers; ++i) answers_.push_back(take_answer(ports, arena));
  }

  Cable cable;
  int64_t die_at_ns = -1;  // the host dies then, while somebody waits for it; -1: not
  uint64_t n_asked = 0;

  // The host dies: what it was working on fails at once, as a reset connection does.
  void die() {
    cable.alive = false;
    if (joined_) deliver(clock_->now_ns(), failed(current_link_));
    joined_ = false;
    busy_until_ns_ = 0;
    waiting_.kind = JobKind::kNone;
  }

  void post(const Job& job) noexcept override {
    if (busy())
      waiting_ = job;
    else
      begin(job, clock_->now_ns());
  }
  const Report* peek() noexcept override {
    settle();
    return queue_.empty() || queue_.front().arrived_ns > clock_->now_ns() ? nullptr
                                                                          : &queue_.front();
  }
  void pop() noexcept override { queue_.pop_front(); }
  void wait_until(int64_t at_ns) noexcept override {
    while (clock_->now_ns() < at_ns) {
      settle();
      int64_t next = at_ns;
      if (waiting_.kind != JobKind::kNone) next = std::min(next, busy_until_ns_);
      if (!queue_.empty()) next = std::min(next, queue_.front().arrived_ns);
      const bool dies = die_at_ns >= 0 && die_at_ns <= next;
      if (dies) next = die_at_ns;
      if (next > clock_->now_ns()) clock_->advance_ns(next - clock_->now_ns());
      if (dies) die_at_ns = -1, die();
      if (peek() != nullptr) return;
    }
  }

 private:
  bool busy() const { return clock_->now_ns() < busy_until_ns_; }
  double dice() { return static_cast<double>(noise_.unit(n_dice_++)); }
  void settle() {
    if (waiting_.kind != JobKind::kNone && !busy()) {
      const Job job = waiting_;
      waiting_.kind = JobKind::kNone;
      begin(job, std::max(busy_until_ns_, int64_t{0}));
    }
  }
  static Event failed(uint32_t link) {
    Event e;
    e.kind = EventKind::kFailed;
    e.link = link;
    return e;
  }
  void deliver(int64_t at_ns, const Event& event, const Answer* answer = nullptr) {
    auto place = std::find_if(queue_.begin(), queue_.end(),
                              [&](const Report& r) { return r.arrived_ns > at_ns; });
    queue_.insert(place, Report{event, answer, at_ns});
  }

  void begin(const Job& job, int64_t now_ns) {
    Event e;
    e.tick = job.tick;
    e.epoch = job.epoch;
    e.link = job.link;
    const int64_t delay_ns =
        cable.delay_ns + static_cast<int64_t>(dice() * static_cast<double>(cable.jitter_ns));
    if (job.kind == JobKind::kClose) {
      joined_ = false;
      return;
    }
    if (job.kind == JobKind::kConnect) {
      current_link_ = job.link;
      joined_ = cable.alive;
      e.kind = joined_ ? EventKind::kJoined : EventKind::kFailed;
      busy_until_ns_ = now_ns + kSimMs;
      return deliver(busy_until_ns_, e);
    }
    if (!joined_) return;
    ++n_asked;
    busy_until_ns_ = now_ns + delay_ns;
    if (!cable.alive) return deliver(now_ns, failed(job.link));
    if (cable.silent || dice() < cable.loss) return;  // the cable swallowed it
    if (job.kind == JobKind::kPing) {
      e.kind = EventKind::kPong;
      busy_until_ns_ = now_ns + kSimMs;
      return deliver(busy_until_ns_, e);
    }
    e.took_ns = delay_ns;
    e.sound = !cable.unsound;
    if (job.kind != JobKind::kAsk) {
      e.kind = EventKind::kShadow;
      e.caught_up = job.kind == JobKind::kFollow;
      return deliver(busy_until_ns_, e);
    }
    e.kind = EventKind::kAnswer;
    const Answer& answer = fill(job);
    deliver(busy_until_ns_, e, &answer);
    if (dice() < cable.repeat) deliver(busy_until_ns_ + 7 * kSimMs, e, &answer);
  }

  // The answer tells who made it, for which tick, under which epoch.
  const Answer& fill(const Job& job) {
    Answer& answer = answers_[n_answers_++ % kAnswers];
    const float values[4] = {2, static_cast<float>(job.tick), static_cast<float>(job.epoch), 0};
    Output& command = answer.outputs[0];
    command.code = 0;
    command.bytes = sizeof values;
    std::memcpy(command.room.data(), values, sizeof values);
    answer.outputs[1].code = FRT_ERR_NOT_READY;
    answer.outputs[1].bytes = 0;
    return answer;
  }

  static constexpr int kAnswers = 64;
  ManualClock* clock_;
  UniformStream noise_;
  uint64_t n_dice_ = 0;
  size_t n_answers_ = 0;
  std::vector<Answer> answers_;
  std::deque<Report> queue_;
  Job waiting_;
  bool joined_ = false;
  uint32_t current_link_ = 0;
  int64_t busy_until_ns_ = 0;
};

// One loop: device, cable, host. Every tick is checked.
class Sim {
 public:
  explicit Sim(uint64_t seed, const Limits& limits = preset_limits("driving20").value(),
               const Scripted::Options& standby_options = {.who = 1})
      : limits_(limits), standby(&clock, standby_options) {
    clock.advance_ns(1000 * kSimMs);
    ports_ = plan_ports(standby.runtime(), {.max_output_bytes = 64}).value();
    EXPECT_TRUE(arena_.reserve(uint64_t{4} << 20));
    ring_ = std::make_unique<InputRing>(ports_, limits.history_ticks, true, arena_);
    lead = std::make_unique<SimLead>(&clock, ports_, seed, arena_);
    runner = std::make_unique<Runner>(
        Runner::Parts{limits, &ports_, &standby.core(), History::of(standby.core()).value(),
                      lead.get(), ring_.get(), &clock, nullptr},
        arena_);
    standby.n_resets = 0;  // those of the set-up
  }

  struct Seen {
    int code = 0;
    int64_t origin[OUTRIDER_ORIGIN_COUNT] = {};
    float command[4] = {};
    int64_t took_ns = 0;
    int64_t leader() const { return origin[OUTRIDER_ORIGIN_LEADER]; }
    bool held() const { return origin[OUTRIDER_ORIGIN_HELD] != 0; }
  };

  // One tick, then the rest of the period. `stall_ns`: the device itself stands still after it.
  Seen tick(bool engaged = false, int64_t stall_ns = 0) {
    ++n_ticks;
    worst_stall_ns = std::max(worst_stall_ns, stall_ns);
    const float state[2] = {static_cast<float>(n_ticks), 1};
    EXPECT_EQ(runner->set_input(0, state, sizeof state), 0);
    runner->set_engaged(engaged);
    const int64_t begin = clock.now_ns();
    Seen seen;
    seen.code = runner->tick();
    seen.took_ns = clock.now_ns() - begin;
    runner->read_origin(seen.origin);
    uint64_t written = 0;
    if (seen.code == 0) {
      EXPECT_EQ(runner->get_output(0, seen.command, sizeof seen.command, &written), 0);
    }
    check(seen);
    const int64_t rest = limits_.period_ns - seen.took_ns % limits_.period_ns;
    clock.advance_ns(rest + stall_ns);
    return seen;
  }
  void run(int n, bool engaged = false) {
    for (int i = 0; i < n; ++i) tick(engaged);
  }
  // Until the lead leads and is proven.
  void settle() {
    for (int i = 0; i < 400 && runner->state().led_ticks < limits_.proving_ticks; ++i) tick();
    ASSERT_GE(runner->state().led_ticks, limits_.proving_ticks);
  }

  ManualClock clock;
  int64_t n_ticks = 0, unanswered = 0, double_authority = 0, stale = 0, worst_ns = 0;
  int64_t last_epoch = 0, standby_ticks = 0, lead_ticks = 0, held_ticks = 0, worst_age_ns = 0;
  int64_t worst_stall_ns = 0;

 private:
  void check(const Seen& seen) {
    worst_ns = std::max(worst_ns, seen.took_ns);
    if (seen.code != 0) {
      ++unanswered;
      return;
    }
    worst_age_ns = std::max(worst_age_ns, seen.origin[OUTRIDER_ORIGIN_AGE_NS]);
    const int64_t epoch = seen.origin[OUTRIDER_ORIGIN_EPOCH];
    if (epoch < last_epoch) ++stale;
    last_epoch = epoch;
    held_ticks += seen.held();
    if (seen.held()) return;
    const int64_t maker = static_cast<int64_t>(seen.command[0]);
    if (maker != seen.leader()) ++double_authority;
    standby_ticks += maker == 1;
    lead_ticks += maker == 2;
    if (maker == 2 && (static_cast<int64_t>(seen.command[2]) != epoch ||
                       static_cast<int64_t>(seen.command[1]) != n_ticks))
      ++stale;
    if (maker == 1 && static_cast<int64_t>(seen.command[1]) != n_ticks) ++stale;
  }

  Limits limits_;
  Ports ports_;
  Arena arena_;
  std::unique_ptr<InputRing> ring_;

 public:
  Scripted standby;
  std::unique_ptr<SimLead> lead;
  std::unique_ptr<Runner> runner;
};

}  // namespace outrider::tandem::test
