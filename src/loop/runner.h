// Ticks a runtime at a fixed rate: newest observation in, one action a tick out, whatever happens.
//
// Two threads. The caller of run() waits for every tick's time, takes the newest observation, runs
// the stages and sends the answer. The watchdog wakes at every tick's deadline; when no answer was
// sent, it sends what was configured for that case. Who sends for a tick is decided by one atomic
// number, so that a tick has one action and a late answer is never sent. After start() neither
// thread allocates, locks or prints.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "loop/due.h"
#include "loop/histogram.h"
#include "loop/payload.h"
#include "loop/realtime.h"
#include "loop/segment.h"
#include "loop/timetable.h"

namespace outrider::loop {

struct Options {
  double hz = 100;
  int64_t n_ticks = 0;      // 0: until stop
  int64_t deadline_ns = 0;  // after a tick was due; 0: 92 % of the period; at most the period
  int64_t max_age_ns = INT64_MAX;  // an older observation is no observation
  int64_t n_hold = 0;              // so many ticks in a row repeat the last answer, then `safe`
  std::vector<std::byte> safe;     // a whole output payload; empty: zeros
  int priority = 0, cpu = -1;      // SCHED_FIFO 1 to 99, 0: none; below 0: any processor
  bool lock_pages = false;
  std::string text;  // for inputs that take text, staged once
  // What a tandem's `engaged` is told in every tick, unless observations carry it: whether somebody
  // acts on what this loop sends.
  bool engaged = true;
};

struct Grants {
  Grant priority, memory, cpu;
};

struct Totals {
  int64_t n_ticks = 0;    // due in the time the loop ran
  int64_t n_skipped = 0;  // never begun: the tick before was still running
  std::array<int64_t, OUTRIDER_LOOP_REASONS> by_reason{};  // of those begun; [OK]: answered in time
  int64_t n_safe = 0, n_held = 0;                          // actions that are not the model's
  int64_t n_observations = 0;                              // that were new to a tick
  int64_t first_failure_tick = -1;
  int first_failure_code = 0;
  Histogram wake, latency, run;  // begin after due; end after due; the tick alone
  int64_t n_overruns() const { return by_reason[OUTRIDER_LOOP_LATE] + n_skipped; }
};

struct Sample {
  static constexpr size_t kSignals = 6;
  int64_t tick = -1;
  int64_t wake_ns = 0, latency_ns = 0;
  uint16_t origin = 0, reason = 0;
  float in[kSignals] = {}, out[kSignals] = {};  // first values of the first f32 ports
};

class Runner {
 public:
  static constexpr size_t kSamples = size_t{1} << 16;  // the newest are kept

  // [setup] session and segment must outlive it. Errors: kInvalid (rate, deadline, safe action of
  // another size), those of staging the text.
  static Result<std::unique_ptr<Runner>> make(outrider_session* session, Payload inputs,
                                              Payload outputs, Segment& segment, Options options);
  ~Runner();

  // [setup] Asks the system for what the options want and starts the watchdog.
  Grants start();
  // [hot] Until n_ticks are through or stop is true.
  void run(const std::atomic<bool>& stop) noexcept;
  // [setup] Ends the watchdog, sends a last safe action, gives the priority back.
  void finish();

  const Totals& totals() const { return totals_; }
  // Why the first failed tick failed; "" when none did.
  const char* first_failure() const { return first_failure_; }
  // In order; the newest kSamples.
  std::vector<Sample> samples() const;
  const Timetable& timetable() const { return table_; }
  // The observation that ticks have taken, plus one: whoever must not overtake them waits for it.
  const std::atomic<uint64_t>& taken() const { return taken_; }

 private:
  Runner() = default;
  struct Answer {
    uint16_t reason = OUTRIDER_LOOP_OK;
    uint64_t observation = 0;
  };
  Answer answer_tick(int64_t tick, int64_t now_ns) noexcept;
  uint16_t take_observation(int64_t now_ns) noexcept;
  int stage_inputs() noexcept;
  int run_stages() noexcept;
  int read_outputs() noexcept;
  bool claim(int64_t tick) noexcept;
  void keep_good() noexcept;
  void send(int64_t tick, uint16_t origin, uint16_t reason, const void* payload) noexcept;
  void send_substitute(int64_t tick, uint16_t reason, std::byte* room) noexcept;
  bool good_copy(std::byte* to) const noexcept;
  void note_failure(int64_t tick, int code) noexcept;
  void record(int64_t tick, int64_t start_ns, int64_t end_ns, uint16_t reason) noexcept;
  void watch() noexcept;

  outrider_session* session_ = nullptr;
  Payload inputs_, outputs_;
  outrider_loop_view observations_ = {}, actions_ = {};
  Segment* segment_ = nullptr;
  Options options_;
  MonotonicClock clock_;
  Timetable table_;
  DueTime due_;
  int64_t reset_stage_ = -1;
  int engaged_port_ = -1;

  // Of the thread that ticks.
  std::vector<std::byte> observation_, incoming_, answer_, room_;
  std::vector<std::vector<frt_image_view>> views_;  // by input; empty: no pictures
  outrider_loop_frame frame_ = {};
  uint64_t observation_number_ = 0;
  int64_t observation_ns_ = 0;
  bool have_observation_ = false, bad_observation_ = false, reset_due_ = true;
  Totals totals_;
  char first_failure_[256] = {};
  std::vector<Sample> samples_;
  int64_t n_recorded_ = 0;

  // Shared by both threads.
  std::atomic<uint64_t> taken_{0};
  std::atomic<int64_t> decided_{0};   // ticks below it have their action
  std::atomic<int64_t> n_misses_{0};  // ticks in a row without an answer
  std::atomic<int64_t> n_safe_{0}, n_held_{0};
  std::atomic<uint64_t> good_sequence_{0};  // odd while the last answer is being replaced; 0: none
  std::vector<uint64_t> good_;
  std::atomic<uint64_t> answered_{0};  // observation of the last answer
  std::atomic<uint32_t> started_{0}, stopping_{0};
  std::vector<std::byte> watch_room_;
  std::thread watchdog_;
};

}  // namespace outrider::loop
