// The contract suite: what the model-runtime ABI asks of any provider, asked through dlopen and the
// ABI alone. `outrider conform PROVIDER.so CONFIG` prints what this returns.
//
// The checks of `conform` run in this process, one after the other; a provider that crashes ends it
// (on_start tells which check was running) and one that hangs keeps it: conform_child.h runs them
// apart. Cost: about 40 opens that are refused, 6 that succeed, 60 ticks, and for a provider whose
// ticks are quick 3 s more of them.
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

const char* outcome_name(ConformOutcome outcome);  // "passed", "failed", "skipped"

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

  void add(ConformCheck check);  // and counts it
};

// Where the suite is inside the provider. kNone: in the suite's own code.
enum class ProviderCall : uint8_t {
  kNone,
  kLoad,  // dlopen or dlclose
  kOpen,
  kSetInput,
  kGetOutput,
  kRunStage,
  kStep,
  kPrepare,
  kLastError,
  kQueryExtension,
  kRetainRelease,
};
// "set_input"; "the suite" for kNone and values that are none.
const char* call_name(ProviderCall call);

struct ConformOptions {
  bool strict = false;  // advice counts as failure: for our own providers
  // Payloads by port name, for inputs that the generated ones do not suit.
  std::map<std::string, std::string> inputs;
  // Outputs that tell about the runtime itself (logs, counters): not compared, readable at any
  // time.
  std::set<std::string> ignored_outputs;
  // For a configuration of family "remote": the open configuration of what the host serves. What is
  // asked of its ports, stages and outputs is then what is asked of that provider. Empty: nothing
  // is known of it, and checks of a family are skipped.
  std::string served;
  // A file to which standard output of this process goes, for the check that nothing is written
  // there; its offset tells. -1: not known, the check is skipped.
  int stdout_fd = -1;
  std::function<void(ProviderCall)> on_call;  // before a call, and with kNone after it; no throw
  std::function<void(const char* name)> on_start;
  std::function<void(const ConformCheck&)> on_check;
};

// [setup] Never throws; a provider that cannot be loaded or opened is a report with failures.
ConformReport conform(const std::string& provider_path, const std::string& config_json,
                      const ConformOptions& options = {});

// The names of the checks, in the order of every report.
std::vector<const char*> conform_check_names();

// One line per check, then "N passed, N failed" (skipped ones are lines, and counted in between).
std::string to_text(const ConformReport& report);
// {"passed":N,"failed":N,"skipped":N,"checks":[{"name","outcome","detail"}]}
std::string to_json(const ConformReport& report);

}  // namespace outrider::host
