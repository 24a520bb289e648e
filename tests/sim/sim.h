// The whole tandem in simulated time under one seed: the real runner, ring and lead driver, the
// real link client and server over a network that delays, tears and swallows, a scripted standby
// here and a scripted lead there. Every tick is checked; the first broken promise is kept in words
// and ends the run.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "link/sim.h"
#include "sim/baton.h"
#include "sim/host_model.h"
#include "sim/trace.h"
#include "tandem/lead_driver.h"
#include "tandem/runner.h"

namespace outrider::sim {

using tandem::Job;
using tandem::Limits;
using tandem::Phase;
using tandem::Report;
using tandem::State;

inline constexpr int64_t kMs = 1'000'000;

// Plays the thread and the queues of tandem::Worker.
class SimChannel final : public tandem::LeadChannel, public tandem::LeadReports {
 public:
  static constexpr size_t kAnswers = 7;
  SimChannel(Baton& baton, link::sim::World& world, Trace& trace, const tandem::Ports& ports,
             Arena& arena);

  // ---- caller
  void post(const Job& job) noexcept override;
  const Report* peek() noexcept override { return queue_.empty() ? nullptr : &queue_.front(); }
  void pop() noexcept override;
  void wait_until(int64_t at_ns) noexcept override;
  // The epoch under which a tick was asked; 0: it was not.
  uint32_t asked_epoch(int64_t tick) const;

  // ---- control thread
  bool take(Job& job);
  tandem::Answer* free_answer() override;
  void report(const tandem::Event& event, const tandem::Answer* answer) override;
  void pause() override { baton_.sleep_until(kControl, world_.now_ns + kMs); }
  bool stopped() const override { return stop; }
  bool idle = false;
  bool stop = false;

 private:
  Baton& baton_;
  link::sim::World& world_;
  Trace& trace_;
  std::vector<tandem::Answer> answers_;
  size_t n_free_ = kAnswers, n_answers_ = 0;
  std::deque<Report> queue_;
  Job waiting_;
  bool caller_listens_ = false;
  std::map<int64_t, uint32_t> asked_;
};

struct SimOptions {
  uint64_t seed = 0;
  Limits limits = tandem::preset_limits("driving20").value();
  int64_t standby_ns = 8 * kMs;
  double agree_distance = 0;
  float lead_who = 2;      // what the lead calls itself: another number is a lie
  int64_t cable_ns = kMs;  // one way
};

class Sim {
 public:
  explicit Sim(const SimOptions& options);
  ~Sim();

  // One tick at its time (a loop that was kept starts at once and skips what it missed), then
  // nothing until the next one is due.
  struct Seen {
    int code = 0;
    int64_t origin[OUTRIDER_ORIGIN_COUNT] = {};
    float command[4] = {};
    // late: begin after it was due. took (since the begin), age and decided without what the device
    // stood still meanwhile. decided: when, since it was due, the standby was begun or a held
    // output given; 0: the lead answered.
    int64_t late_ns = 0, took_ns = 0, age_ns = 0, decided_ns = 0;
    int64_t leader() const { return origin[OUTRIDER_ORIGIN_LEADER]; }
    bool held() const { return origin[OUTRIDER_ORIGIN_HELD] != 0; }
  };
  Seen tick(bool engaged = false);
  bool run(int n, bool engaged = false);  // false: a promise broke
  // Until the lead leads and is proven, at most 400 ticks.
  bool settle();
  bool until(Phase phase, bool engaged, int most = 400);

  const State& state() const { return runner->state(); }
  int64_t next_due_ns() const { return next_due_ns_; }
  // Things that happen to the world, now. Usable inside strike_at.
  void kill_host();
  void start_host();
  void cut(bool to_host, bool to_device);  // swallows without a word
  void mend();
  void tear();  // connections are reset
  void delay(int64_t run_ns, int64_t jitter_ns);
  void step_host_clock(int64_t by_ns);
  void stall(int64_t ns);
  // From the next tick on the loop wakes up so late.
  void wake_late(int64_t ns) { wake_late_ns_ = ns; }
  void set_nan(bool on);

  // What an answer that acts may be old at most: the settling ticks after a take-over are held
  // through, and the last of them to its hold point.
  int64_t most_age_ns() const {
    return std::max<int64_t>(o.limits.settling_ticks, 1) * o.limits.period_ns + o.limits.hold_ns;
  }
  // "" or the first broken promise, with its tick.
  const std::string& broken() const { return broken_; }
  // Seed, what broke, the last lines of the trace.
  std::string story(size_t lines = 300) const;

  SimOptions o;
  Trace trace;
  link::sim::World world;
  Baton baton{world.now_ns};
  Scripted standby;
  std::unique_ptr<tandem::Runner> runner;
  bool may_refuse = false;  // the standby fails on purpose
  int64_t n_ticks = 0, lead_ticks = 0, standby_ticks = 0, held_ticks = 0, refused = 0;
  int64_t worst_tick_ns = 0, worst_age_ns = 0, worst_gap_ns = 0, worst_decision_ns = 0;
  int64_t clock_steps = 0;

 private:
  void control();
  void check(const Seen& seen);
  void note(const char* what, const char* x_name = nullptr, int64_t x = 0) {
    trace.put(world.now_ns, n_ticks, what, x_name, x);
  }
  void broke(const char* what, int64_t found, int64_t allowed);

  int64_t run_ns_ = 20 * kMs;
  bool nan_ = false;
  std::string broken_;
  tandem::Ports ports_;
  Arena arena_;
  std::unique_ptr<tandem::InputRing> ring_;
  std::unique_ptr<SimChannel> channel_;
  std::unique_ptr<tandem::LeadDriver> driver_;
  link::Device* device_ = nullptr;
  int64_t next_due_ns_ = 0, standby_begun_ns_ = 0, wake_late_ns_ = 0;
  int64_t last_end_ns_ = 0, last_end_stalled_ns_ = 0, replaced_ticks_ = 0;
  std::map<int64_t, int64_t> stalled_at_start_;  // of the ticks that may still be held
  int64_t last_epoch_ = 0, last_leader_ = 1;
};

}  // namespace outrider::sim
