// outrider demo: no arguments, no downloads; a tiny policy at 10 Hz over a drawn scene.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/clock.h"
#include "base/output_file.h"
#include "cli/commands.h"
#include "cli/demo.h"
#include "cli/flags.h"
#include "cli/machine.h"
#include "cli/make_model.h"
#include "cli/outputs.h"
#include "cli/report/demo_page.h"
#include "cli/runtime_facts.h"
#include "cli/scene.h"
#include "cli/temp_dir.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    {"--seconds", "N", "20", "How long the robot loop runs.", parse_duration},
    {"--out", "DIR", ".", "Folder for outrider-demo.html.", parse_text},
    kJsonFlag,
};
constexpr double kRateHz = 10;
constexpr int kPictureSide = 224;
constexpr int kSnapshots = 10;

volatile std::sig_atomic_t g_stop = 0;
void on_interrupt(int) {
  g_stop = 1;
}

void sleep_until_ns(int64_t at_ns) {
  timespec when = {at_ns / 1000000000, at_ns % 1000000000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR &&
         g_stop == 0) {
  }
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

// The loop of a robot: every tick is due at its own time. The picture for a tick is drawn before it
// is due, as a camera would; latency runs from the due time to the action chunk in hand.
Result<DemoRun> run_loop(Session& session, const Scene& scene, int64_t n_ticks, Output& out) {
  DemoRun demo;
  demo.stages = session.stages();
  demo.rate_hz = kRateHz;
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
    sleep_until_ns(due_ns);
    const int64_t start_ns = clock.now_ns();
    auto ticked = timed_tick(session, request, "actions");
    if (!ticked) return ticked.error();
    const int64_t end_ns = clock.now_ns();
    DemoTick tick{time_s, static_cast<double>(start_ns - due_ns) * 1e-6,
                  static_cast<double>(end_ns - due_ns) * 1e-6, ticked.value().times};
    demo.n_missed += tick.latency_ms > 1e3 / kRateHz;
    demo.ticks.push_back(std::move(tick));
    if (i % std::max<int64_t>(1, n_ticks / kSnapshots) == 0 && demo.snapshots.size() < kSnapshots) {
      demo.snapshots.push_back({time_s, request.images, floats_of(ticked.value().output)});
    }
    out.progress(fmt::format("tick {} of {}  latency {:.2f} ms  missed {}", i + 1, n_ticks,
                             demo.ticks.back().latency_ms, demo.n_missed),
                 i + 1 == n_ticks);
  }
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
  out.text("\n{} ticks at {:g} Hz, {} missed\n", report["ticks"].get<size_t>(), kRateHz,
           report["missed"].get<size_t>());
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
  auto model = make_model({true, temporary.value().path() + "/demo.gguf", "tiny", "f32", 1});
  if (!model) return context.fail(model.error());
  Wish wish;
  wish.n_threads =
      1;  // a tiny model gains nothing from more, and a busy machine makes them wait for each other
  wish.image_size = {kPictureSide, kPictureSide};
  auto resolved = resolve(model.value().policy_path, wish);
  if (!resolved) return context.fail(resolved.error());
  auto session = open_session(resolved.value());
  if (!session) return context.fail(session.error());
  context.out.say(Level::kInfo,
                  "a tiny PI0.5 with random weights, two cameras of {0}x{0}, {1:g} Hz",
                  kPictureSide, kRateHz);

  const Scene scene(kPictureSide, kPictureSide);
  const auto n_ticks =
      std::max<int64_t>(1, static_cast<int64_t>(context.args.real("--seconds") * kRateHz + 0.5));
  auto demo = run_loop(session.value(), scene, n_ticks, context.out);
  if (!demo) return context.fail(demo.error());
  const frt_runtime_port_desc* actions = session.value().find("actions");
  if (actions->rank == 2) demo.value().action_dim = actions->shape[1];
  Report report = demo_report(demo.value());
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
                       "Run a tiny robot policy at 10 Hz on this machine; no files needed.",
                       "Makes a tiny PI0.5 with random weights in a temporary folder (removed "
                       "afterwards), ticks it over a drawn scene with "
                       "two cameras, prints the latency of every stage and writes a page that "
                       "shows it. Ctrl-C ends it early.",
                       "outrider demo --seconds 5",
                       {},
                       kFlags,
                       run};

}  // namespace outrider::cli
