// The control thread: opens the lead, asks it, lets it follow, closes it. Everything that can block
// on the lead blocks here and nowhere else.
//
// One job at a time. A lead that never returns keeps this thread, not the caller's: the machine
// hands back and goes on.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "outrider/ext/liveness.h"
#include "tandem/channel.h"
#include "tandem/handover.h"
#include "tandem/history.h"
#include "tandem/input_ring.h"

namespace outrider::tandem {

class Worker final : public LeadChannel {
 public:
  using OpenLead = std::function<Result<std::unique_ptr<host::SessionCore>>()>;
  struct Parts {
    OpenLead open;
    const frt_model_runtime_v1* standby = nullptr;  // whose ports the lead must have
    const Ports* ports = nullptr;
    InputRing* ring = nullptr;
    const Clock* clock = nullptr;
    double agree_distance = 0;
    int64_t agree_wait_ns = 0;  // 0: nothing is compared
  };
  static constexpr uint32_t kReports = 64, kAnswers = 8;

  // [setup] Starts the thread. `arena` gives room for kAnswers answers.
  static uint64_t room_bytes(const Ports& ports) { return kAnswers * answer_bytes(ports); }
  Worker(Parts parts, Arena& arena);
  ~Worker() override;  // waits for the call in progress, releases the lead

  void post(const Job& job) noexcept override;
  const Report* peek() noexcept override { return reports_.front(); }
  void pop() noexcept override;
  void wait_until(int64_t at_ns) noexcept override;

  // [any cold thread] The line of the last failure, and the identity of the lead ("" before).
  Error last_failure() const;
  std::string lead_identity() const;

 private:
  void run();
  void work(const Job& job);
  void connect(const Job& job);
  void close_lead();
  void ask(const Job& job);
  void follow(const Job& job);
  void ping(const Job& job);
  enum class Ran : uint8_t { kSound, kUnsound, kFailed, kGone };
  Ran feed(int64_t tick, Answer& out);  // one tick of the lead
  Agreement compare(InputRing::Slot& slot, const Answer& answer);
  void note_failure(const Error& error);
  void report(const Event& event, const Answer* answer);
  Answer* free_answer();
  Event event_of(const Job& job, EventKind kind) const;

  Parts parts_;
  std::vector<Answer> answers_;
  Answer scratch_;
  Newest<Job> jobs_;
  Signal job_signal_, report_signal_;
  ShortQueue<Report, kReports> reports_;
  uint32_t n_answers_ = 0;
  std::atomic<uint32_t> answers_free_{kAnswers};
  std::atomic<bool> stop_{false};

  std::unique_ptr<host::SessionCore> lead_;
  History history_;
  const outrider_liveness_v1* liveness_ = nullptr;
  std::vector<uint32_t> in_, out_;
  int64_t fed_tick_ = -1;  // the last one that the lead has seen with no gap before it
  int64_t fed_ns_ = 0;     // what that took, comparison aside
  Agreement agreement_ = Agreement::kNotCompared;

  mutable std::mutex words_mutex_;  // cold threads only
  Error failure_;
  std::string identity_;
  std::thread thread_;
};

}  // namespace outrider::tandem
