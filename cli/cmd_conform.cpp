// outrider conform: the ABI contract suite against any provider.
//
// The suite runs in a process of its own: a provider that crashes or never returns costs one line
// of the report, and standard output still carries one document. With --adapter it is the adapter
// of a driving stack that is checked (include/outrider/adapter.h); that one is loaded here.
#include <dlfcn.h>

#include "adapter/conform.h"
#include "cli/commands.h"
#include "cli/config.h"
#include "cli/flags.h"
#include "cli/idle.h"
#include "host/conform_child.h"
#include "host/loader.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    {"--strict", nullptr, nullptr, "Count advice as failure.", nullptr},
    {"--call-timeout", "SECONDS", "50",
     "Longest that one call into the provider may take; it is killed then and the check fails.",
     parse_duration},
    {"--served", "CONFIG", nullptr,
     "For a remote CONFIG: what the host serves (open configuration or model file). The checks of "
     "that family are made over the link too.",
     parse_text},
    {"--adapter", "FILE.so", nullptr,
     "Check the adapter that this shared object exports (outrider_adapter) instead of a provider.",
     parse_text},
    kJsonFlag,
};
constexpr Positional kPositionals[] = {
    {"[PROVIDER.so]", "Shared object with the open symbol of the model-runtime ABI."},
    {"[CONFIG]", "Open configuration it accepts."}};

// Name, outcome and reason of each check, the last line, the document: as a provider's report.
int run_adapter(Context& context, const std::string& path) {
  std::string why;
  void* library = host::load_library(path.c_str(), why);
  if (library == nullptr)
    return context.fail(make_error(Code::kNotFound, "--adapter %s: %s", shown(path, 200).c_str(),
                                   shown(why).c_str()),
                        kUsage);
  using Get = const outrider_adapter_v1* (*)();
  const auto get = reinterpret_cast<Get>(::dlsym(library, OUTRIDER_ADAPTER_SYMBOL));
  if (get == nullptr)
    return context.fail(make_error(Code::kNotFound, "--adapter: %s exports no \"%s\"",
                                   shown(path, 300).c_str(), OUTRIDER_ADAPTER_SYMBOL));
  const outrider_adapter_v1* found = get();
  const auto checks = adapter::conform(found);
  int n_failed = 0;
  Report rows = Report::array(), overridden = Report::array();
  for (const adapter::Check& check : checks) {
    n_failed += check.passed ? 0 : 1;
    const char* outcome = check.passed ? "passed" : "failed";
    const std::string detail = check.passed ? std::string() : check.detail;
    context.out.text("{:<8}{}{}{}\n", outcome, check.name, detail.empty() ? "" : ": ", detail);
    rows.push_back({{"name", check.name}, {"outcome", outcome}, {"detail", detail}});
  }
  const int n_passed = static_cast<int>(checks.size()) - n_failed;
  if (n_failed == 0)
    for (const std::string& name : adapter::overridden(*found)) overridden.push_back(name);
  context.out.text("{} passed, {} failed\n", n_passed, n_failed);
  context.out.document({{"adapter", path},
                        {"passed", n_passed},
                        {"failed", n_failed},
                        {"overridden", std::move(overridden)},
                        {"checks", std::move(rows)}});
  return n_failed > 0 ? kBad : kGood;  // the library stays: its hooks may have made threads
}

void tell_progress(Output& out, const host::ConformProgress& now) {
  out.progress(fmt::format("conform: \"{}\" for {:.0f} s, {} for {:.0f} s", now.check, now.check_s,
                           host::call_name(now.call), now.call_s));
}

int run(Context& context) {
  const std::string &provider = context.args.positional(0), &path = context.args.positional(1);
  if (context.args.given("--adapter")) {
    if (!provider.empty())
      return context.fail(make_error(Code::kInvalid, "conform: --adapter beside %s: one at a time",
                                     shown(provider, 200).c_str()));
    if (auto good = refuse_idle(context.args, {"--strict", "--served", "--call-timeout"},
                                "it is for providers, and --adapter checks an adapter");
        !good)
      return context.fail(good.error());
    return run_adapter(context, context.args.text("--adapter"));
  }
  if (provider.empty() || path.empty())
    return context.fail(make_error(Code::kInvalid,
                                   "conform: %s is missing (outrider conform "
                                   "--help)",
                                   provider.empty() ? "PROVIDER.so" : "CONFIG"));
  Wish wish;
  wish.provider = provider;
  auto resolved = resolve(path, wish);
  if (!resolved) return context.fail(resolved.error());
  host::ConformOptions options;
  options.strict = context.args.given("--strict");
  if (context.args.given("--served")) {
    if (resolved.value().family != "remote")
      return context.fail(make_error(
          Code::kInvalid,
          "--served: %s is of family \"%.40s\"; it goes with a configuration of family \"remote\"",
          shown(path, 200).c_str(), resolved.value().family.c_str()));
    auto served = resolve(context.args.text("--served"), wish);  // any provider: it is not opened
    if (!served) return context.fail(served.error());
    options.served = served.value().json;
  }
  host::ConformChildOptions child;
  child.call_timeout_s = context.args.real("--call-timeout");
  child.on_wait = [&](const host::ConformProgress& now) { tell_progress(context.out, now); };
  const host::ConformReport report =
      host::conform_in_child(provider, resolved.value().json, options, child);
  for (const auto& check : report.checks)
    context.out.text("{:<8}{}{}{}\n", host::outcome_name(check.outcome), check.name,
                     check.detail.empty() ? "" : ": ", check.detail);
  context.out.text("{} passed, {} failed\n", report.passed, report.failed);
  auto json = Json::parse(host::to_json(report));
  if (!json) return context.fail(json.error());
  context.out.document(report_of(json.value()));
  return report.failed > 0 || report.passed == 0 ? kBad : kGood;
}

}  // namespace

const Command kConform = {
    "conform",
    "Run the ABI contract suite against a provider.",
    "The last line is \"N passed, N failed\"; exit status 1 when one failed, "
    "when none passed. A provider that crashes or never returns fails the check "
    "it was in; the rest is skipped.",
    "outrider conform ./provider_gguf.so pi05.json",
    kPositionals,
    kFlags,
    run};

}  // namespace outrider::cli
