#include "cli/loop_report.h"

#include "cli/machine.h"

namespace outrider::cli {
namespace {

double us(int64_t ns) {
  return static_cast<double>(ns) * 1e-3;
}

Report durations(const loop::Histogram& h) {
  return {{"p50", us(h.percentile_ns(0.5))},
          {"p95", us(h.percentile_ns(0.95))},
          {"p99", us(h.percentile_ns(0.99))},
          {"p999", us(h.percentile_ns(0.999))},
          {"max", us(h.max_ns())}};
}

Report grant_report(const loop::Grant& grant) {
  if (!grant.asked) return {{"asked", false}, {"given", false}};
  Report report = {{"asked", true}, {"given", grant.given}};
  if (!grant.given) report["why"] = grant.why;
  return report;
}

std::string durations_line(const char* name, const Report& d) {
  return fmt::format("{:<22}{:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f}\n", name,
                     d["p50"].get<double>(), d["p95"].get<double>(), d["p99"].get<double>(),
                     d["p999"].get<double>(), d["max"].get<double>());
}

}  // namespace

const char* reason_name(uint32_t reason) {
  static constexpr const char* kNames[] = {"ok",     "waiting", "stale", "bad",
                                           "failed", "late",    "ended"};
  return reason < OUTRIDER_LOOP_REASONS ? kNames[reason] : "unknown";
}

Exit loop_status(const loop::Totals& t) {
  if (t.by_reason[OUTRIDER_LOOP_FAILED] > 0 || t.by_reason[OUTRIDER_LOOP_BAD] > 0) return kBad;
  if (t.n_overruns() > 0 || t.by_reason[OUTRIDER_LOOP_STALE] > 0) return kDeadline;
  return kGood;
}

Report loop_report(const loop::Runner& runner, const LoopFacts& facts) {
  const loop::Totals& t = runner.totals();
  Report r;
  r["hz"] = facts.hz;
  r["achieved_hz"] =
      facts.seconds > 0 ? static_cast<double>(t.n_ticks - t.n_skipped) / facts.seconds : 0;
  r["seconds"] = facts.seconds;
  r["deadline_us"] = us(facts.deadline_ns);
  r["input"] = facts.input;
  r["ticks"] = t.n_ticks;
  r["answered"] = t.by_reason[OUTRIDER_LOOP_OK];
  r["overruns"] = t.n_overruns();
  r["late"] = t.by_reason[OUTRIDER_LOOP_LATE];
  r["skipped"] = t.n_skipped;
  r["waiting"] = t.by_reason[OUTRIDER_LOOP_WAITING];
  r["stale"] = t.by_reason[OUTRIDER_LOOP_STALE];
  r["bad_observations"] = t.by_reason[OUTRIDER_LOOP_BAD];
  r["failed"] = t.by_reason[OUTRIDER_LOOP_FAILED];
  r["safe_actions"] = t.n_safe;
  r["held_actions"] = t.n_held;
  r["observations"] = t.n_observations;
  r["jitter_us"] = durations(t.wake);
  r["latency_us"] = durations(t.latency);
  r["run_us"] = durations(t.run);
  r["first_failure"] = t.first_failure_tick < 0 ? Report(nullptr)
                                                : Report({{"tick", t.first_failure_tick},
                                                          {"code", t.first_failure_code},
                                                          {"reason", runner.first_failure()}});
  r["frames"] = {
      {"in", facts.n_frames_in}, {"out", facts.n_frames_out}, {"lost", facts.n_frames_lost}};
  r["realtime"] = {{"priority", grant_report(facts.grants.priority)},
                   {"memory", grant_report(facts.grants.memory)},
                   {"cpu", grant_report(facts.grants.cpu)}};
  r["machine"] = machine_report(this_machine());
  return r;
}

std::string loop_text(const Report& r) {
  std::string text = fmt::format("{:<22}{:>10} {:>10} {:>10} {:>10} {:>10}\n", "us", "p50", "p95",
                                 "p99", "p99.9", "max");
  text += durations_line("wake-up after due", r["jitter_us"]);
  text += durations_line("run", r["run_us"]);
  text += durations_line("answer after due", r["latency_us"]);
  text += fmt::format(
      "{} ticks at {:g} Hz: {} answered, {} overruns ({} late, {} skipped); safe action {} times, "
      "held {} times\n",
      r["ticks"].get<int64_t>(), r["hz"].get<double>(), r["answered"].get<int64_t>(),
      r["overruns"].get<int64_t>(), r["late"].get<int64_t>(), r["skipped"].get<int64_t>(),
      r["safe_actions"].get<int64_t>(), r["held_actions"].get<int64_t>());
  const int64_t waiting = r["waiting"].get<int64_t>(), stale = r["stale"].get<int64_t>(),
                bad = r["bad_observations"].get<int64_t>(), failed = r["failed"].get<int64_t>();
  if (waiting + stale + bad + failed > 0)
    text += fmt::format(
        "no action of the model: {} before the first observation, {} stale, {} bad, {} failed\n",
        waiting, stale, bad, failed);
  if (r.contains("tandem")) {
    const Report& by = r["tandem"]["counters"];
    text += fmt::format("tandem: {} ticks by the lead, {} by the standby, {} held; {} hand-overs\n",
                        by["by_lead"].get<int64_t>(), by["by_standby"].get<int64_t>(),
                        by["held"].get<int64_t>(), by["handovers"].get<int64_t>());
  }
  const Report& real = r["realtime"];
  text += fmt::format("real-time priority {}, memory {}\n",
                      real["priority"]["given"].get<bool>() ? "on" : "off",
                      real["memory"]["given"].get<bool>() ? "locked" : "not locked");
  return text;
}

std::string loop_samples_csv(const loop::Runner& runner) {
  std::string csv = "tick,wake_us,latency_us,reason\n";
  for (const loop::Sample& s : runner.samples())
    csv += fmt::format("{},{:.3f},{:.3f},{}\n", s.tick, us(s.wake_ns), us(s.latency_ns),
                       reason_name(s.reason));
  return csv;
}

}  // namespace outrider::cli
