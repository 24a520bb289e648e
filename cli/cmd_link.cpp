// outrider link check: measures a link. outrider top: shows a host at work.
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "base/clock.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/idle.h"
#include "cli/link_host.h"
#include "cli/link_store.h"
#include "cli/stats.h"
#include "link/client/probe.h"

namespace outrider::cli {
namespace {

const MonotonicClock kClock;
constexpr int64_t kConnectNs = 5'000'000'000, kStatusNs = 2'000'000'000;

Result<std::unique_ptr<link::Connection>> connect(const std::string& text,
                                                  const std::string& key_file) {
  auto dialer = make_dialer(text, key_file);
  if (!dialer) return dialer.error();
  link::LinkError why;
  auto connection = link::Connection::make(
      *dialer.value(), kClock, link_name(link::wire::kFeatures), kClock.now_ns() + kConnectNs, why);
  if (connection == nullptr) return why.error;
  return connection;
}

// ---- link check
// ----------------------------------------------------------------------------------

constexpr Flag kKeyFileFlag = {"--key-file", "F", nullptr, "Shared key of the host.", parse_text};

constexpr Flag kCheckFlags[] = {
    {"--pings", "N", "200", "check: round trips to measure.", parse_count},
    {"--mmproj", "FILE", nullptr,
     "push: vision file of a PI0 or PI0.5 policy, instead of the one beside it.", parse_text},
    {"--name", "NAME", nullptr, "push: a label for people; the file's name if not given.",
     parse_text},
    {"--sha256", "HEX", nullptr,
     "push: the digest that the model must have; a file with another one is refused.", parse_text},
    {"--reason", "TEXT", "the device shuts down", "power-off: one line for people.", parse_text},
    {"--timeout", "SECONDS", "60", "push: give up when nothing moves for so long.", parse_duration},
    kKeyFileFlag,
    kJsonFlag,
};
constexpr Positional kCheckPositionals[] = {
    {"check|push|models|remove|power-off",
     "Measure the link; bring a model file to the host, list what it keeps, remove a file; ask the "
     "host to power off."},
    {"ENDPOINT", "tcp://HOST:PORT, usb:SERIAL."},
    {"[FILE|SHA256]", "push: the model file. remove: the digest that models and push print."}};

Report check_report(const link::LinkMeasurement& m, const std::vector<std::string>& words,
                    bool good) {
  return {{"host", shown(m.host)},
          {"peer", m.peer},
          {"kind", m.kind},
          {"wire_version", m.version},
          {"round_trip_us", percentiles_report(percentiles(m.trip_us))},
          {"sent", m.sent},
          {"lost", m.lost},
          {"corrupted", m.corrupted},
          {"resyncs", m.resyncs},
          {"to_host_mb_s", m.forth_mb_s},
          {"to_device_mb_s", m.back_mb_s},
          {"clock_offset_ns", m.clock_known ? Report(m.offset_ns) : Report(nullptr)},
          {"clock_bound_ns", m.clock_known ? Report(m.bound_ns) : Report(nullptr)},
          {"good", good},
          {"verdict", words}};
}

// Exit status 0: the host said that it will.
int run_power_off(Context& context) {
  auto dialer = make_dialer(context.args.positional(1), context.args.text("--key-file"));
  if (!dialer) return context.fail(dialer.error());
  link::LinkError why;
  const int64_t deadline_ns = kClock.now_ns() + kConnectNs;
  auto connection = link::Connection::make(
      *dialer.value(), kClock, link_name(link::wire::kFeatures | link::wire::kFeaturePowerOff),
      deadline_ns, why);
  if (connection == nullptr) return context.fail(why.error, kDeadline);
  if (!connection->has(link::wire::kFeaturePowerOff))
    return context.fail(make_error(Code::kUnsupported,
                                   "link power-off: the host at %s does not power off when it is "
                                   "asked (outrider serve --power-off-file)",
                                   connection->channel().facts().peer),
                        kBad);
  link::wire::PowerOff wish;
  wish.reason.assign(context.args.text("--reason").substr(0, 200));
  const uint64_t id = connection->next_request();
  link::wire::Incoming in;
  link::wire::Answer answer;
  connection->channel().send(wish, {id, 0, 0, link::wire::kWantAnswer}, {}, deadline_ns);
  if (connection->wait(id, in, nullptr, nullptr, deadline_ns) != link::wire::Got::kMessage ||
      in.header.type != link::wire::type_of<link::wire::Answer>() ||
      !link::wire::decode(in.body, answer))
    return context.fail(make_error(Code::kNotReady, "link power-off: the host gave no answer"),
                        kDeadline);
  if (answer.code != 0)
    return context.fail(make_error(static_cast<Code>(answer.code), "link power-off: %s",
                                   shown(answer.text.view()).c_str()),
                        kBad);
  context.out.text("{} powers off\n", shown(connection->host().name.view()));
  context.out.document({{"powers_off", shown(connection->host().name.view())}});
  return kGood;
}

Result<void> check_use(const Args& args) {
  const std::string& word = args.positional(0);
  if (word != "check") OUTRIDER_TRY(refuse_idle(args, {"--pings"}, "it goes with link check"));
  if (word != "push")
    OUTRIDER_TRY(refuse_idle(args, {"--mmproj", "--name", "--sha256", "--timeout"},
                             "it goes with link push"));
  if (word != "power-off")
    OUTRIDER_TRY(refuse_idle(args, {"--reason"}, "it goes with link power-off"));
  return {};
}

int run_check(Context& context) {
  const std::string& word = context.args.positional(0);
  if (auto good = check_use(context.args); !good) return context.fail(good.error());
  if (is_store_verb(word)) return run_store_verb(context);
  if (word == "power-off" && context.args.positional(2).empty()) return run_power_off(context);
  if (word != "check" || !context.args.positional(2).empty())
    return context.fail(
        make_error(Code::kInvalid,
                   "link: \"%.80s\" is unknown; there are check, push, models, remove, "
                   "power-off",
                   (word != "check" ? word : context.args.positional(2)).c_str()));
  auto connection = connect(context.args.positional(1), context.args.text("--key-file"));
  if (!connection) return context.fail(connection.error());
  link::ProbeOptions options;
  options.n_pings = static_cast<int>(context.args.integer("--pings"));
  link::LinkMeasurement m;
  if (auto measured = link::measure_link(*connection.value(), kClock, options, m); !measured)
    return context.fail(measured.error());
  bool good = false;
  const auto words = link::judge_link(m, good);
  const Percentiles p = percentiles(m.trip_us);
  Output& out = context.out;
  out.text("{} at {} ({}), wire version {}\n", m.host, m.peer, m.kind, m.version);
  out.text("round trip us   p50 {:.1f}  p95 {:.1f}  {}max {:.1f}  ({} of {} answered)\n", p.p50,
           p.p95, p.p99 ? fmt::format("p99 {:.1f}  ", *p.p99) : std::string(), p.max,
           m.sent - m.lost, m.sent);
  out.text("throughput MB/s {:.1f} to the host, {:.1f} to the device\n", m.forth_mb_s, m.back_mb_s);
  if (m.clock_known)
    out.text("clocks          the host's is {:.6f} s from ours, known to {:.1f} us\n",
             static_cast<double>(m.offset_ns) / 1e9, static_cast<double>(m.bound_ns) / 1e3);
  for (const std::string& line : words) out.text("{}\n", line);
  out.document(check_report(m, words, good));
  return good ? kGood : kBad;
}

// ---- top
// -----------------------------------------------------------------------------------------

constexpr Flag kTopFlags[] = {
    {"--every", "SECONDS", "1", "Time between two looks.", parse_duration},
    kKeyFileFlag,
    kJsonFlag,
};
constexpr Positional kTopPositionals[] = {{"ENDPOINT", "tcp://HOST:PORT, usb:SERIAL."}};

volatile std::sig_atomic_t g_stop = 0;

int64_t value_of(const link::wire::StatusReply& status, std::string_view name) {
  for (const link::wire::Counter& counter : status.counters.items)
    if (counter.name.view() == name) return counter.value;
  return 0;
}

Report top_report(const link::wire::StatusReply& status, double trip_us) {
  Report counters = Report::object();
  for (const link::wire::Counter& counter : status.counters.items)
    counters[shown(counter.name.view())] = counter.value;
  auto host = Json::parse(status.json.view());
  return {{"counters", counters},
          {"round_trip_us", trip_us},
          {"host", host ? report_of(host.value()) : Report(nullptr)}};
}

// One word of what the host says, fit for a terminal whatever it is.
std::string text_member(const Report& object, const char* key, size_t max_bytes = 40) {
  if (!object.is_object() || !object.contains(key)) return "-";
  const Report& value = object[key];
  return shown(value.is_string() ? value.get<std::string>() : to_json_text(value, -1), max_bytes);
}

// One screen of text: what is served, to whom, how fast.
std::string screen(const Report& now, const link::wire::StatusReply& status, double trip_us,
                   double runs_per_s) {
  const Report& host = now["host"];
  std::string out = fmt::format("{}  up {} ms  round trip {:.0f} us  {:.1f} runs/s\n",
                                text_member(host, "name", 200), text_member(host, "uptime_ms"),
                                trip_us, runs_per_s);
  for (const char* list : {"models", "peers"}) {
    if (!host.is_object() || !host.contains(list)) continue;
    for (const Report& row : host[list]) {
      out += list[0] == 'm' ? "  model " : "  peer  ";
      out += text_member(row, list[0] == 'm' ? "name" : "peer", 60);
      if (list[0] == 'm' && row.contains("instances"))
        for (const Report& instance : row["instances"])
          out += fmt::format("  [{} epoch {} heard {} ms]", text_member(instance, "owner"),
                             text_member(instance, "epoch"), text_member(instance, "heard_ms"));
      else
        out += fmt::format("  {}  {}  in {} B  out {} B", text_member(row, "name"),
                           text_member(row, "model"), text_member(row, "received_bytes"),
                           text_member(row, "sent_bytes"));
      if (const std::string ms = text_member(row, "busy_ms"); ms != "-" && ms != "0")
        out += fmt::format("  running for {} ms", ms);
      out += "\n";
    }
  }
  out += fmt::format(
      "  runs {}  failed {}  late {}  inputs {} ({} replaced)  corrupted {}  slow {}\n",
      value_of(status, "runs"), value_of(status, "failed_runs"), value_of(status, "late_runs"),
      value_of(status, "inputs"), value_of(status, "replaced_inputs"),
      value_of(status, "corrupted"), value_of(status, "slow_peers"));
  return out;
}

int run_top(Context& context) {
  if (context.out.json())
    if (auto good = refuse_idle(context.args, {"--every"}, "--json prints one look"); !good)
      return context.fail(good.error());
  auto connection = connect(context.args.positional(0), context.args.text("--key-file"));
  if (!connection) return context.fail(connection.error());
  Output& out = context.out;
  const bool live = !out.json() && ::isatty(1) == 1;
  const double every_s = context.args.real("--every");
  if (live) std::signal(SIGINT, [](int) { g_stop = 1; });
  int64_t last_runs = -1, last_ns = 0;
  do {
    const int64_t begin = kClock.now_ns();
    auto status = link::ask_status(*connection.value(), begin + kStatusNs);
    if (!status) return context.fail(status.error());
    const int64_t now = kClock.now_ns(), runs = value_of(status.value(), "runs");
    const double trip_us = static_cast<double>(now - begin) / 1e3;
    const double rate = last_runs < 0
                            ? 0
                            : static_cast<double>(runs - last_runs) * 1e9 /
                                  static_cast<double>(std::max<int64_t>(now - last_ns, 1));
    last_runs = runs, last_ns = now;
    const Report report = top_report(status.value(), trip_us);
    if (live) out.raw("\x1b[H\x1b[J");
    out.lines(screen(report, status.value(), trip_us, rate));
    out.document(report);
    if (!live) break;
    out.flush(kGood);
    if (!out.arrived()) return kGood;  // nobody looks; main says what else it was
    const auto whole = static_cast<time_t>(every_s);
    const timespec wait = {whole, static_cast<long>((every_s - static_cast<double>(whole)) * 1e9)};
    ::nanosleep(&wait, nullptr);
  } while (g_stop == 0);
  return kGood;
}

}  // namespace

const Command kLink = {
    "link",
    "Measure the link to a host; bring models there, list and remove them.",
    "check tells round trips, throughput both ways, lost and damaged messages, offset of the two "
    "clocks, and a verdict in words. push goes on where it was cut, whoever cut it, and sends "
    "nothing that the host has; the file is usable there only when all its bytes agree with their "
    "SHA-256. The vision file of a policy is pushed with it. A device then opens it with "
    "\"model\": "
    "\"<sha256>\". remove refuses what is in use. Exit status 1: something is wrong with the link, "
    "or the host refused; 3: there is no link, or nothing moved for --timeout.",
    "outrider link push tcp://127.0.0.1:5610 pi05.gguf",
    kCheckPositionals,
    kCheckFlags,
    run_check};

const Command kTop = {
    "top",
    "Show a link host at work: models, owners, rates.",
    "On a terminal the view is refreshed until Ctrl-C; otherwise, and with --json, one look is "
    "printed.",
    "outrider top tcp://127.0.0.1:5610",
    kTopPositionals,
    kTopFlags,
    run_top};

}  // namespace outrider::cli
