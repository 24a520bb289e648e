// An opened tandem: standby, control thread, runner, and what the ABI object refers to.
#pragma once
#include <memory>
#include <string>

#include "outrider/ext/status.h"
#include "outrider/ext/tandem.h"
#include "providers/tandem/config.h"
#include "tandem/record.h"
#include "tandem/runner.h"
#include "tandem/worker.h"

namespace outrider::tandem {

class TandemRuntime {
 public:
  // [setup] Opens the standby; the control thread opens the lead. Errors: of either side, with its
  // role in front (a lead of family "remote" that cannot be reached is none: it is tried again
  // and again); kShape: the ports differ.
  static Result<std::unique_ptr<TandemRuntime>> open(const TandemConfig& config);
  ~TandemRuntime();

  // Port numbers: those of the standby, then engaged, origin, counters.
  uint32_t n_ports() const { return first_own_ + 3; }
  uint32_t engaged_port() const { return first_own_; }
  uint32_t origin_port() const { return first_own_ + 1; }
  uint32_t counters_port() const { return first_own_ + 2; }
  const frt_model_runtime_v1& standby() const { return standby_->runtime(); }
  const Side& side(bool lead) const { return lead ? lead_side_ : standby_side_; }
  const TandemConfig& config() const { return config_; }

  // ---- verbs, [hot] ---------------------------------------------------------------------------
  int set_input(uint32_t port, const void* data, uint64_t bytes) noexcept;
  int get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept;
  int tick() noexcept;
  const char* last_error() noexcept;  // formats: not part of a tick
  int unknown_executor(uint32_t ref) noexcept;

  Runner& runner() { return *runner_; }
  const char* lead_error() noexcept;
  int note_warp(const char* route, const char* reason) noexcept;
  std::string description() const;

 private:
  TandemRuntime() = default;
  Result<void> prepare();
  Result<void> await_lead();
  void tell_slow() noexcept;
  int refuse(int code, const char* text, uint64_t number = 0) noexcept;
  template <size_t n>
  int copy_numbers(const int64_t (&numbers)[n], void* out, uint64_t capacity,
                   uint64_t* written) noexcept;

  TandemConfig config_;
  Side standby_side_, lead_side_;
  uint32_t first_own_ = 0;
  std::vector<int32_t> slot_of_port_;  // index into Ports::in or Ports::out

  // Order matters: users before what they use.
  MonotonicClock clock_;
  host::Library lead_library_;  // keeps the code between two opens of the lead
  std::unique_ptr<host::SessionCore> standby_;
  Ports ports_;
  Arena arena_;
  std::unique_ptr<InputRing> ring_;
  std::unique_ptr<Worker> worker_;
  Signal changed_;
  std::unique_ptr<Runner> runner_;
  std::atomic<Runner*> shown_runner_{nullptr};  // to the control thread, which is there earlier
  std::unique_ptr<Record> record_;

  struct {
    int code = 0;
    const char* text = nullptr;  // a literal; nullptr: the runner's failure
    uint64_t number = 0;
  } refusal_;
  int64_t slow_told_ns_ = INT64_MIN, slow_untold_ = 0;  // control thread
  char error_[Error::kTextBytes] = {};
  char lead_error_[Error::kTextBytes] = {};
};

}  // namespace outrider::tandem
