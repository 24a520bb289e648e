// outrider loop: a runtime at a fixed rate, between a robot's observations and its actions.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "base/clock.h"
#include "base/output_file.h"
#include "cli/commands.h"
#include "cli/config.h"
#include "cli/flags.h"
#include "cli/idle.h"
#include "cli/loop_report.h"
#include "cli/loop_setup.h"
#include "cli/outputs.h"
#include "cli/report/loop_page.h"
#include "cli/tandem_loop.h"
#include "loop/runner.h"
#include "loop/stream.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    {"--hz", "N", "50", "Ticks a second.", parse_rate},
    {"--seconds", "N", "10", "How long the loop runs; 0: until it is stopped.", parse_seconds},
    {"--input", "WHERE", "sample",
     "Where observations come from: shm:NAME (a segment this command makes), stdin (frames), "
     "sample (one "
     "made-up observation, to measure with).",
     parse_text},
    {"--actions", "FILE", "-",
     "With --input stdin: where the action frames go, as they are made (what the file held goes); "
     "-: standard output (with --json they are only counted).",
     parse_text},
    {"--every-frame", nullptr, nullptr,
     "With --input stdin: each frame waits for a tick of its own, instead of the newest replacing "
     "the others.",
     nullptr},
    {"--deadline-ms", "N", nullptr,
     "An answer later than this after its tick was due is not sent; 92 % of the period if not "
     "given.",
     parse_ms},
    {"--max-age-ms", "N", nullptr,
     "An older observation counts as none; three periods if not given.", parse_ms},
    {"--safe", "ACTION", "zero",
     "The action when there is no answer in time: zero, numbers with commas (one stands for all), "
     "or FILE.npy.",
     parse_text},
    {"--hold", "N", "0",
     "Repeat the last answer for so many ticks in a row before the safe action.", parse_ticks},
    {"--rt-priority", "N", "50",
     "SCHED_FIFO priority, where the system allows it; 0: not asked for.", parse_priority},
    {"--cpu", "N", nullptr, "Processor the loop stays on.", parse_cpu},
    {"--no-lock", nullptr, nullptr, "Do not lock memory.", nullptr},
    {"--engaged", "WHO", nullptr,
     "For a tandem, whose lead takes over only while nobody acts on the output: yes (somebody "
     "does), no (nobody does), observed (observations say it, as with --port engaged). no with "
     "--input sample, else yes.",
     parse_text},
    {"--port", "NAME", nullptr, "Optional input that observations carry too.", parse_text, true},
    {"--output", "NAME", nullptr,
     "Output that actions carry; the first is the one --safe speaks of.", parse_text, true},
    {"--size", "NAME=N", nullptr, "Size of the open dimension of a port.", parse_size, true},
    kPromptFlag,
    kThreadsFlag,
    kSetFlag,
    kProviderFlag,
    kPrintConfigFlag,
    kJsonFlag,
    kHtmlFlag,
    {"--samples", "FILE.csv", nullptr, "Also write wake-up and latency of the newest 65536 ticks.",
     parse_text},
};
constexpr Positional kPositionals[] = {kConfigOrFile};

std::atomic<bool> g_stop{false};
extern "C" void stop_loop(int signal) {
  g_stop.store(true);
  std::signal(signal, SIG_DFL);  // a second one ends a loop whose runtime does not return
}

struct Place {
  enum Kind : uint8_t { kSample, kStream, kShared } kind = kSample;
  std::string name;
};

Result<Place> place_of(const std::string& text) {
  if (text == "sample") return Place{};
  if (text == "stdin") return Place{Place::kStream, {}};
  if (text.starts_with("shm:") && text.size() > 4) return Place{Place::kShared, text.substr(4)};
  return make_error(Code::kInvalid, "--input is \"%.80s\", allowed are shm:NAME, stdin, sample",
                    text.c_str());
}

// Where action frames of a stream go; nobody may be there.
struct ActionFile {
  int fd = -1;
  bool ours = false;
  ~ActionFile() {
    if (ours && fd >= 0) ::close(fd);
  }
};
Result<void> open_actions(Context& context, ActionFile& file) {
  const std::string& path = context.args.text("--actions");
  if (path != "-") {
    auto opened = open_in_place(path, InPlace::kStream, 0644);
    if (!opened) return make_error(opened.code(), "cannot open --actions: %s", opened.error().text);
    file.fd = opened.value();
    file.ours = true;
    struct stat info {};
    if (::fstat(file.fd, &info) == 0 && S_ISREG(info.st_mode) && ::ftruncate(file.fd, 0) != 0)
      return make_error(Code::kNotFound, "cannot write --actions %.200s: %s", path.c_str(),
                        std::strerror(errno));
  } else if (!context.out.json()) {
    file.fd = 1;
  } else {
    context.out.say(
        Level::kInfo,
        "standard output carries the document; actions are counted (--actions FILE writes them)");
  }
  return {};
}

loop::PayloadWish payload_wish(const Args& args, const Session& session) {
  loop::PayloadWish wish;
  wish.inputs = args.all("--port");
  wish.outputs = args.all("--output");
  for (const std::string& word : args.all("--size")) {
    int64_t n = 0;
    const size_t at = word.find('=');
    read_integer(std::string_view(word).substr(at + 1), n);
    wish.sizes[word.substr(0, at)] = n;
  }
  // PI0 takes at most as many state values as an action has.
  const auto *state = session.find("state"), *actions = session.find("actions");
  if (state != nullptr && actions != nullptr && state->rank == 1 && state->shape[0] <= 0 &&
      actions->rank == 2 && actions->shape[1] > 0 && !wish.sizes.contains("state"))
    wish.sizes["state"] = actions->shape[1];
  return wish;
}

Result<loop::Options> options_of(const Args& args, const Place& place,
                                 const loop::Payload& outputs) {
  loop::Options o;
  o.hz = args.real("--hz");
  const double period_ns = 1e9 / o.hz;
  if (args.real("--seconds") > 0)
    o.n_ticks = std::max<int64_t>(1, static_cast<int64_t>(args.real("--seconds") * o.hz + 0.5));
  if (args.given("--deadline-ms")) {
    o.deadline_ns = static_cast<int64_t>(args.real("--deadline-ms") * 1e6);
    if (static_cast<double>(o.deadline_ns) > period_ns)
      return make_error(Code::kInvalid,
                        "--deadline-ms is %g, allowed is at most the period of %g ms at %g Hz",
                        args.real("--deadline-ms"), period_ns * 1e-6, o.hz);
  }
  if (place.kind != Place::kSample)
    o.max_age_ns = static_cast<int64_t>(args.given("--max-age-ms") ? args.real("--max-age-ms") * 1e6
                                                                   : 3 * period_ns);
  o.n_hold = args.integer("--hold");
  auto safe = safe_action(args.text("--safe"), outputs);
  if (!safe) return safe.error();
  o.safe = std::move(safe.value());
  o.priority = static_cast<int>(args.integer("--rt-priority"));
  o.cpu = args.given("--cpu") ? static_cast<int>(args.integer("--cpu")) : -1;
  o.lock_pages = !args.given("--no-lock");
  o.text = args.text("--prompt");
  if (o.text.empty() && place.kind == Place::kSample) o.text = "pick up the cup";
  return o;
}

Result<void> check_use(const Args& args, const Place& place) {
  for (const char* flag : {"--actions", "--every-frame"})
    if (args.given(flag) && place.kind != Place::kStream)
      return make_error(Code::kInvalid, "%s is for --input stdin", flag);
  if (args.given("--max-age-ms") && place.kind == Place::kSample)
    return make_error(Code::kInvalid,
                      "--max-age-ms is for observations that come; --input is sample");
  if (args.given("--every-frame") && args.given("--max-age-ms"))
    return make_error(
        Code::kInvalid,
        "--max-age-ms and --every-frame: a frame that waits for its tick is as old as its wait");
  return {};
}

void say_grants(const loop::Grants& grants, Output& out) {
  for (const loop::Grant* grant : {&grants.priority, &grants.memory, &grants.cpu})
    if (grant->asked && !grant->given)
      out.say(Level::kWarn, "not granted, the loop runs without: {}", grant->why);
}

Result<void> write_files(Context& context, const Report& report, const loop::Runner& runner,
                         const loop::Payload& inputs, const loop::Payload& outputs) {
  const auto write = [&](const char* flag, const std::string& text) -> Result<void> {
    OUTRIDER_TRY(write_output(context.args.text(flag), text));
    context.out.say(Level::kInfo, "wrote {}", context.args.text(flag));
    return {};
  };
  if (context.args.given("--report"))
    OUTRIDER_TRY(write("--report", loop_page(report, runner, inputs, outputs)));
  if (context.args.given("--samples")) OUTRIDER_TRY(write("--samples", loop_samples_csv(runner)));
  return {};
}

// The loop between its segment and its streams. Errors: of the stream of observations.
struct Ran {
  LoopFacts facts;
  Result<void> input;
  int actions_error = 0;  // errno; EPIPE: the reader is gone
};
Ran run_between(Context& context, loop::Runner& runner, const Place& place, loop::Segment& segment,
                int actions_fd) {
  Ran ran;
  const MonotonicClock clock;
  std::optional<loop::StreamIn> in;
  std::optional<loop::StreamOut> out;
  if (place.kind == Place::kStream) {
    in.emplace(0, segment.observations(),
               context.args.given("--every-frame") ? &runner.taken() : nullptr, g_stop);
    if (actions_fd >= 0) out.emplace(actions_fd, segment.actions(), g_stop);
  }
  ran.facts.grants = runner.start();
  say_grants(ran.facts.grants, context.out);
  const int64_t begin_ns = clock.now_ns();
  runner.run(g_stop);
  ran.facts.seconds = static_cast<double>(clock.now_ns() - begin_ns) * 1e-9;
  runner.finish();
  if (out) {
    out->drain();
    ran.actions_error = out->error_number();
    ran.facts.n_frames_out = out->n_frames();
    ran.facts.n_frames_lost = out->n_lost();
  }
  if (in) {
    in->stop();
    ran.input = in->outcome();
    ran.facts.n_frames_in = in->n_frames();
  }
  return ran;
}

int run(Context& context) {
  const Args& args = context.args;
  const auto place = place_of(args.text("--input"));
  if (!place) return context.fail(place.error());
  if (auto fine = check_use(args, place.value()); !fine) return context.fail(fine.error());
  auto resolved = resolve(args.positional(0), wish_of(args, kLoop));
  if (!resolved) return context.fail(resolved.error());
  if (args.given("--print-config")) {
    print_settings(resolved.value(), context.out);
    context.out.document(settings_report(resolved.value()));
    return kGood;
  }
  static constexpr const char* kOutputs[] = {"--report", "--samples", "--actions"};
  std::vector<std::string> files = input_files(args.positional(0), resolved.value());
  files.push_back(args.text("--safe"));
  std::vector<WantedOutput> wanted = wanted_outputs(args, kOutputs);
  std::erase_if(wanted, [](const WantedOutput& one) { return one.path == "-"; });
  if (auto fine = check_outputs(wanted, files, context.out); !fine)
    return context.fail(fine.error());
  auto session = open_session(resolved.value());
  if (!session) return context.fail(session.error());
  if (session.value().find("prompt") == nullptr)
    if (auto good = refuse_idle(args, {"--prompt"}, "this runtime has no input prompt"); !good)
      return context.fail(good.error());
  outrider_session* handle = session.value().handle();
  loop::PayloadWish wish = payload_wish(args, session.value());
  const auto engaged = take_engaged(args.given("--engaged") ? args.text("--engaged") : "",
                                    place.value().kind == Place::kSample, session.value(), wish);
  if (!engaged) return context.fail(engaged.error());
  auto inputs = loop::input_payload(handle, wish);
  if (!inputs) return context.fail(inputs.error());
  auto outputs = loop::output_payload(handle, wish);
  if (!outputs) return context.fail(outputs.error());
  auto options = options_of(args, place.value(), outputs.value());
  if (!options) return context.fail(options.error());
  options.value().engaged = engaged.value();
  const double period_ns = 1e9 / options.value().hz;
  const int64_t deadline_ns = options.value().deadline_ns > 0
                                  ? options.value().deadline_ns
                                  : static_cast<int64_t>(period_ns * 0.92);
  auto segment = loop::Segment::make(place.value().name, inputs.value(), outputs.value(),
                                     {static_cast<int64_t>(period_ns), deadline_ns});
  if (!segment) return context.fail(segment.error());
  const int priority = options.value().priority;
  auto runner =
      loop::Runner::make(handle, inputs.value(), outputs.value(), segment.value(), options.value());
  if (!runner) return context.fail(runner.error());
  ActionFile actions;
  if (place.value().kind == Place::kStream)
    if (auto opened = open_actions(context, actions); !opened) return context.fail(opened.error());
  context.out.say(Level::kInfo, "observations {}", payload_text(inputs.value()));
  context.out.say(Level::kInfo, "actions {}", payload_text(outputs.value()));
  if (place.value().kind == Place::kShared)
    context.out.say(Level::kInfo, "ready: shared memory /{}, {} bytes", place.value().name,
                    segment.value().bytes());
  if (place.value().kind == Place::kSample)
    outrider_loop_send(&segment.value().observations(), sample_observation(inputs.value()).data(),
                       0, 0);

  g_stop.store(false);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, stop_loop);
  Ran ran = run_between(context, *runner.value(), place.value(), segment.value(), actions.fd);
  ran.facts.hz = options.value().hz;
  ran.facts.input = args.text("--input");
  ran.facts.priority = priority;
  ran.facts.deadline_ns = deadline_ns;
  Report report = loop_report(*runner.value(), ran.facts);
  if (Report tandem = tandem_state(session.value()); !tandem.is_null())
    report["tandem"] = std::move(tandem);
  if (actions.fd == 1)  // frames went there
    context.out.say(Level::kInfo, "{} ticks, {} answered, {} overruns",
                    report["ticks"].get<int64_t>(), report["answered"].get<int64_t>(),
                    report["overruns"].get<int64_t>());
  else
    context.out.lines(loop_text(report));
  if (auto wrote = write_files(context, report, *runner.value(), inputs.value(), outputs.value());
      !wrote)
    return context.fail(wrote.error());
  if (!ran.input) return context.fail(ran.input.error());
  if (ran.actions_error == EPIPE)
    return context.fail(make_error(Code::kFailed, "loop: the reader of the actions is gone"),
                        kDeadline);
  if (ran.actions_error != 0)
    return context.fail(
        make_error(Code::kFailed, "cannot write the actions to %.200s: %s",
                   args.text("--actions").c_str(), std::strerror(ran.actions_error)),
        kUsage);
  if (const loop::Totals& t = runner.value()->totals(); t.first_failure_tick >= 0)
    context.out.say(Level::kError, "tick {} failed: {} (code {})", t.first_failure_tick,
                    runner.value()->first_failure(), t.first_failure_code);
  context.out.document(std::move(report));
  return loop_status(runner.value()->totals());
}

}  // namespace

const Command kLoop = {"loop",
                       "Tick a runtime at a fixed rate between a robot's observations and actions.",
                       "Every tick is due at its own time, a late one moves none after it. The "
                       "newest observation goes in; one action "
                       "comes out for every tick: the model's, or, when it is late, failed or has "
                       "no fresh observation, the last one again "
                       "(--hold) and then the safe one (--safe). Priority and locked memory are "
                       "taken where the system allows it, and it is "
                       "said when not. The layout of shared memory and of frames is in "
                       "docs/reference/loop.md. Exit status 3 when ticks "
                       "were late, skipped or without a fresh observation, 1 when a tick failed or "
                       "an observation was refused.",
                       "outrider loop policy.onnx --hz 1000 --seconds 60 --input shm:arm",
                       kPositionals,
                       kFlags,
                       run};

}  // namespace outrider::cli
