// outrider inspect: what a model file is, and whether this build runs it.
#include "cli/commands.h"
#include "cli/config.h"
#include "cli/flags.h"
#include "cli/idle.h"
#include "cli/inspect.h"
#include "cli/inspect_policy.h"
#include "cli/request.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    kJsonFlag,
    {"--markdown", nullptr, nullptr, "Print a Markdown table.", nullptr},
    kPrintConfigFlag,
    {"--tokens", "TEXT", nullptr,
     "Print the token ids the model would be given for this instruction.", parse_any_text},
    {"--state", "CSV", "0,0,0,0,0,0,0,0", "State for --tokens; PI0.5 writes it into the text.",
     parse_text},
    kViewsFlag,
    kSetFlag,
};
constexpr Positional kPositionals[] = {
    {"FILE",
     "Model file (.gguf, .safetensors), checkpoint folder, policy.json or open "
     "configuration (.json)."}};

int print_tokens(Context& context, std::string path) {
  const std::string& text = context.args.text("--tokens");
  auto state = parse_csv(context.args.text("--state"));
  if (!state) return context.fail(state.error());
  if (!context.args.given("--state")) state.value().clear();
  if (path.ends_with(".json") && !holds_policy(path)) {  // the tokenizer is in the model file
    auto resolved = resolve(path, wish_of(context.args, kInspect));
    if (!resolved) return context.fail(resolved.error());
    path = resolved.value().policy_dir.empty() ? resolved.value().model_path
                                               : resolved.value().policy_dir;
  }
  if (auto there = holds_policy(path) ? Result<void>() : check_there(path); !there)
    return context.fail(there.error());
  auto tokens = inspect_tokens(path, text, state.value());
  if (!tokens) return context.fail(tokens.error(), kBad);
  Report report = std::move(tokens.value());
  const std::string oddity = prompt_oddity(text);
  report["warnings"] = Report::array();
  if (!oddity.empty()) {
    report["warnings"].push_back(oddity);
    context.out.say(Level::kWarn, "--tokens: {}", oddity);
  }
  context.out.text("{} ids, {} face, text {}\n", report["n"].get<size_t>(),
                   report["face"].get<std::string>(), to_json_text(report["text"], -1));
  for (size_t i = 0; i < report["ids"].size(); ++i)
    context.out.text("{:>7}  {}\n", report["ids"][i].get<int64_t>(),
                     to_json_text(report["pieces"][i], -1));
  context.out.document(std::move(report));
  return kGood;
}

// What each way of asking has no use for.
Result<void> check_use(const Args& args) {
  if (!args.given("--tokens"))
    OUTRIDER_TRY(refuse_idle(args, {"--state"}, "it goes with --tokens"));
  if (args.given("--json"))
    OUTRIDER_TRY(refuse_idle(args, {"--markdown"}, "--json prints one document"));
  if (args.given("--print-config"))
    return refuse_idle(args, {"--tokens", "--markdown"}, "--print-config prints keys alone");
  if (args.given("--tokens")) return refuse_idle(args, {"--markdown"}, "--tokens prints ids alone");
  return {};
}

int run(Context& context) {
  if (auto good = check_use(context.args); !good) return context.fail(good.error());
  const std::string& path = context.args.positional(0);
  if (context.args.given("--print-config")) {
    auto resolved = resolve(path, wish_of(context.args, kInspect));
    if (!resolved) return context.fail(resolved.error());
    print_settings(resolved.value(), context.out);
    context.out.document(settings_report(resolved.value()));
    return kGood;
  }
  if (context.args.given("--tokens")) return print_tokens(context, path);
  auto inspection = inspect_file(path, wish_of(context.args, kInspect));
  if (!inspection) return context.fail(inspection.error());
  const Report& report = inspection.value().report;
  if (context.args.given("--markdown"))
    context.out.lines(inspection_markdown(report));
  else
    context.out.lines(inspection_text(report));
  if (!inspection.value().runs) {
    // Many reasons begin with the file's name already.
    const std::string why = report.value("why_not", "not run by this build");
    context.out.say(Level::kError, "{}",
                    why.find(shown(path)) != std::string::npos ? why : shown(path) + ": " + why);
  }
  context.out.document(report);
  return inspection.value().runs ? kGood : kBad;
}

}  // namespace

const Command kInspect = {
    "inspect",
    "Show what a model file is, what it needs and whether this build runs it.",
    "Exit status 1: the file is damaged, or this build does not run it.",
    "outrider inspect pi05.gguf --tokens \"pick up the cup\"",
    kPositionals,
    kFlags,
    run};

}  // namespace outrider::cli
