// The contract suite: what the model-runtime ABI asks of any provider, asked through dlopen and the
// ABI alone. `outrider conform PROVIDER.so CONFIG` prints what this returns.
//
// The checks run in this process, one after the other; a provider that crashes ends it (on_start
// tells which check was running). Cost: about 40 opens that are refused, 6 that succeed, 60 ticks.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace outrider::host {

enum class ConformOutcome : uint8_t {
  kPassed,
  kFailed,
  kSkipped,  // does not apply to this provider or this configuration; detail says why
};

struct ConformCheck {
  std::string name;  // "area: rule", stable
  ConformOutcome outcome = ConformOutcome::kPassed;
  // The failure, the reason of the skip, or for a passed check an advice: "advice: ...". An advice
  // is a rule of ours that is stricter than the ABI; it fails nobody unless `strict` is set.
  std::string detail;
};

struct ConformReport {
  int passed = 0, failed = 0, skipped = 0;
  std::vector<ConformCheck> checks;
};

struct ConformOptions {
  bool strict = false;  // advice counts as failure: for our own providers
  // Payloads by port name, for inputs that the generated ones do not suit.
  std::map<std::string, std::string> inputs;
  // Outputs that tell about the runtime itself (logs, counters): not compared, readable at any
  // time.
  std::set<std::string> ignored_outputs;
  std::function<void(const char* name)> on_start;
  std::function<void(const ConformCheck&)> on_check;
};

// [setup] Never throws; a provider that cannot be loaded or opened is a report with failures.
ConformReport conform(const std::string& provider_path, const std::string& config_json,
                      const ConformOptions& options = {});

// One line per check, then "N passed, N failed" (skipped ones are lines, and counted in between).
std::string to_text(const ConformReport& report);
// {"passed":N,"failed":N,"skipped":N,"checks":[{"name","outcome","detail"}]}
std::string to_json(const ConformReport& report);

}  // namespace outrider::host
