// The owner daemon without its process: everything it does in half a second. One thread; every
// system call that changes something goes through System, the holder and the lender.
//
// Order of a step: power-off requests before all else, then parameters, the holder, settings, the
// provisioning run, and last the status record.
#pragma once
#include <memory>
#include <optional>

#include "owner/config.h"
#include "owner/crash_guard.h"
#include "owner/holder.h"
#include "owner/lender.h"
#include "owner/power_off.h"
#include "owner/provision.h"
#include "owner/settings.h"
#include "owner/status.h"
#include "owner/system.h"

namespace outrider::owner {

inline constexpr int64_t kStepNs = 500'000'000;
inline constexpr int64_t kPresenceNs = 5'000'000'000;  // held over a recovery of the link
inline constexpr int64_t kHolderRetryNs = 60'000'000'000, kHolderBusyNs = 2'000'000'000;

enum class Mode : uint8_t { kOff, kUsb, kTcp };
const char* mode_name(Mode mode);
// "0", "1", "2" of the parameter; everything else, and unset, is off.
Mode mode_of(std::string_view text);

class Owner {
 public:
  using MakeHolder = std::function<std::unique_ptr<Holder>(Mode)>;
  Owner(System& system, const Config& config, MakeHolder make_holder);
  ~Owner();  // stop()

  // [setup] Settings of a killed owner are put back; the socket is opened. Errors: kDevice (the
  // socket); a record of settings that is damaged is told and dropped.
  Result<void> start();
  void step();
  void poll_list(std::vector<pollfd>& list) const;
  // Answers borrowers between two steps.
  void serve();
  // Children end, settings are put back, the gadget leaves the bus, a last record says stopping.
  // Waits at most kTermNs and a second for the children.
  void stop();

  const Status& status() const { return status_; }
  const std::optional<Borrower>& borrower() const { return lender_->borrower(); }

 private:
  std::string param(const std::string& key);
  bool param_set(const std::string& key) { return param(key) == "1"; }
  Reply may_borrow(const Borrower& asker) const;
  void follow_mode();
  void follow_presence();
  void follow_power_off();
  void follow_settings();
  void follow_provision();
  void tell_status();
  void start_child(int64_t& child, const std::vector<std::string>& argv, const char* name);
  int end_child(int64_t& child);
  void kill_child(int64_t& child);

  System& system_;
  const Config config_;
  const MakeHolder make_holder_;
  Settings settings_;
  CrashGuard crashes_;
  std::unique_ptr<Holder> holder_;
  std::unique_ptr<Lender> lender_;
  PowerOff power_off_;
  Provision provision_;
  Status status_;
  std::string params_dir_;
  Mode mode_ = Mode::kOff, held_ = Mode::kOff;
  bool parked_ = false, here_ = false, here_now_ = false, stopped_ = false;
  int64_t here_ns_ = INT64_MIN, holder_ns_ = 0, now_ns_ = 0, calm_ns_ = 0, opened_ns_ = 0;
  int64_t run_pid_ = 0, ask_pid_ = 0;
  int run_status_ = -1, ask_status_ = -1;
  std::string holder_error_, told_, warned_setting_, record_error_;
};

}  // namespace outrider::owner
