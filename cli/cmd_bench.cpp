// outrider bench: how long a tick takes, stage by stage, against what the machine can do.
#include "base/input_file.h"
#include "base/output_file.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/config.h"
#include "cli/flags.h"
#include "cli/idle.h"
#include "cli/limits.h"
#include "cli/machine.h"
#include "cli/outputs.h"
#include "cli/report/bench_page.h"
#include "cli/runtime_facts.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    {"--ticks", "N", "20", "Measured ticks; p99 needs 100.", parse_count},
    {"--warmup", "N", "2", "Ticks after the first that are reported apart.", parse_count},
    {"--hz", "HZ", nullptr, "Start ticks at this rate and count latency from the intended start.",
     parse_rate},
    {"--idle", "SECONDS", "1", "Pause before the tick that is reported as after idle; 0: none.",
     parse_seconds},
    kThreadsFlag,
    kImageFlag,
    kPromptFlag,
    kStateFlag,
    kViewsFlag,
    kSetFlag,
    kProviderFlag,
    kPrintConfigFlag,
    kJsonFlag,
    kHtmlFlag,
    {"--compare", "OLD.json", nullptr, "Compare with a document this command wrote before.",
     parse_text},
    {"--samples", "FILE.csv", nullptr,
     "Also write every tick: intended start, start, and each part.", parse_text},
    {"--no-limits", nullptr, nullptr, "Do not measure the machine first.", nullptr},
};
constexpr Positional kPositionals[] = {kConfigOrFile};

Result<Request> request_of(Context& context, const Resolved& resolved) {
  Request request = sample_request(resolved, 0.4);
  if (context.args.given("--image")) {
    request.images.clear();
    OUTRIDER_TRY(load_images(context.args.all("--image"), request));
    if (request.cameras.empty()) OUTRIDER_TRY(check_one_size(context.args.all("--image"), request));
    if (request.cameras.empty()) OUTRIDER_TRY(check_images(request.images, resolved));
  }
  if (context.args.given("--prompt")) request.prompt = context.args.text("--prompt");
  if (context.args.given("--state")) {
    auto state = parse_csv(context.args.text("--state"));
    if (!state) return state.error();
    request.state = std::move(state.value());
  }
  return request;
}

// Inputs that were given and that no port takes.
Result<void> check_inputs(const Args& args, const Request& request, const Session& session) {
  const char* const why = "this runtime has no such input of its own; made-up inputs are measured";
  const bool made_up = request.samples != nullptr;
  if (made_up || camera_ports(session).empty()) OUTRIDER_TRY(refuse_idle(args, {"--image"}, why));
  if (made_up || session.find("prompt") == nullptr)
    OUTRIDER_TRY(refuse_idle(args, {"--prompt"}, why));
  if (made_up || session.find("state") == nullptr)
    OUTRIDER_TRY(refuse_idle(args, {"--state"}, why));
  return {};
}

Percentiles part(const Measurement& m, double TickTimes::*member) {
  std::vector<double> values;
  for (const Sample& sample : m.samples) values.push_back(sample.times.*member);
  return percentiles(values);
}

Percentiles stage_part(const Measurement& m, size_t stage) {
  std::vector<double> values;
  for (const Sample& sample : m.samples) values.push_back(sample.times.stage_ms[stage]);
  return percentiles(values);
}

// One stage against the roof: the time the work takes at least, over the time it took (p50).
Report stage_report(const std::string& name, const Percentiles& ms, const StageWork& work,
                    const std::optional<Limits>& limits, const RuntimeFacts& facts) {
  Report row;
  row["name"] = name;
  row["ms"] = percentiles_report(ms);
  const bool known = work.gflop > 0 && ms.p50 > 0;
  const double seconds = ms.p50 * 1e-3;
  row["gflop"] = known ? Report(work.gflop) : Report(nullptr);
  row["gops"] = known ? Report(work.gflop / seconds) : Report(nullptr);
  row["gbs"] = known ? Report(work.weight_bytes * 1e-9 / seconds) : Report(nullptr);
  row["percent_of_limit"] = nullptr;
  row["bound_by"] = nullptr;
  if (known && limits) {
    const double peak = peak_gops(*limits, facts.precision), read = limits->read_gbs.all;
    const double compute_s = peak > 0 ? work.gflop / peak : 0;
    const double memory_s = read > 0 ? work.weight_bytes * 1e-9 / read : 0;
    row["percent_of_limit"] = 100 * std::max(compute_s, memory_s) / seconds;
    row["bound_by"] = compute_s >= memory_s ? "compute" : "memory";
  }
  return row;
}

Report bench_report(const Measurement& m, const Resolved& resolved, const Session& session,
                    const Request& request, const BenchOptions& options,
                    const std::optional<Limits>& limits) {
  const RuntimeFacts facts = runtime_facts(session);
  const std::vector<StageWork> work = stage_work(resolved, request, session, facts);
  Report report;
  report["limits"] = limits_report(limits);
  Report stages = Report::array();
  for (size_t i = 0; i < m.stages.size(); ++i)
    stages.push_back(stage_report(m.stages[i], stage_part(m, i), work[i], limits, facts));
  report["stages"] = std::move(stages);
  report["total_ms"] = percentiles_report(part(m, &TickTimes::total_ms));
  report["input_ms"] = percentiles_report(part(m, &TickTimes::input_ms));
  report["output_ms"] = percentiles_report(part(m, &TickTimes::output_ms));
  report["open_ms"] = static_cast<double>(session.open_ns()) * 1e-6;
  report["first_ms"] = m.first_ms;
  report["warmup_ms"] = m.warmup_ms;
  report["after_idle_ms"] = options.idle_s > 0 ? Report(m.after_idle_ms) : Report(nullptr);
  report["idle_s"] = options.idle_s;
  if (options.rate_hz > 0) {
    std::vector<double> latency;
    for (const Sample& sample : m.samples) latency.push_back(sample.latency_ms);
    report["rate"] = {{"hz", options.rate_hz},
                      {"latency_from_intended_start_ms", percentiles_report(percentiles(latency))},
                      {"late", m.n_late}};
  } else {
    report["rate"] = nullptr;
  }
  const Report& total = report["total_ms"];
  report["jitter"] = total["p99"].is_number() && total["p50"].get<double>() > 0
                         ? Report(total["p99"].get<double>() / total["p50"].get<double>())
                         : Report(nullptr);
  report["events"] = {{"minor_faults", m.events.minor_faults},
                      {"major_faults", m.events.major_faults},
                      {"waits", m.events.waits},
                      {"preemptions", m.events.preemptions}};
  report["rss_bytes"] = m.resident_bytes;
  report["threads"] = facts.n_threads > 0 ? Report(facts.n_threads) : Report(nullptr);
  report["kernel_table"] =
      facts.kernel_table.empty() ? Report(nullptr) : Report(facts.kernel_table);
  report["precision"] = facts.precision.empty() ? Report(nullptr) : Report(facts.precision);
  report["checksum"] = {
      {"fnv1a64", fmt::format("{:016x}", m.output_checksum)},
      {"outputs_compared", m.samples.size() + m.warmup_ms.size() + 1 + (options.idle_s > 0)},
      {"outputs_different", m.n_different}};
  report["fingerprint"] = fmt::format("{:016x}", outrider_fingerprint(session.handle()));
  report["config"] = settings_report(resolved)["config"];
  report["machine"] = machine_report(this_machine());
  return report;
}

std::string ms_text(const Report& p, const char* key) {
  return p[key].is_null() ? "-" : fmt::format("{:.2f}", p[key].get<double>());
}

void print_report(const Report& r, const BenchOptions& options, Output& out) {
  out.text("{:<14}{:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}\n", "ms", "p50", "p95", "p99", "max",
           "GFLOP", "GFLOP/s", "% limit");
  auto row = [&](const std::string& name, const Report& p, const Report* stage) {
    auto number = [&](const char* key, int digits) {
      return stage != nullptr && (*stage)[key].is_number()
                 ? fmt::format("{:.{}f}", (*stage)[key].get<double>(), digits)
                 : std::string("-");
    };
    out.text("{:<14}{:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}\n", name, ms_text(p, "p50"),
             ms_text(p, "p95"), ms_text(p, "p99"), ms_text(p, "max"), number("gflop", 2),
             number("gops", 1), number("percent_of_limit", 1));
  };
  row("inputs", r["input_ms"], nullptr);
  for (const Report& stage : r["stages"])
    row(stage["name"].get<std::string>(), stage["ms"], &stage);
  row("output", r["output_ms"], nullptr);
  row("total", r["total_ms"], nullptr);
  out.text("\n{} sample{}{}; open {:.0f} ms, first tick {:.2f} ms",
           r["total_ms"]["n"].get<size_t>(), r["total_ms"]["n"].get<size_t>() == 1 ? "" : "s",
           r["total_ms"]["p99"].is_null() ? " (p99 needs 100)" : "", r["open_ms"].get<double>(),
           r["first_ms"].get<double>());
  if (r["after_idle_ms"].is_number())
    out.text(", after {:g} s idle {:.2f} ms", options.idle_s, r["after_idle_ms"].get<double>());
  out.text("\n");
  if (r["rate"].is_object())
    out.text("at {:g} Hz: {} of {} ticks late; from the intended start p50 {} max {} ms\n",
             options.rate_hz, r["rate"]["late"].get<size_t>(), r["total_ms"]["n"].get<size_t>(),
             ms_text(r["rate"]["latency_from_intended_start_ms"], "p50"),
             ms_text(r["rate"]["latency_from_intended_start_ms"], "max"));
  const Report& events = r["events"];
  if (r["jitter"].is_number()) out.text("jitter (p99/p50) {:.3f}; ", r["jitter"].get<double>());
  out.text("within the ticks {} minor and {} major page faults, {} waits, {} preemptions\n",
           events["minor_faults"].get<int64_t>(), events["major_faults"].get<int64_t>(),
           events["waits"].get<int64_t>(), events["preemptions"].get<int64_t>());
  const Report& limits = r["limits"];
  if (limits["f32_gops"]["all"].is_number())
    out.text(
        "this machine now, all threads: f32 {:.0f}, bf16 {:.0f}, int8 {:.0f} GFLOP/s, reads {:.1f} "
        "GB/s\n",
        limits["f32_gops"]["all"].get<double>(), limits["bf16_gops"].value("all", 0.0),
        limits["int8_gops"].value("all", 0.0), limits["read_gbs"].value("all", 0.0));
  auto word = [&](const char* key) {
    return r[key].is_null()     ? std::string("-")
           : r[key].is_string() ? r[key].get<std::string>()
                                : r[key].dump();
  };
  out.text("threads {}, kernels {}, precision {}, resident {}, output {} ({} different)\n",
           word("threads"), word("kernel_table"), word("precision"),
           bytes_text(r["rss_bytes"].get<uint64_t>()), r["checksum"]["fnv1a64"].get<std::string>(),
           r["checksum"]["outputs_different"].get<uint64_t>());
}

// An earlier document. Errors: kInvalid when it is none of this command and version.
Result<Report> read_old(const std::string& path) {
  // A document has some hundred values, and one for each warm-up.
  constexpr size_t kMaxDocumentBytes = size_t{4} << 20;
  constexpr Json::Limits kLimits = {kMaxDocumentBytes, 16, size_t{1} << 18};
  auto text = read_file(path, kMaxDocumentBytes);
  if (!text) return text.error();
  auto json = Json::parse(text.value(), Json::Dialect::kStandard, kLimits);
  if (!json) return make_error(Code::kInvalid, "--compare %s: %s", path.c_str(), json.error().text);
  const Report old = report_of(json.value());
  if (!old.is_object() || !old.contains("total_ms") || !old.contains("stages") ||
      !old["stages"].is_array() || !old["total_ms"].is_object())
    return make_error(Code::kInvalid,
                      "--compare %s: not a document of outrider bench (no stages, total_ms)",
                      path.c_str());
  const auto version = old.find("version");
  if (version == old.end() || !version->is_number_integer() || version->get<int64_t>() != 1)
    return make_error(Code::kInvalid, "--compare %s: version is %s, this build compares version 1",
                      path.c_str(),
                      version == old.end() ? "missing" : shown(version->dump(), 40).c_str());
  const auto p50 = old["total_ms"].find("p50");
  if (p50 == old["total_ms"].end() || !p50->is_number())
    return make_error(Code::kInvalid, "--compare %s: total_ms has no p50", path.c_str());
  for (const Report& stage : old["stages"])
    if (!stage.is_object() || !stage.value("name", Report()).is_string() ||
        !stage.value("ms", Report()).is_object())
      return make_error(Code::kInvalid, "--compare %s: a stage without name and ms", path.c_str());
  return old;
}

// p50 of a list of parts, old against new. Errors: kShape when the stages are others.
Result<Report> compare(const std::string& path, const Report& old, const Report& now) {
  const auto names = [](const Report& document) {
    std::string list;
    for (const Report& stage : document["stages"])
      list += (list.empty() ? "" : ", ") + stage["name"].get<std::string>();
    return list;
  };
  if (names(old) != names(now))
    return make_error(Code::kShape, "--compare %s: it measured stages %.100s; here they are %.100s",
                      path.c_str(), names(old).c_str(), names(now).c_str());
  Report rows = Report::array();
  auto add = [&](const std::string& name, const Report& before, const Report& after) {
    if (!before.is_object() || !before.contains("p50") || !before["p50"].is_number() ||
        !after["p50"].is_number())
      return;
    const double a = before["p50"].get<double>(), b = after["p50"].get<double>();
    rows.push_back({{"name", name},
                    {"old_p50_ms", a},
                    {"new_p50_ms", b},
                    {"ratio", a > 0 ? Report(b / a) : Report(nullptr)}});
  };
  add("total", old["total_ms"], now["total_ms"]);
  for (const Report& stage : now["stages"])
    for (const Report& before : old["stages"])
      if (before.is_object() && before.contains("name") && before["name"] == stage["name"] &&
          before.contains("ms"))
        add(stage["name"].get<std::string>(), before["ms"], stage["ms"]);
  Report differs = Report::array();
  for (const char* key : {"threads", "kernel_table", "precision", "config", "fingerprint"})
    if (!old.contains(key) || old[key] != now[key]) differs.push_back(key);
  return Report{
      {"old", path}, {"rows", std::move(rows)}, {"settings_that_differ", std::move(differs)}};
}

std::string samples_csv(const Measurement& m) {
  std::string out = "tick,intended_ms,start_ms,latency_ms,total_ms,input_ms,output_ms";
  for (const std::string& stage : m.stages) out += "," + stage + "_ms";
  out += "\n";
  for (size_t i = 0; i < m.samples.size(); ++i) {
    const Sample& s = m.samples[i];
    out += fmt::format("{},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f}", i, s.intended_ms, s.start_ms,
                       s.latency_ms, s.times.total_ms, s.times.input_ms, s.times.output_ms);
    for (double ms : s.times.stage_ms) out += fmt::format(",{:.6f}", ms);
    out += "\n";
  }
  return out;
}

int finish(Context& context, Report report, const Report& old, const Measurement& m,
           const BenchOptions& options) {
  const Args& args = context.args;
  if (args.given("--compare")) {
    auto compared = compare(args.text("--compare"), old, report);
    if (!compared) return context.fail(compared.error());
    report["compare"] = std::move(compared.value());
  }
  print_report(report, options, context.out);
  if (report.contains("compare")) {
    for (const Report& row : report["compare"]["rows"])
      context.out.text("{:<14}{:>9.2f} ms before, {:>9.2f} ms now ({:.3f})\n",
                       row["name"].get<std::string>(), row["old_p50_ms"].get<double>(),
                       row["new_p50_ms"].get<double>(),
                       row["ratio"].is_number() ? row["ratio"].get<double>() : 0.0);
    for (const Report& key : report["compare"]["settings_that_differ"])
      context.out.say(Level::kWarn, "--compare: {} is not the same in both measurements",
                      key.get<std::string>());
  }
  if (args.given("--samples")) {
    if (auto wrote = write_output(args.text("--samples"), samples_csv(m)); !wrote)
      return context.fail(wrote.error());
  }
  if (args.given("--report")) {
    if (auto wrote = write_output(args.text("--report"), bench_page(report, m)); !wrote)
      return context.fail(wrote.error());
    context.out.say(Level::kInfo, "wrote {}", args.text("--report"));
  }
  const bool same = m.n_different == 0;
  report["good"] = same;
  context.out.document(std::move(report));
  if (same) return kGood;
  context.out.say(Level::kError, "bench: {} outputs differ from the first one for equal inputs",
                  m.n_different);
  return kBad;
}

int run(Context& context) {
  const Args& args = context.args;
  Wish wish = wish_of(args, kBench);
  auto resolved = resolve(args.positional(0), wish);
  if (!resolved) return context.fail(resolved.error());
  if (args.given("--print-config")) {
    print_settings(resolved.value(), context.out);
    context.out.document(settings_report(resolved.value()));
    return kGood;
  }
  for (const std::string& note : resolved.value().notes) context.out.say(Level::kInfo, "{}", note);
  // What would end the command after minutes of measuring ends it now.
  Report old;
  std::vector<std::string> inputs = input_files(args.positional(0), resolved.value());
  if (args.given("--compare")) {
    auto document = read_old(args.text("--compare"));
    if (!document) return context.fail(document.error());
    old = std::move(document.value());
    inputs.push_back(args.text("--compare"));
  }
  for (const std::string& word : args.all("--image")) inputs.push_back(image_path(word));
  static constexpr const char* kOutputs[] = {"--report", "--samples"};
  const auto wanted = wanted_outputs(args, kOutputs);
  if (auto fine = check_outputs(wanted, inputs, context.out); !fine)
    return context.fail(fine.error());
  auto request = request_of(context, resolved.value());
  if (!request) return context.fail(request.error());
  auto session = open_session(resolved.value());
  if (!session) return context.fail(session.error());
  if (auto used = check_inputs(args, request.value(), session.value()); !used)
    return context.fail(used.error());
  if (!args.given("--image")) fit_pictures(request.value(), session.value());
  if (!args.given("--state")) fit_state(request.value(), session.value());
  BenchOptions options;
  options.n_ticks = args.integer("--ticks");
  options.n_warmup = args.integer("--warmup");
  options.rate_hz = args.real("--hz");
  options.idle_s = args.real("--idle");
  auto measured = measure(session.value(), request.value(), options, context.out);
  if (!measured) return context.fail(measured.error());
  std::optional<Limits> limits;
  if (!args.given("--no-limits")) {
    const int n_threads = runtime_facts(session.value()).n_threads;
    auto measured_limits = measure_limits(n_threads > 0 ? n_threads : this_machine().n_threads);
    if (measured_limits)
      limits = measured_limits.value();
    else
      context.out.say(Level::kWarn, "{}", measured_limits.error().message());
  }
  return finish(context,
                bench_report(measured.value(), resolved.value(), session.value(), request.value(),
                             options, limits),
                old, measured.value(), options);
}

}  // namespace

const Command kBench = {
    "bench",
    "Measure ticks: percentiles, stages, and their share of what this machine can do.",
    "A tick is everything: inputs handed over, every stage, the output read. The first tick, the "
    "warm-up and the "
    "tick after a pause are reported apart from the samples. GFLOP counts matrix products that "
    "must be done; a "
    "limit is what register-only loops and streaming reads reach on this machine now. Every output "
    "is compared "
    "with the first; exit status 1 when one differs.",
    "outrider bench pi05.gguf --ticks 200 --report bench.html",
    kPositionals,
    kFlags,
    run};

}  // namespace outrider::cli
