// outrider demo: no arguments, no downloads. A robot loop at 20 Hz over a drawn scene, a small
// model on board, a big one in a process of its own behind a cable that is cut three times.
#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/clock.h"
#include "base/output_file.h"
#include "cli/commands.h"
#include "cli/demo.h"
#include "cli/demo_cable.h"
#include "cli/demo_host.h"
#include "cli/flags.h"
#include "cli/machine.h"
#include "cli/make_model.h"
#include "cli/outputs.h"
#include "cli/report/demo_page.h"
#include "cli/runtime_facts.h"
#include "cli/scene.h"
#include "cli/tandem_loop.h"
#include "cli/temp_dir.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    {"--seconds", "N", "20", "How long the robot loop runs.", parse_duration},
    {"--out", "DIR", ".", "Folder for outrider-demo.html.", parse_text},
    kJsonFlag,
};
constexpr double kRateHz = 20;
constexpr int kPictureSide = 224;
constexpr int kSnapshots = 10;

volatile std::sig_atomic_t g_stop = 0;
void on_interrupt(int) {
  g_stop = 1;
}

Request picture(const Scene& scene, double time_s) {
  return {{scene.draw(Camera::kFront, time_s), scene.draw(Camera::kWrist, time_s)},
          {},
          "pick up the red cube",
          scene.state(time_s)};
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// The cable's fate: cut three times for a twelfth of the run each, when it is long enough to
// recover.
class Cuts {
 public:
  Cuts(DemoCable* cable, double seconds) : cable_(cable), length_s_(std::min(seconds / 12, 1.5)) {
    using Mode = DemoCable::Mode;
    if (cable != nullptr && seconds >= 6)
      plan_ = {{seconds * 0.25, Mode::kSilent, "silent"},
               {seconds * 0.50, Mode::kReset, "reset"},
               {seconds * 0.75, Mode::kSlow, "slow"}};
  }
  // [cold] Before the tick at this time.
  void at(double time_s, std::vector<DemoCut>& done) {
    if (open_ && time_s >= done.back().to_s) {
      cable_->set(DemoCable::Mode::kWhole);
      open_ = false;
    }
    if (!open_ && next_ < plan_.size() && time_s >= plan_[next_].at_s) {
      cable_->set(plan_[next_].mode);
      done.push_back({time_s, time_s + length_s_, plan_[next_].what});
      ++next_;
      open_ = true;
    }
  }
  const char* now() const { return open_ ? plan_[next_ - 1].what : "whole"; }

 private:
  struct Row {
    double at_s;
    DemoCable::Mode mode;
    const char* what;
  };
  DemoCable* cable_;
  double length_s_;
  std::vector<Row> plan_;
  size_t next_ = 0;
  bool open_ = false;
};

void note_leader(DemoRun& demo, DemoTick& tick, const outrider_tandem_v1& table) {
  int64_t origin[OUTRIDER_ORIGIN_COUNT];
  table.read_origin(table.self, origin);
  tick.leader = origin[OUTRIDER_ORIGIN_LEADER];
  tick.held = origin[OUTRIDER_ORIGIN_HELD];
  tick.epoch = origin[OUTRIDER_ORIGIN_EPOCH];
  tick.reason = origin[OUTRIDER_ORIGIN_REASON];
  if (!demo.ticks.empty() && demo.ticks.back().epoch == tick.epoch) return;
  const char* reason = table.reason_name(tick.reason);
  demo.changes.push_back({{"time_s", tick.time_s},
                          {"leader", tick.leader == 2 ? "lead" : "standby"},
                          {"reason", reason != nullptr ? reason : "unknown"}});
}

// The loop of a robot: every tick is due at its own time. The picture for a tick is drawn before it
// is due, as a camera would; latency runs from the due time to the action chunk in hand.
Result<DemoRun> run_loop(Session& session, const Scene& scene, int64_t n_ticks, Cuts& cuts,
                         Output& out) {
  const auto* table = static_cast<const outrider_tandem_v1*>(
      outrider_extension(session.handle(), OUTRIDER_EXT_TANDEM, 1));
  if (table == nullptr) return make_error(Code::kFailed, "demo: the runtime is no tandem");
  DemoRun demo;
  demo.stages = session.stages();
  demo.rate_hz = kRateHz;
  const uint8_t nobody = 0;  // acts on the output: the lead may take over at any time
  OUTRIDER_TRY(session.set_input("engaged", &nobody, 1));
  auto warm = timed_tick(session, picture(scene, 0), "actions");
  if (!warm) return warm.error();
  demo.first_ms = warm.value().times.total_ms;
  const MonotonicClock clock;
  const auto period_ns = static_cast<int64_t>(1e9 / kRateHz);
  const int64_t begin_ns = clock.now_ns() + period_ns / 2;
  for (int64_t i = 0; i < n_ticks && g_stop == 0; ++i) {
    const double time_s = static_cast<double>(i) / kRateHz;
    const Request request = picture(scene, time_s);
    const int64_t due_ns = begin_ns + i * period_ns;
    while (!sleep_until_ns(due_ns) && g_stop == 0) {
    }
    cuts.at(time_s, demo.cuts);
    const int64_t start_ns = clock.now_ns();
    OUTRIDER_TRY(session.set_input("engaged", &nobody, 1));
    auto ticked = timed_tick(session, request, "actions");
    if (!ticked) return ticked.error();
    const int64_t end_ns = clock.now_ns();
    DemoTick tick{time_s, static_cast<double>(start_ns - due_ns) * 1e-6,
                  static_cast<double>(end_ns - due_ns) * 1e-6, ticked.value().times};
    note_leader(demo, tick, *table);
    demo.n_missed += tick.latency_ms > 1e3 / kRateHz;
    demo.ticks.push_back(std::move(tick));
    if (i % std::max<int64_t>(1, n_ticks / kSnapshots) == 0 && demo.snapshots.size() < kSnapshots) {
      demo.snapshots.push_back({time_s, request.images, floats_of(ticked.value().output)});
    }
    const DemoTick& last = demo.ticks.back();
    out.progress(fmt::format("tick {} of {}  cable {:<6}  {:<7}{}  {:.2f} ms  missed {}", i + 1,
                             n_ticks, cuts.now(), last.leader == 2 ? "lead" : "standby",
                             last.held != 0 ? " held" : "", last.latency_ms, demo.n_missed),
                 i + 1 == n_ticks);
  }
  demo.lead_error = table->lead_error(table->self);
  return demo;
}

void print_table(const Report& report, Output& out) {
  out.text("{:<12}{:>9} {:>9} {:>9} {:>9}\n", "ms", "p50", "p95", "p99", "max");
  auto row = [&](const std::string& name, const Report& p) {
    auto cell = [&](const char* key) {
      return p[key].is_number() ? fmt::format("{:.2f}", p[key].get<double>()) : std::string("-");
    };
    out.text("{:<12}{:>9} {:>9} {:>9} {:>9}\n", name, cell("p50"), cell("p95"), cell("p99"),
             cell("max"));
  };
  for (const Report& stage : report["stages"]) row(stage["name"].get<std::string>(), stage["ms"]);
  row("latency", report["latency_ms"]);
  out.text("\n");
  for (const Report& cut : report["cuts"])
    out.text("{:7.2f} s  cable {} for {:.1f} s\n", cut["from_s"].get<double>(),
             cut["what"].get<std::string>(),
             cut["to_s"].get<double>() - cut["from_s"].get<double>());
  for (const Report& change : report["changes"])
    out.text("{:7.2f} s  {} leads ({})\n", change["time_s"].get<double>(),
             change["leader"].get<std::string>(), change["reason"].get<std::string>());
  const Report& leader = report["leader_ms"];
  out.text("\nstandby {:.1f} s, lead {:.1f} s, {} hand-overs, {} ticks held\n",
           leader["standby"].get<double>() * 1e-3, leader["lead"].get<double>() * 1e-3,
           report["handovers"].get<size_t>(), report["held"].get<size_t>());
  out.text("{} ticks at {:g} Hz, {} missed\n", report["ticks"].get<size_t>(), kRateHz,
           report["missed"].get<size_t>());
}

// Both models, the host process and the cable.
struct World {
  std::unique_ptr<DemoHost> host;
  std::unique_ptr<DemoCable> cable;
  TandemWish wish;
  std::string trouble;  // why there is no host; the standby then has every tick
};

Result<void> start_host(World& world, const std::string& model_path) {
  auto host = DemoHost::start(model_path);
  if (!host) return host.error();
  world.host = std::make_unique<DemoHost>(std::move(host.value()));
  auto cable = DemoCable::start(world.host->port());
  if (!cable) return cable.error();
  world.cable = std::move(cable.value());
  return {};
}

Result<World> make_world(const std::string& folder, Output& out) {
  World world;
  auto small = make_model({true, folder + "/small.gguf", "tiny", "f32", 1});
  if (!small) return small.error();
  auto big = make_model({true, folder + "/big.gguf", "tiny", "f32", 2});
  if (!big) return big.error();
  Wish wish;
  wish.n_threads = 1;  // a tiny model gains nothing from more
  wish.image_size = {kPictureSide, kPictureSide};
  auto standby = resolve(small.value().policy_path, wish);
  if (!standby) return standby.error();
  auto lead = resolve(big.value().policy_path, wish);
  if (!lead) return lead.error();
  const std::string lead_path = folder + "/big.json";
  OUTRIDER_TRY(write_output(lead_path, lead.value().json));
  if (auto started = start_host(world, lead_path); !started) {
    world.trouble = started.error().text;
    out.say(Level::kWarn, "{}; the standby has every tick", world.trouble);
  }
  Report remote;
  remote["model_family"] = "remote";
  remote["endpoint"] =
      fmt::format("tcp://127.0.0.1:{}", world.cable != nullptr ? world.cable->port() : 1);
  remote["model"] = "default";
  remote["connect_ms"] = 2000;
  world.wish = {standby.value().json,
                standby.value().provider_path,
                to_json_text(remote, -1),
                "",
                kRateHz,
                // Held 6 ms before the next tick, not 4: as much is left for a late wake-up.
                {{"retry_quick_ms", "300"}, {"hold_ms", "44"}}};
  return world;
}

int run(Context& context) {
  const std::string folder = context.args.text("--out");
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    return context.fail(make_error(Code::kInvalid, "--out %s: no such folder", folder.c_str()));
  const std::string page =
      (std::filesystem::path(folder) / "outrider-demo.html").lexically_normal().string();
  const WantedOutput wanted[] = {{"--out", page}};
  if (auto fine = check_outputs(wanted, {}, context.out); !fine) return context.fail(fine.error());
  // The temporary folder goes on every way out, so these end the loop and not the process.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(signal, on_interrupt);
  auto temporary = TempDir::make();
  if (!temporary) return context.fail(temporary.error());
  auto world = make_world(temporary.value().path(), context.out);
  if (!world) return context.fail(world.error());
  auto session = open_tandem(temporary.value().path(), world.value().wish);
  if (!session) return context.fail(session.error());
  context.out.say(Level::kInfo,
                  "two tiny PI0.5 with random weights, two cameras of {0}x{0}, {1:g} Hz: one here, "
                  "one behind a cable",
                  kPictureSide, kRateHz);

  const LoopGrants grants = take_loop_grants();
  const Scene scene(kPictureSide, kPictureSide);
  const auto n_ticks =
      std::max<int64_t>(1, static_cast<int64_t>(context.args.real("--seconds") * kRateHz + 0.5));
  Cuts cuts(world.value().cable.get(), context.args.real("--seconds"));
  auto demo = run_loop(session.value(), scene, n_ticks, cuts, context.out);
  if (!demo) return context.fail(demo.error());
  demo.value().host = world.value().trouble;
  const frt_runtime_port_desc* actions = session.value().find("actions");
  if (actions->rank == 2) demo.value().action_dim = actions->shape[1];
  Report report = demo_report(demo.value());
  report["grants"] = grants_report(grants);
  report["open_ms"] = static_cast<double>(session.value().open_ns()) * 1e-6;
  report["machine"] = machine_report(this_machine());
  auto html = demo_page(demo.value(), report, scene);
  if (!html) return context.fail(html.error());
  if (auto wrote = write_output(page, html.value()); !wrote) return context.fail(wrote.error());
  report["page"] = page;
  print_table(report, context.out);
  context.out.say(Level::kInfo, "wrote {}", page);
  context.out.document(std::move(report));
  return kGood;
}

}  // namespace

const Command kDemo = {"demo",
                       "Run a robot loop at 20 Hz with a small model here and a big one behind a "
                       "cable; no files needed.",
                       "Makes two tiny PI0.5 with random weights in a temporary folder (removed "
                       "afterwards), serves one in a process of its own over loopback, and ticks "
                       "a tandem of both over a drawn scene with two cameras. A run of 6 s or "
                       "more cuts the cable three times: silent, reset, slow. Prints who led and "
                       "why it changed, the latency of every part, and writes a page that shows "
                       "it. Ctrl-C ends it early.",
                       "outrider demo --seconds 5",
                       {},
                       kFlags,
                       run};

}  // namespace outrider::cli
