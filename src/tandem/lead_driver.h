// What is done with the lead, one job at a time: it is opened, asked, fed what it missed, closed.
//
// No thread and no queue of its own: worker.h gives it both, a simulation its own. Whatever can
// block on the lead blocks in work().
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "outrider/ext/liveness.h"
#include "tandem/channel.h"
#include "tandem/history.h"
#include "tandem/input_ring.h"

namespace outrider::tandem {

// Where a driver's reports go, and what it waits with. All calls come from inside work().
class LeadReports {
 public:
  virtual ~LeadReports() = default;
  // Room for the next answer; nullptr: it is over. Not taken before it is reported.
  virtual Answer* free_answer() = 0;
  // `answer` is what free_answer gave, or nullptr.
  virtual void report(const Event& event, const Answer* answer) = 0;
  virtual void pause() = 0;  // a moment, while something else has to come first
  virtual bool stopped() const = 0;
};

// What leads, for those who are told: the digest and size of its model file, as far as its identity
// and manifest say.
struct LeadName {
  std::string sha256;  // 64 hexadecimal digits, or ""
  int64_t bytes = 0;
};
LeadName lead_name_of(const frt_runtime_export_v1& exp);

class LeadDriver {
 public:
  using OpenLead = std::function<Result<std::unique_ptr<host::SessionCore>>()>;
  struct Parts {
    OpenLead open;
    const frt_model_runtime_v1* standby = nullptr;  // whose ports the lead must have
    const Ports* ports = nullptr;
    InputRing* ring = nullptr;
    const Clock* clock = nullptr;
    double agree_distance = 0;
    int64_t agree_wait_ns = 0;           // 0: nothing is compared
    std::function<void()> between = {};  // cold work of the control thread between two jobs
  };

  // [setup] `arena` gives room for one answer.
  static uint64_t room_bytes(const Ports& ports) { return answer_bytes(ports); }
  LeadDriver(Parts parts, LeadReports& reports, Arena& arena);

  void work(const Job& job);
  void close();  // releases the lead
  const Ports* ports() const { return parts_.ports; }

  // [any cold thread] The line of the last failure, and the name of the lead opened last.
  Error last_failure() const;
  LeadName lead_name() const;

 private:
  void connect(const Job& job);
  void ask(const Job& job);
  bool is_another();
  bool begin_following(const Job& job, int64_t& from);
  void follow(const Job& job);
  void ping(const Job& job);
  enum class Ran : uint8_t { kSound, kUnsound, kNoAnswer, kFailed, kGone };
  Ran feed(int64_t tick, Answer& out, bool compares);  // one tick of the lead
  Agreement compare(InputRing::Slot& slot, const Answer& answer);
  void note_failure(const Error& error);
  Event event_of(const Job& job, EventKind kind) const;

  Parts parts_;
  LeadReports& reports_;
  Answer scratch_;
  std::unique_ptr<host::SessionCore> lead_;
  History history_;
  const outrider_liveness_v1* liveness_ = nullptr;
  std::vector<uint32_t> in_, out_;
  uint64_t generation_ = 0;  // of the far end that has seen fed_tick_
  int64_t fed_tick_ = -1;    // the last one that the lead has seen with no gap before it
  int64_t fed_ns_ = 0;       // what that took, comparison aside
  Agreement agreement_ = Agreement::kNotCompared;

  mutable std::mutex words_mutex_;  // cold threads only
  Error failure_;
  LeadName name_;
};

}  // namespace outrider::tandem
