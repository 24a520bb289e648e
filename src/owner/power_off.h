// Asking the far end to power off: on a real shutdown only, for at most kPowerOffNs, withdrawn
// then.
//
// A request is a file. Whoever shuts the device down makes it and waits while it is there; the
// owner has the far end asked and removes it. Both sides know its deadline and both withdraw it
// then: with a dead owner nobody waits longer, with a dead asker nobody powers the far end off
// later.
#pragma once
#include <string>

#include "base/result.h"
#include "owner/system.h"

namespace outrider::owner {

inline constexpr int64_t kPowerOffNs = 30'000'000'000;
inline constexpr int64_t kPowerOffRetryNs = 1'000'000'000;

struct ShutdownFlags {
  bool shutdown = false, reboot = false, uninstall = false;
};
struct PowerOffView {
  bool link_on = false;
  bool accelerator = false;   // a native one is fitted
  bool far_end_here = false;  // looked up now, not remembered
};

// [any] Pure: is there anything to ask? Shutdown alone; a reboot or an uninstall beside it is none.
bool wants_power_off(const ShutdownFlags& flags, const PowerOffView& view) noexcept;

// [any] Makes the request unless one is there. True: pending. Never throws; what fails is told and
// counts as nothing to ask.
bool request_power_off(System& system, const std::string& path, const ShutdownFlags& flags,
                       const PowerOffView& view, const std::string& reason) noexcept;
// [any] True while the request waits. Withdraws it past its deadline, and when it is none of this
// boot or says nothing sensible.
bool power_off_pending(System& system, const std::string& path) noexcept;
void withdraw_power_off(System& system, const std::string& path) noexcept;

struct PowerOffRequest {
  int64_t asked_ns = 0, deadline_ns = 0;
  std::string reason;
};
// Errors: kNotFound (none), kInvalid (damaged, of another boot, in the future, or with a deadline
// beyond kPowerOffNs).
Result<PowerOffRequest> read_power_off(std::string_view text, const std::string& boot_id,
                                       int64_t now_ns);

// The owner's side. Pure: what to do with the child that asks the far end.
class PowerOff {
 public:
  struct Input {
    int64_t now_ns = 0;
    bool asked = false;       // a good request is there
    int64_t deadline_ns = 0;  // of it
    bool far_end_here = false;
    bool running = false;  // the child
    int exit_status = -1;  // of a child that ended since the last step; -1: none did
  };
  enum class Do : uint8_t {
    kNothing,
    kStart,     // a child that asks
    kFinish,    // remove the request: the far end was asked, or there is nobody
    kWithdraw,  // kill the child, remove the request
  };
  Do step(const Input& in) noexcept;
  bool busy() const noexcept { return busy_; }

 private:
  bool busy_ = false;
  int64_t next_ns_ = INT64_MIN;
};

}  // namespace outrider::owner
