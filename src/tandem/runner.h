// The tandem on the caller's thread: stages inputs, runs the machine, publishes one answer a tick.
//
// After construction nothing here allocates, locks, formats or throws, in any state of the machine.
// The standby's verbs run on the caller's thread; the lead is somebody else's (channel.h).
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "outrider/ext/tandem.h"
#include "tandem/channel.h"
#include "tandem/handover.h"
#include "tandem/history.h"
#include "tandem/input_ring.h"

namespace outrider::tandem {

// What another thread may know of a tandem at any time (the status record).
struct Glance {
  std::atomic<uint8_t> phase{0};
  std::atomic<int64_t> handovers{0};
  std::atomic<int64_t> lead_output_ns{0};  // when the last new output of the lead was published;
                                           // 0 while the standby leads
};

// A tick that outlived its period, and where the time went.
struct SlowTick {
  int64_t tick = 0, took_ns = 0, lead_ns = 0, standby_ns = 0;  // waiting for the lead, the standby
  Leader leader = Leader::kNobody;
  bool held = false;
};

class Runner {
 public:
  struct Parts {
    Limits limits;
    const Ports* ports = nullptr;
    host::SessionCore* standby = nullptr;
    History standby_history;
    LeadChannel* lead = nullptr;
    InputRing* ring = nullptr;
    const Clock* clock = nullptr;
    // Raised when glance().phase changes, and when the lead gave its first output. May be nullptr.
    Signal* changed = nullptr;
  };
  static uint64_t room_bytes(const Ports& ports) { return 2 * answer_bytes(ports); }
  // [setup] Asks the lead's side to connect; its report is taken at the first tick.
  Runner(const Parts& parts, Arena& arena);

  // ---- [hot] verbs; `input` and `output` index Ports::in and Ports::out
  // ---------------------------
  int set_input(size_t input, const void* data, uint64_t bytes) noexcept;
  void set_engaged(bool engaged) noexcept;
  // A refused value: nobody knows who is in control, and outputs are not ready.
  void forget_engaged() noexcept;
  // One tick. 0 when an output was published (fresh or held); the standby's code when the tick was
  // refused; -1 when a required input is not staged (then the tick does not count).
  int tick() noexcept;
  // When the next tick was due, by the clock of this runner: what its loop lost before tick() comes
  // off the time the lead is given. A time to come counts as now, one further back than a period as
  // a period ago. Not told: a tick is due when it begins.
  void due(int64_t due_ns) noexcept { due_ns_ = due_ns; }
  int get_output(size_t output, void* out, uint64_t capacity, uint64_t* written) noexcept;
  void read_origin(int64_t (&out)[OUTRIDER_ORIGIN_COUNT]) const noexcept;
  void read_counters(int64_t (&out)[OUTRIDER_TANDEM_COUNT]) const noexcept;

  // What the last failed verb was about, for last_error.
  enum class Fault : uint8_t {
    kNone,
    kStandbyInput,
    kTooLarge,
    kBadImage,
    kNotStaged,
    kRefused,
    kNotReady,
    kStorage
  };
  struct Failure {
    Fault fault = Fault::kNone;
    int code = 0;
    size_t port = 0;
    uint64_t bytes = 0;
  };
  const Failure& failure() const { return failure_; }
  void clear_failure() noexcept { failure_ = {}; }
  const State& state() const { return state_; }
  const Glance& glance() const { return glance_; }
  // [any] From any thread: the lead's device left and came back. Taken at the next tick.
  void replugged() noexcept { replugged_.store(true, std::memory_order_relaxed); }
  // One other thread: the newest slow tick that was not taken yet.
  bool take_slow(SlowTick& out) noexcept { return slow_.take(out); }

 private:
  int fail(Fault fault, int code, size_t port = 0, uint64_t bytes = 0) noexcept;
  bool missing_input(size_t& input) const noexcept;
  bool engaged(int64_t now_ns) const noexcept;
  void advance(const Event& event, const Report* report) noexcept;
  void drain() noexcept;
  void await_lead() noexcept;
  void run_standby() noexcept;
  bool standby_answers() noexcept;
  void reset_standby() noexcept;
  void post(JobKind kind) noexcept;
  void finish(uint32_t ends, const Report* report) noexcept;
  void publish(const Answer& answer, int64_t tick, bool copy) noexcept;
  void note_end(int64_t start_ns) noexcept;

  Parts parts_;
  State state_;
  Actions actions_;
  std::vector<uint32_t> out_index_;
  Answer published_, standby_answer_;
  bool ready_ = false, held_ = false, standby_dirty_ = false;
  int standby_code_ = 0;
  int64_t published_tick_ = 0, standby_tick_ = -1;

  static constexpr size_t kStarts = 256;  // when recent ticks were due, by number
  std::array<int64_t, kStarts> start_ns_{};
  int64_t due_ns_ = INT64_MAX;  // of the next tick; INT64_MAX: not told
  bool engaged_ = true;
  int64_t engaged_ns_ = INT64_MIN;
  int64_t lead_ns_ = 0, standby_ns_ = 0;  // of this tick
  int64_t dropped_ = 0;                   // periods the last tick took too long

  Failure failure_;
  std::array<int64_t, OUTRIDER_ORIGIN_COUNT> origin_{};
  std::array<int64_t, OUTRIDER_TANDEM_COUNT> more_{};  // counters that the machine does not have
  Glance glance_;
  std::atomic<bool> replugged_{false};
  Newest<SlowTick> slow_;
};

}  // namespace outrider::tandem
