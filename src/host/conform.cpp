#include "host/conform.h"

#include <exception>
#include <utility>

#include "base/json_text.h"
#include "host/conform_bench.h"

namespace outrider::host {
namespace {

using namespace conformance;

const char* unmet(const Bench& b, Check::Needs needs) {
  if (needs >= Check::kLibrary && b.open_fn() == nullptr) return "the library was not loaded";
  if (needs >= Check::kOpen && !b.main) return "open failed";
  if (needs >= Check::kSound && !b.sound) return "the published record is broken";
  return nullptr;
}

ConformCheck run_check(Bench& b, const Check& check, bool strict) {
  Verdict v;
  if (const char* why = unmet(b, check.needs)) {
    v.skip("%s", why);
    return v.check(check.name, strict);
  }
  try {
    check.run(b, v);
  } catch (const std::exception& e) {
    v.skip("this suite could not run the check: %.200s", e.what());
  }
  if (b.take_threw()) v.fail("an exception crossed the C border");
  if (const std::string what = b.take_nonfinite(); !what.empty()) v.fail("%s", what.c_str());
  return v.check(check.name, strict);
}

// What a process keeps is asked last: its checks let go of the instance and the library.
std::vector<Check> all_checks() {
  std::vector<Check> all;
  for (const auto checks :
       {library_checks(), record_checks(), verb_checks(), run_checks(), image_checks(),
        policy_checks(), text_checks(), config_checks(), lifetime_checks(), process_checks()})
    all.insert(all.end(), checks.begin(), checks.end());
  return all;
}

}  // namespace

const char* outcome_name(ConformOutcome outcome) {
  switch (outcome) {
    case ConformOutcome::kPassed:
      return "passed";
    case ConformOutcome::kFailed:
      return "failed";
    case ConformOutcome::kSkipped:
      return "skipped";
  }
  return "unknown";
}

void ConformReport::add(ConformCheck check) {
  switch (check.outcome) {
    case ConformOutcome::kPassed:
      ++passed;
      break;
    case ConformOutcome::kFailed:
      ++failed;
      break;
    case ConformOutcome::kSkipped:
      ++skipped;
      break;
  }
  checks.push_back(std::move(check));
}

std::vector<const char*> conform_check_names() {
  std::vector<const char*> names;
  for (const Check& check : all_checks()) names.push_back(check.name);
  return names;
}

const char* call_name(ProviderCall call) {
  constexpr const char* kNames[] = {
      "the suite", "loading", "open",       "set_input",       "get_output",       "run_stage",
      "step",      "prepare", "last_error", "query_extension", "retain or release"};
  static_assert(std::size(kNames) == static_cast<size_t>(ProviderCall::kRetainRelease) + 1);
  const auto index = static_cast<size_t>(call);
  return index < std::size(kNames) ? kNames[index] : kNames[0];
}

ConformReport conform(const std::string& provider_path, const std::string& config_json,
                      const ConformOptions& options) {
  ConformReport report;
  Bench bench(provider_path, config_json, options);
  for (const Check& check : all_checks()) {
    if (options.on_start) options.on_start(check.name);
    ConformCheck done = run_check(bench, check, options.strict);
    bench.look_at_stdout(check.name);
    if (options.on_check) options.on_check(done);
    report.add(std::move(done));
  }
  return report;
}

std::string to_text(const ConformReport& report) {
  std::string out;
  for (const auto& check : report.checks) {
    out += std::string(outcome_name(check.outcome)) + "  " + check.name;
    if (!check.detail.empty()) out += "\n        " + check.detail;
    out += "\n";
  }
  out += std::to_string(report.skipped) + " skipped\n";
  return out + std::to_string(report.passed) + " passed, " + std::to_string(report.failed) +
         " failed\n";
}

std::string to_json(const ConformReport& report) {
  std::string out = "{\"passed\":" + std::to_string(report.passed) +
                    ",\"failed\":" + std::to_string(report.failed) +
                    ",\"skipped\":" + std::to_string(report.skipped) + ",\"checks\":[";
  for (size_t i = 0; i < report.checks.size(); ++i) {
    const auto& check = report.checks[i];
    out += (i ? ",{\"name\":" : "{\"name\":") + json_quoted(check.name) + ",\"outcome\":\"" +
           outcome_name(check.outcome) + "\",\"detail\":" + json_quoted(check.detail) + "}";
  }
  return out + "]}";
}

}  // namespace outrider::host
