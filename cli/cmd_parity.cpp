// outrider parity: does this runtime compute what was recorded?
#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include "base/output_file.h"
#include "cli/commands.h"
#include "cli/config.h"
#include "cli/flags.h"
#include "cli/idle.h"
#include "cli/onnx_model.h"
#include "cli/outputs.h"
#include "cli/parity.h"
#include "cli/report/html.h"
#include "cli/report/svg.h"
#include "kernels/cpu_ops.h"
#include "models/pi_case.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    {"--stage", "NAME", nullptr, "Compare this stage alone.", parse_text},
    {"--tolerance", "X", nullptr, "Largest absolute difference allowed, instead of the case's own.",
     parse_tolerance},
    kSetFlag,
    kThreadsFlag,
    kProviderFlag,
    kJsonFlag,
    kHtmlFlag,
};
constexpr Positional kPositionals[] = {
    {"CONFIG|FILE",
     "Open configuration or model file. For a case that brings its own weights (kind pi-policy) "
     "only "
     "precision and n_threads are read from it, and - means their defaults."},
    {"CASEDIR",
     "Folder with meta.json, the inputs and the recorded arrays (.npy or raw .bin); for ONNX also "
     "one "
     ".ref.json file."},
};

// The worst stages at a glance: how much of its tolerance each used.
std::string parity_page(const Report& report) {
  Page page("Outrider parity",
            fmt::format("{}: {}", report["case"].get<std::string>(),
                        report["passed"].get<bool>() ? "every stage within its tolerance"
                                                     : "deviates from the recording"));
  size_t n_passed = 0;
  std::vector<std::vector<Cell>> rows;
  std::vector<Bar> bars;
  for (const Report& s : report["stages"]) {
    n_passed += s["passed"].get<bool>();
    auto number = [&](const char* key, const char* format) {
      return s[key].is_number() ? fmt::format(fmt::runtime(format), s[key].get<double>())
                                : std::string("-");
    };
    rows.push_back({{s["name"].get<std::string>(), false},
                    {std::to_string(s["n"].get<size_t>()), true},
                    {number("max_abs", "{:.3e}"), true},
                    {number("rms", "{:.3e}"), true},
                    {number("cosine", "{:.9f}"), true},
                    {number("tolerance", "{:.1e}"), true},
                    {s["passed"].get<bool>()    ? "passed"
                     : s["problem"].is_string() ? s["problem"].get<std::string>()
                                                : "beyond",
                     false}});
    const double limit = s["tolerance"].get<double>();
    if (s["max_abs"].is_number() && limit > 0)
      bars.push_back({s["name"].get<std::string>(),
                      fmt::format("{:.0f} %", 100 * s["max_abs"].get<double>() / limit),
                      std::min(s["max_abs"].get<double>() / limit, 10.0),
                      s["passed"].get<bool>() ? "var(--c)" : "var(--bad)"});
  }
  page.figures(
      {{fmt::format("{}/{}", n_passed, rows.size()), "", "stages within tolerance",
        n_passed != rows.size()},
       {report["first_deviation"].is_string() ? report["first_deviation"].get<std::string>()
                                              : "none",
        "", "first stage that deviates", report["first_deviation"].is_string()}});
  page.section("Share of the tolerance used", "100 % is the largest difference allowed.",
               bar_chart(bars, 1040), true);
  page.section(
      "Stages", "",
      html_table({"stage", "values", "max difference", "rms", "cosine", "tolerance", "verdict"},
                 rows),
      true);
  return page.html();
}

void print_parity(const Report& report, Output& out) {
  out.text("{:<16}{:>8} {:>11} {:>11} {:>12} {:>10}\n", "stage", "values", "max diff", "rms",
           "cosine", "tolerance");
  for (const Report& s : report["stages"]) {
    auto number = [&](const char* key, const char* format) {
      return s[key].is_number() ? fmt::format(fmt::runtime(format), s[key].get<double>())
                                : std::string("-");
    };
    out.text("{:<16}{:>8} {:>11} {:>11} {:>12} {:>10}  {}\n", s["name"].get<std::string>(),
             s["n"].get<size_t>(), number("max_abs", "{:.3e}"), number("rms", "{:.3e}"),
             number("cosine", "{:.9f}"), number("tolerance", "{:.1e}"),
             s["passed"].get<bool>()    ? "ok"
             : s["problem"].is_string() ? s["problem"].get<std::string>()
                                        : "BEYOND");
  }
  if (report.contains("action_columns_max_abs") && !report["action_columns_max_abs"].empty()) {
    out.text("\nworst difference of each action value:");
    for (const Report& worst : report["action_columns_max_abs"])
      out.text(" {:.1e}", worst.get<double>());
    out.text("\n");
  }
}

int finish(Context& context, Report report) {
  const Args& args = context.args;
  print_parity(report, context.out);
  if (args.given("--report")) {
    if (auto wrote = write_output(args.text("--report"), parity_page(report)); !wrote)
      return context.fail(wrote.error());
    context.out.say(Level::kInfo, "wrote {}", args.text("--report"));
  }
  const bool passed = report["passed"].get<bool>();
  if (report["stages"].empty())
    return context.fail(make_error(Code::kNotFound, "parity: nothing was compared%s%s",
                                   args.given("--stage") ? "; the case has no stage " : "",
                                   args.text("--stage").c_str()));
  if (passed)
    context.out.text("\n{} stages within tolerance\n", report["stages"].size());
  else
    context.out.say(Level::kError, "parity: first stage that deviates: {}",
                    report["first_deviation"].get<std::string>());
  context.out.document(std::move(report));
  return passed ? kGood : kBad;
}

std::string unquoted(const std::string& literal) {
  const bool quoted = literal.size() >= 2 && literal.front() == '"' && literal.back() == '"';
  return quoted ? literal.substr(1, literal.size() - 2) : literal;
}

Result<Precision> case_precision(const std::string& name) {
  if (name == "auto" || name == "f32" || name == "stored") return Precision::kF32;
  if (name == "bf16") return Precision::kBf16;
  if (name == "int8") return Precision::kInt8;
  return make_error(
      Code::kInvalid,
      "precision is \"%s\", allowed are \"auto\", \"f32\", \"bf16\", \"int8\", \"stored\"",
      name.c_str());
}

// A case of the reference policy: it brings its weights, so the model is run without a provider.
int run_reference_case(Context& context, const std::string& config, const std::string& folder) {
  const Args& args = context.args;
  CpuOpsOptions options;
  std::string named = "auto";  // f32: the oracle
  const Wish wish = wish_of(args, kParity);
  if (config != "-") {
    auto resolved = resolve(config, wish);
    if (!resolved) return context.fail(resolved.error());
    options.n_threads = static_cast<int>(resolved.value().integer("n_threads", 0));
    if (const Setting* wanted = resolved.value().find("precision"))
      named = unquoted(wanted->literal);
  } else {
    for (const auto& [key, value] : wish.set) {
      if (key != "precision")
        return context.fail(
            make_error(Code::kInvalid,
                       "--set %s: with - in the place of a configuration only precision can be set",
                       key.c_str()));
      named = value;
    }
  }
  Precision precision = Precision::kF32;
  if (auto chosen = case_precision(named)) {
    precision = chosen.value();
  } else {
    return context.fail(chosen.error());
  }
  if (args.given("--threads")) options.n_threads = static_cast<int>(args.integer("--threads"));
  auto ops = make_cpu_ops(options);
  if (!ops) return context.fail(ops.error());
  const double tolerance = args.given("--tolerance")  ? args.real("--tolerance")
                           : recorded_in_bf16(folder) ? kBf16CaseTolerance
                                                      : 0;
  auto result = run_pi_case(folder, *ops.value(), precision, tolerance);
  if (!result) return context.fail(result.error());
  Report report;
  report["case"] = folder;
  report["kind"] = "pi-policy";
  report["family"] = pi_family_name(result.value().family);
  Report rows = Report::array();
  std::string first;
  for (const PiCaseStage& s : result.value().stages) {
    if (args.given("--stage") && s.name != args.text("--stage")) continue;
    if (!s.passed() && first.empty()) first = s.name;
    rows.push_back({{"name", s.name},
                    {"n", s.n_values},
                    {"max_abs", std::isfinite(s.max_abs) ? Report(s.max_abs) : Report(nullptr)},
                    {"rms", nullptr},
                    {"cosine", s.cosine},
                    {"tolerance", s.tolerance},
                    {"passed", s.passed()},
                    {"problem", s.n_values > 0 ? Report(nullptr) : Report("no values compared")}});
  }
  report["passed"] = first.empty() && !rows.empty();
  report["stages"] = std::move(rows);
  report["first_deviation"] = first.empty() ? Report(nullptr) : Report(first);
  return finish(context, std::move(report));
}

// Cases of a graph, in order.
int run_onnx_case(Context& context, const std::string& config, const std::string& path) {
  const Args& args = context.args;
  if (auto good = refuse_idle(args, {"--stage"}, "a recorded graph has no stages"); !good)
    return context.fail(good.error());
  auto cases = read_onnx_cases(path);
  if (!cases) return context.fail(cases.error());
  auto resolved = resolve(config, wish_of(args, kParity));
  if (!resolved) return context.fail(resolved.error());
  auto session = open_session(resolved.value());
  if (!session) return context.fail(session.error());
  auto compared = run_onnx_cases(
      session.value(), cases.value(),
      args.given("--tolerance") ? args.real("--tolerance") : cases.value().tolerance);
  if (!compared) return context.fail(compared.error());
  Report report;
  report["case"] = path;
  report["kind"] = "onnx";
  for (const auto& [key, value] : compared.value().items()) report[key] = value;
  report["config"] = settings_report(resolved.value())["config"];
  return finish(context, std::move(report));
}

int run(Context& context) {
  const Args& args = context.args;
  const std::string &config = args.positional(0), &folder = args.positional(1);
  static constexpr const char* kOutputs[] = {"--report"};
  const auto wanted = wanted_outputs(args, kOutputs);
  for (const std::string& input : {config, folder})
    if (auto fine = check_outputs(wanted, input_files(input), context.out); !fine)
      return context.fail(fine.error());
  if (is_onnx_recording(folder)) return run_onnx_case(context, config, folder);
  auto kind = case_kind(folder);
  if (!kind) return context.fail(kind.error());
  if (kind.value() == "onnx") return run_onnx_case(context, config, folder);
  if (kind.value().starts_with("pi-policy")) return run_reference_case(context, config, folder);
  auto golden = read_case(folder);
  if (!golden) return context.fail(golden.error());
  if (args.given("--tolerance"))
    for (GoldenArray& array : golden.value().arrays)
      if (array.stage != "tokens") array.tolerance = args.real("--tolerance");
  Wish wish = wish_of(args, kParity);
  struct stat info = {};
  const bool is_json = config.ends_with(".json") && ::stat(config.c_str(), &info) == 0;
  const bool robot = golden.value().kind == "policy";
  if (!is_json && !robot) {  // a model file is opened for the case's own cameras
    wish.n_views = golden.value().n_views;
    wish.image_size = {static_cast<int32_t>(golden.value().width),
                       static_cast<int32_t>(golden.value().height)};
  }
  auto resolved = resolve(config, wish);
  if (!resolved) return context.fail(resolved.error());
  const std::vector<std::string> model_files = input_files(config, resolved.value());
  if (auto fine = check_outputs(wanted, model_files, context.out); !fine)
    return context.fail(fine.error());
  for (const std::string& note : resolved.value().notes) context.out.say(Level::kInfo, "{}", note);
  if (!robot) {
    if (auto fits = check_images(golden.value().request.images, resolved.value()); !fits)
      return context.fail(fits.error());
  }
  const int64_t steps = resolved.value().integer("action_steps", golden.value().action_steps),
                dim = resolved.value().integer("action_dim", golden.value().action_dim);
  if (steps != golden.value().action_steps || dim != golden.value().action_dim)
    return context.fail(
        make_error(Code::kShape,
                   "parity: the case has a chunk of %lldx%lld, the model %lldx%lld: another model",
                   static_cast<long long>(golden.value().action_steps),
                   static_cast<long long>(golden.value().action_dim), static_cast<long long>(steps),
                   static_cast<long long>(dim)));
  auto session = open_session(resolved.value());
  if (!session) return context.fail(session.error());
  if (session.value().taps() == nullptr)
    context.out.say(Level::kWarn, "this runtime offers no taps: the actions alone are compared");
  auto result = run_case(session.value(), golden.value(), args.text("--stage"));
  if (!result) return context.fail(result.error());
  Report report;
  report["case"] = folder;
  report["kind"] = golden.value().kind;
  const Report verdicts = parity_report(result.value());
  for (const auto& [key, value] : verdicts.items()) report[key] = value;
  report["config"] = settings_report(resolved.value())["config"];
  return finish(context, std::move(report));
}

}  // namespace

const Command kParity = {
    "parity",
    "Compare every stage with recorded arrays; name the first that deviates.",
    "Exit status 1: a stage is beyond its tolerance, or nothing could be compared. A case of your "
    "own is a folder with "
    "meta.json (kind, views, width, height, prompt, state, action_steps, action_dim, "
    "tolerance_max_abs, "
    "tolerance_image_embd, tolerance_prefix_kv), images.u8, and any of image_embd_0, "
    "prefix_k_layer0, "
    "prefix_v_layer0, velocity_step0, x_after_step0, actions as .npy or raw f32 .bin. For a policy "
    "that knows its robot: kind policy, cameras (names), width, height, prompt, state and "
    "tolerance, "
    "images.u8, noise, and any stage by its tap's name.",
    "outrider parity pi05.gguf golden/pi05_two_views --set numerics=jetson-pi --set precision=f32",
    kPositionals,
    kFlags,
    run};

}  // namespace outrider::cli
