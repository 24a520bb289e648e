// The contract suite in a process of its own: a provider that crashes, exits or never returns costs
// one failed check, and what it writes to standard output meets nobody's document.
#pragma once
#include <functional>
#include <string>

#include "host/conform.h"

namespace outrider::host {

// Three times what the slowest call measured takes: a tick or an open of a full-size model, 15 s on
// two cores.
inline constexpr double kDefaultCallTimeoutS = 50;

struct ConformProgress {
  const char* check = "";
  double check_s = 0;  // since the check began
  ProviderCall call = ProviderCall::kNone;
  double call_s = 0;  // since the call began
};

struct ConformChildOptions {
  // The longest that one call into the provider may take; its process is killed then.
  double call_timeout_s = kDefaultCallTimeoutS;
  // Called about once a second while a check has been running for longer than `quiet_s`.
  std::function<void(const ConformProgress&)> on_wait;
  double quiet_s = 4;
};

// [setup] As `conform`. Every check is in the report: the one in which the provider died or hung is
// a failure, those that could not be asked any more are skipped. `on_start` and `on_check` of
// `options` are called in this process, `stdout_fd` and `on_call` are not used.
ConformReport conform_in_child(const std::string& provider_path, const std::string& config_json,
                               const ConformOptions& options, const ConformChildOptions& child);

}  // namespace outrider::host
