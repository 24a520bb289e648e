// outrider join: the device side. A standby on this machine, a lead at the end of a cable.
#include <csignal>

#include "base/input_file.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/idle.h"
#include "cli/runtime_facts.h"
#include "cli/tandem_loop.h"
#include "cli/temp_dir.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    {"--standby", "CONFIG", nullptr,
     "Open configuration or model file of the runtime on this machine.", parse_text},
    {"--seconds", "N", "10", "How long the loop runs.", parse_duration},
    {"--hz", "N", "20", "Ticks a second.", parse_rate},
    {"--model", "NAME", "default", "Which model of the host: a name or a SHA-256.", parse_text},
    {"--key-file", "F", nullptr, "Key shared with the host.", parse_text},
    {"--standby-provider", "PATH", nullptr,
     "Shared object of the standby, instead of the one model_family chooses.", parse_text},
    {"--lead-provider", "PATH", nullptr,
     "Shared object of the lead, instead of the one model_family chooses.", parse_text},
    {"--set", "KEY=VALUE", nullptr, "Key of the tandem, a limit for instance.", parse_setting,
     true},
    kJsonFlag,
};
constexpr Positional kPositionals[] = {
    {"ENDPOINT",
     "tcp://HOST:PORT, usb:SERIAL or loopback:NAME of a host that serves; or the path of an open "
     "configuration (.json) of a lead on this machine."}};

volatile std::sig_atomic_t g_stop = 0;
void on_interrupt(int) {
  g_stop = 1;
}

bool is_endpoint(const std::string& text) {
  return text.starts_with("tcp://") || text.starts_with("usb:") || text.starts_with("loopback:");
}

Result<std::string> lead_config(const Args& args) {
  const std::string& endpoint = args.positional(0);
  if (!is_endpoint(endpoint))
    OUTRIDER_TRY(refuse_idle(args, {"--model", "--key-file"},
                             "it is for a host's endpoint, and the lead's configuration is given"));
  if (!is_endpoint(endpoint)) return read_file(endpoint, size_t{1} << 20);
  Report config;
  config["model_family"] = "remote";
  config["endpoint"] = endpoint;
  config["model"] = args.text("--model");
  if (args.given("--key-file")) config["key_file"] = args.text("--key-file");
  return to_json_text(config, -1);
}

void print_summary(const Report& report, Output& out) {
  for (const Report& change : report["changes"])
    out.text("{:8.2f} s  {:<8} {}\n", change["time_s"].get<double>(),
             change["leader"].get<std::string>(), change["reason"].get<std::string>());
  const Report& leader = report["leader_ms"];
  out.text(
      "{} ticks at {:g} Hz, {} missed, {} held, {} hand-overs; standby {:.0f} ms, lead {:.0f} ms; "
      "worst lateness {:.2f} ms\n",
      report["ticks"].get<size_t>(), report["hz"].get<double>(), report["missed"].get<int64_t>(),
      report["held"].get<int64_t>(), report["handovers"].get<int64_t>(),
      leader["standby"].get<double>(), leader["lead"].get<double>(),
      report["worst_late_ms"].get<double>());
}

Result<Resolved> resolve_standby(const Args& args) {
  if (!args.given("--standby"))
    return make_error(Code::kInvalid,
                      "--standby is missing; give the configuration or model file of the runtime "
                      "on this machine");
  Wish wish;
  if (args.given("--standby-provider")) wish.provider = args.text("--standby-provider");
  return resolve(args.text("--standby"), wish);
}

int run(Context& context) {
  const Args& args = context.args;
  auto standby = resolve_standby(args);
  if (!standby) return context.fail(standby.error());
  auto lead = lead_config(args);
  if (!lead) return context.fail(lead.error());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(signal, on_interrupt);
  auto temporary = TempDir::make();
  if (!temporary) return context.fail(temporary.error());
  TandemWish wish{standby.value().json, standby.value().provider_path,
                  lead.value(),         args.text("--lead-provider"),
                  args.real("--hz"),    {}};
  for (const std::string& word : args.all("--set"))
    wish.set.emplace_back(word.substr(0, word.find('=')), word.substr(word.find('=') + 1));
  auto session = open_tandem(temporary.value().path(), wish);
  if (!session) return context.fail(session.error());

  const LoopGrants grants = take_loop_grants();
  Request request = sample_request(standby.value(), 0);
  fit_pictures(request, session.value());
  const auto n_ticks =
      std::max<int64_t>(1, static_cast<int64_t>(args.real("--seconds") * wish.hz + 0.5));
  auto loop = run_tandem(
      session.value(), wish.hz, n_ticks, [&](double) { return request; },
      [&](int64_t tick, const TandemTick& seen) {
        context.out.progress(fmt::format("tick {} of {}  {}  {:.2f} ms", tick + 1, n_ticks,
                                         seen.leader() == 2 ? "lead" : "standby", seen.latency_ms),
                             tick + 1 == n_ticks);
        return g_stop == 0;
      });
  if (!loop) return context.fail(loop.error());
  Report report = tandem_report(loop.value(), session.value());
  report["grants"] = grants_report(grants);
  print_summary(report, context.out);
  const bool never = loop.value().counters[OUTRIDER_TANDEM_BY_LEAD] == 0;
  const std::string& why = loop.value().lead_error;
  if (never)
    context.out.say(Level::kWarn, "the lead never led ({}){}{}", loop.value().phase,
                    why.empty() ? "" : ": ", why);
  const bool failed = report["missed"].get<int64_t>() > 0 || (never && !why.empty());
  context.out.document(std::move(report));
  return failed ? kDeadline : kGood;
}

}  // namespace

const Command kJoin = {
    "join",
    "Run a loop with a standby here and a lead at the end of a cable.",
    "The device side of a tandem: sample inputs at a fixed rate; the lead answers while it does so "
    "in time, the standby every other tick. Prints who led, when and why it changed. Exit status "
    "3 when a tick was missed, or when the lead could not be reached at all.",
    "outrider join tcp://192.168.60.2:5610 --standby small.json --seconds 60",
    kPositionals,
    kFlags,
    run};

}  // namespace outrider::cli
