// outrider conform: the ABI contract suite against any provider.
//
// The suite runs in a process of its own: a provider that crashes or never returns costs one line
// of the report, and standard output still carries one document.
#include "cli/commands.h"
#include "cli/config.h"
#include "cli/flags.h"
#include "host/conform_child.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    {"--strict", nullptr, nullptr, "Count advice as failure.", nullptr},
    {"--call-timeout", "SECONDS", "50",
     "Longest that one call into the provider may take; it is killed then and the check fails.",
     parse_duration},
    kJsonFlag,
};
constexpr Positional kPositionals[] = {
    {"PROVIDER.so", "Shared object with the open symbol of the model-runtime ABI."},
    {"CONFIG", "Open configuration it accepts."}};

void tell_progress(Output& out, const host::ConformProgress& now) {
  out.progress(fmt::format("conform: \"{}\" for {:.0f} s, {} for {:.0f} s", now.check, now.check_s,
                           host::call_name(now.call), now.call_s));
}

int run(Context& context) {
  const std::string &provider = context.args.positional(0), &path = context.args.positional(1);
  Wish wish;
  wish.provider = provider;
  auto resolved = resolve(path, wish);
  if (!resolved) return context.fail(resolved.error());
  host::ConformOptions options;
  options.strict = context.args.given("--strict");
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
