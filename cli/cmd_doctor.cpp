// outrider doctor: the machine, and with a configuration the whole deployment.
#include <algorithm>

#include "cli/commands.h"
#include "cli/config.h"
#include "cli/doctor.h"
#include "cli/flags.h"
#include "cli/idle.h"
#include "cli/runtime_facts.h"
#include "kernels/dispatch.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    kViewsFlag, kSetFlag, kThreadsFlag, kProviderFlag, kJsonFlag,
};
constexpr Positional kPositionals[] = {
    {"[CONFIG|FILE]",
     "Open configuration or model file: it is opened, ticked once, and its contract printed."},
};

Report port_report(const frt_runtime_port_desc& port, const std::string& units) {
  const bool action = port.modality == FRT_MODALITY_ACTION || port.modality == FRT_MODALITY_STATE;
  static constexpr const char* kUpdates[] = {"swap", "staged", "setup"};
  return {
      {"name", port.name},
      {"direction", port.direction == FRT_PORT_IN ? "in" : "out"},
      {"modality", modality_name(port.modality)},
      {"type", port_dtype_name(port.dtype)},
      {"shape", std::vector<int64_t>(port.shape, port.shape + port.rank)},
      {"required", port.required != 0},
      {"update", port.update < 3 ? kUpdates[port.update] : "unknown"},
      {"units", action                                ? Report(units)
                : port.modality == FRT_MODALITY_IMAGE ? Report("8 bit, 0 to 255, RGB by default")
                                                      : Report(nullptr)}};
}

// Everything a deployment promises: opened, ticked once with a drawn scene, and described.
Result<Report> contract(const Resolved& resolved) {
  auto session = open_session(resolved);
  if (!session) return session.error();
  Report report;
  report["provider"] = resolved.provider_path;
  report["config"] = settings_report(resolved);
  report["open_ms"] = static_cast<double>(session.value().open_ns()) * 1e-6;
  const Report described = runtime_facts(session.value()).described;
  const std::string units =
      described.is_object() ? described.value("units", "normalised") : "normalised";
  Report ports = Report::array();
  for (const auto* port : session.value().ports()) ports.push_back(port_report(*port, units));
  report["ports"] = std::move(ports);
  Report slots = Report::array();
  const frt_runtime_port_desc* images = session.value().find("images");
  const int64_t n_views = images != nullptr && images->rank == 4 ? images->shape[0] : 0;
  static constexpr const char* kSlots[] = {"base", "left wrist", "right wrist"};
  for (int64_t i = 0; i < n_views; ++i)
    slots.push_back({{"position", i}, {"slot", i < 3 ? Report(kSlots[i]) : Report(nullptr)}});
  if (described.is_object() && described.contains("cameras")) {  // bound by name
    int64_t position = 0;
    for (const Report& camera : described["cameras"])
      slots.push_back({{"position", position++},
                       {"name", camera["name"]},
                       {"slot", camera["slot"]},
                       {"required", camera["required"]}});
    for (const char* kind : {"masked_slots", "black_slots"}) {
      if (!described.contains(kind)) continue;
      for (const Report& slot : described[kind])
        slots.push_back(
            {{"position", nullptr}, {"name", nullptr}, {"slot", slot}, {"required", false}});
    }
  }
  report["cameras"] = std::move(slots);
  Request request = sample_request(resolved, 0.4);
  fit_pictures(request, session.value());
  fit_state(request, session.value());
  auto port = main_output(session.value());
  if (!port) return port.error();
  auto first = timed_tick(session.value(), request, port.value());
  if (!first) return first.error();
  auto second = timed_tick(session.value(), request, port.value());
  if (!second) return second.error();
  Report stages = Report::array();
  const std::vector<std::string> names = session.value().stages();
  for (size_t i = 0; i < names.size(); ++i)
    stages.push_back({{"name", names[i]}, {"ms", second.value().times.stage_ms[i]}});
  report["stages"] = std::move(stages);
  report["first_tick_ms"] = first.value().times.total_ms;
  report["second_tick_ms"] = second.value().times.total_ms;
  report["same_output_twice"] = first.value().output == second.value().output;
  report["resident_bytes"] = resident_bytes();
  report["described"] = described;
  report["counters"] = counters_report(session.value());
  report["fingerprint"] = fmt::format("{:016x}", outrider_fingerprint(session.value().handle()));
  return report;
}

std::string mask_text(const Report& mask) {
  std::string out;
  for (size_t i = 0; i < mask.size(); ++i)
    if (mask[i].get<bool>()) out += (out.empty() ? "" : " ") + std::to_string(i);
  return out.empty() ? "none: actions are absolute" : "dimensions " + out + " are state + action";
}

// What a policy that knows its robot says of itself.
void print_robot(const Report& d, Output& out) {
  const auto words = [&](const Report& at, const char* key) { return at.value(key, ""); };
  out.text("  robot {}", words(d, "robot"));
  if (d.value("rate_hz", 0.0) > 0) out.text(", {:g} Hz", d["rate_hz"].get<double>());
  out.text("\n");
  for (const Report& field : d["state_fields"])
    out.text("  state {} ({}) {}\n", words(field, "name"), field["size"].get<int64_t>(),
             words(field, "unit"));
  out.text("  actions: {}; relative: {}\n",
           words(d, "action_unit").empty() ? "unit not said" : words(d, "action_unit"),
           mask_text(d["delta_mask"]));
  const Report &n = d["normalisation"], &s = d["statistics"];
  out.text("  state {} ({}): {}\n  actions {} ({}): {}\n  statistics from {}\n", words(n, "state"),
           words(n, "rule"), words(s, "state"), words(n, "actions"), words(n, "rule"),
           words(s, "actions"), words(s, "origin"));
  out.text(
      "  prompt: {} rule, state {} the text, at most {} tokens{}\n", words(d, "prompt_rule"),
      d["state_in_text"].get<bool>() ? "in" : "not in", d["max_tokens"].get<int64_t>(),
      words(d, "default_prompt").empty() ? "" : ", default \"" + words(d, "default_prompt") + "\"");
  for (const Report& note : d["notes"]) out.text("  {}\n", note.get<std::string>());
}

void print_contract(const Report& r, Output& out) {
  out.text("\n{}\n", out.bold("Contract"));
  for (const Report& port : r["ports"])
    out.text("  {:<4} {:<10} {:<7} {:<5} {:<20} {}{}\n", port["direction"].get<std::string>(),
             port["name"].get<std::string>(), port["modality"].get<std::string>(),
             port["type"].get<std::string>(), port["shape"].dump(),
             port["required"].get<bool>() ? "required" : "",
             port["units"].is_string()
                 ? (port["required"].get<bool>() ? ", " : "") + port["units"].get<std::string>()
                 : "");
  const Report& described = r["described"];
  const bool robot = described.is_object() && described.contains("statistics");
  const char* absent = robot && described.contains("black_slots") ? "black" : "masked out";
  for (const Report& slot : r["cameras"]) {
    if (robot) {
      if (slot["name"].is_null())
        out.text("  slot {} has no camera: {}\n", slot["slot"].get<std::string>(), absent);
      else
        out.text("  camera {} goes to slot {}{}\n", slot["name"].get<std::string>(),
                 slot["slot"].get<std::string>(),
                 slot["required"].get<bool>() ? "" : fmt::format("; {} when it is absent", absent));
      continue;
    }
    out.text("  camera {} goes to slot {}\n", slot["position"].get<int64_t>(),
             slot["slot"].is_string() ? slot["slot"].get<std::string>() : "without a name");
  }
  if (robot) print_robot(described, out);
  if (!robot)
    out.text(
        "  statistics: none; actions and state are normalised, the robot's units are the "
        "caller's\n");
  out.text("  opened in {:.0f} ms; ticks of {:.2f} and {:.2f} ms; {} resident\n",
           r["open_ms"].get<double>(), r["first_tick_ms"].get<double>(),
           r["second_tick_ms"].get<double>(), bytes_text(r["resident_bytes"].get<uint64_t>()));
  for (const Report& stage : r["stages"])
    out.text("  stage {:<10} {:.2f} ms\n", stage["name"].get<std::string>(),
             stage["ms"].get<double>());
}

std::string joined(const Report& words) {
  std::string out;
  for (const Report& word : words) out += (out.empty() ? "" : ", ") + word.get<std::string>();
  return out;
}

void print_machine(const Machine& machine, const Report& tables, const std::vector<Check>& checks,
                   Output& out) {
  out.text("{}\n  {}\n  {}\n  {}\n  kernel tables: {} (the first is used)\n\n{}\n",
           out.bold("Machine"), machine.cpu, machine.os, machine.build, joined(tables),
           out.bold("Checks"));
  for (const Check& check : checks) {
    out.text("  {:<3} {:<20} {}\n", check.health == Health::kOk ? "ok" : "!", check.name,
             check.found);
    if (check.health != Health::kOk) out.text("      wanted: {}. {}\n", check.wanted, check.fix);
  }
}

int run(Context& context) {
  if (context.args.positional(0).empty())
    if (auto good = refuse_idle(context.args, {"--views", "--set", "--threads", "--provider"},
                                "it goes with CONFIG|FILE");
        !good)
      return context.fail(good.error());
  const Machine machine = this_machine();
  std::vector<Check> checks = check_machine(machine);
  checks.push_back(check_usb(link::usb::usb_facts({})));
  checks.push_back(check_kernels());
  Report tables = Report::array();
  for (const char* const* name = kernel_table_names(); *name != nullptr; ++name)
    tables.push_back(*name);
  Report report;
  report["machine"] = machine_report(machine);
  report["kernel_tables"] = tables;
  report["kernel_table"] = tables.empty() ? Report(nullptr) : tables[0];
  report["checks"] = checks_report(checks);
  report["contract"] = nullptr;
  // The deployment first: when it fails, standard output stays empty.
  const std::string& path = context.args.positional(0);
  if (!path.empty()) {
    auto resolved = resolve(path, wish_of(context.args, kDoctor));
    if (!resolved) return context.fail(resolved.error());
    auto contracted = contract(resolved.value());
    if (!contracted) return context.fail(contracted.error());
    report["contract"] = std::move(contracted.value());
  }
  print_machine(machine, tables, checks, context.out);
  const bool same = path.empty() || report["contract"]["same_output_twice"].get<bool>();
  if (!path.empty()) print_contract(report["contract"], context.out);
  if (!same)
    context.out.say(Level::kError, "doctor: two ticks with equal inputs gave different outputs");
  const bool broken = std::ranges::any_of(
      checks, [](const Check& check) { return check.health == Health::kBroken; });
  if (broken) context.out.say(Level::kError, "doctor: {}", checks.back().found);
  context.out.document(std::move(report));
  return same && !broken ? kGood : kBad;
}

}  // namespace

const Command kDoctor = {"doctor",
                         "Check the machine, and with a configuration the whole deployment.",
                         "What could be better is marked with ! and does not change the exit "
                         "status; kernels that compute something else than the scalar ones do, and "
                         "so does a configuration that does not open, run and repeat itself.",
                         "outrider doctor pi05.json",
                         kPositionals,
                         kFlags,
                         run};

}  // namespace outrider::cli
