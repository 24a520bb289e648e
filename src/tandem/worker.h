// The control thread: opens the lead, asks it, lets it follow, closes it. Everything that can block
// on the lead blocks here and nowhere else.
//
// One job at a time (lead_driver.h does them). A lead that never returns keeps this thread, not the
// caller's: the machine hands back and goes on.
#pragma once
#include <atomic>
#include <thread>

#include "tandem/handover.h"
#include "tandem/lead_driver.h"

namespace outrider::tandem {

class Worker final : public LeadChannel, private LeadReports {
 public:
  using OpenLead = LeadDriver::OpenLead;
  using Parts = LeadDriver::Parts;
  static constexpr uint32_t kReports = 64, kAnswers = 7;

  // [setup] Starts the thread. `arena` gives room for kAnswers answers and the driver's.
  static uint64_t room_bytes(const Ports& ports) {
    return kAnswers * answer_bytes(ports) + LeadDriver::room_bytes(ports);
  }
  Worker(Parts parts, Arena& arena);
  ~Worker() override;  // waits for the call in progress, releases the lead

  void post(const Job& job) noexcept override;
  const Report* peek() noexcept override { return reports_.front(); }
  void pop() noexcept override;
  void wait_until(int64_t at_ns) noexcept override;

  // [any cold thread] As LeadDriver's.
  Error last_failure() const { return driver_.last_failure(); }
  LeadName lead_name() const { return driver_.lead_name(); }

 private:
  void run();
  Answer* free_answer() override;
  void report(const Event& event, const Answer* answer) override;
  void pause() override;
  bool stopped() const override { return stop_; }

  const Clock* clock_;
  std::function<void()> between_;
  LeadDriver driver_;
  std::vector<Answer> answers_;
  Newest<Job> jobs_;
  Signal job_signal_, report_signal_;
  ShortQueue<Report, kReports> reports_;
  uint32_t n_answers_ = 0;
  std::atomic<uint32_t> answers_free_{kAnswers};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace outrider::tandem
