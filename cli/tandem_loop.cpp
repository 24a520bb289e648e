#include "cli/tandem_loop.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "base/output_file.h"
#include "host/provider_path.h"
#include "loop/due.h"
#include "loop/realtime.h"

namespace outrider::cli {
namespace {

const outrider_tandem_v1* table_of(const Session& session) {
  return static_cast<const outrider_tandem_v1*>(
      outrider_extension(session.handle(), OUTRIDER_EXT_TANDEM, 1));
}

Report named_counters(const outrider_tandem_v1& table,
                      const int64_t (&values)[OUTRIDER_TANDEM_COUNT]) {
  Report counters;
  for (uint64_t i = 0; i < OUTRIDER_TANDEM_USED; ++i) counters[table.counter_name(i)] = values[i];
  return counters;
}

// The number as JSON would have it, or the text as a string.
Report value_of(const std::string& word) {
  const Report number = report_of_literal(word);
  return number.is_number() ? number : Report(word);
}

Report tandem_config(const std::string& folder, const TandemWish& wish) {
  const double period_ms = 1e3 / wish.hz;
  Report config;
  config["model_family"] = "tandem";
  config["standby"] = folder + "/standby.json";
  config["lead"] = folder + "/lead.json";
  config["standby_provider"] = wish.standby_provider;
  config["lead_provider"] = wish.lead_provider;
  config["preset"] = "driving20";
  if (wish.hz != 20) {
    config["period_ms"] = period_ms;
    config["hold_ms"] = period_ms * 0.92;
    config["return_ms"] = period_ms * 0.84;
    config["deadline_ms"] = period_ms * 4;
  }
  for (const auto& [key, value] : wish.set) config[key] = value_of(value);
  return config;
}

std::string name_of(const frt_runtime_port_desc& port) {
  return port.name;
}

uint64_t fixed_values(const frt_runtime_port_desc& port) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < port.rank; ++i) {
    if (port.shape[i] < 0 || port.shape[i] > (1 << 24)) return 0;
    n *= static_cast<uint64_t>(port.shape[i]);
    if (n > (1 << 26)) return 0;
  }
  return port.rank == 0 ? 0 : n;
}

}  // namespace

Result<Session> open_tandem(const std::string& folder, const TandemWish& wish) {
  OUTRIDER_TRY(write_output(folder + "/standby.json", wish.standby_json));
  OUTRIDER_TRY(write_output(folder + "/lead.json", wish.lead_json));
  auto provider = host::find_provider("tandem");
  if (!provider) return provider.error();
  return Session::open(provider.value(), to_json_text(tandem_config(folder, wish), -1));
}

LoopGrants take_loop_grants() {
  constexpr int kPriority = 20;  // above everything ordinary, below the kernel's own threads
  loop::exact_timers();
  const loop::Grant priority = loop::take_priority(kPriority), memory = loop::lock_memory();
  std::string why = priority.why;
  if (!memory.why.empty()) why += (why.empty() ? "" : "; ") + memory.why;
  return {priority.given, memory.given, why};
}

Report grants_report(const LoopGrants& grants) {
  return {{"priority", grants.priority}, {"memory", grants.memory}, {"refused", grants.why}};
}

Result<void> stage_any(Session& session, const Request& request) {
  const uint8_t nobody = 0;
  for (const frt_runtime_port_desc* port : session.ports()) {
    if (port->direction != FRT_PORT_IN) continue;
    const std::string name = name_of(*port);
    const uint64_t n = fixed_values(*port);
    // Optional tensors (noise, guidance) stay off.
    if (port->required == 0 && port->modality == FRT_MODALITY_TENSOR && name != "engaged") continue;
    if (name == "engaged") {
      OUTRIDER_TRY(session.set_input(name, &nobody, 1));
    } else if (name == "images") {
      OUTRIDER_TRY(stage_images(session, request));
    } else if (port->modality == FRT_MODALITY_TEXT) {
      OUTRIDER_TRY(session.set_text(name, request.prompt));
    } else if (port->dtype == FRT_DTYPE_F32) {
      std::vector<float> values = request.state;
      if (n > 0) values.resize(n, 0.0f);
      OUTRIDER_TRY(session.set_floats(name, values));
    } else {
      const std::vector<std::byte> zeros(std::max<uint64_t>(n, 1) * port_dtype_bytes(port->dtype));
      OUTRIDER_TRY(session.set_input(name, zeros.data(), zeros.size()));
    }
  }
  return {};
}

Result<TandemRun> run_tandem(Session& session, double hz, int64_t n_ticks,
                             const std::function<Request(double)>& make_inputs,
                             const std::function<bool(int64_t, const TandemTick&)>& between) {
  const outrider_tandem_v1* table = table_of(session);
  if (table == nullptr)
    return make_error(Code::kUnsupported, "this runtime is no tandem; it has no counters");
  auto output = main_output(session);
  if (!output) return output.error();
  TandemRun run;
  run.hz = hz;
  const loop::DueTime due(session.handle());
  const MonotonicClock clock;
  const auto period_ns = static_cast<int64_t>(1e9 / hz);
  const int64_t begin_ns = clock.now_ns() + period_ns;
  for (int64_t i = 0; i < n_ticks; ++i) {
    TandemTick tick;
    tick.time_s = static_cast<double>(i) / hz;
    const Request request = make_inputs(tick.time_s);
    const int64_t due_ns = begin_ns + i * period_ns;
    if (clock.now_ns() >= due_ns + period_ns) {
      ++run.n_skipped;
      continue;
    }
    while (!sleep_until_ns(due_ns)) {
    }
    const int64_t start_ns = clock.now_ns();
    due.tell(due_ns);
    OUTRIDER_TRY(stage_any(session, request));
    tick.answered = static_cast<bool>(session.tick()) && session.output(output.value());
    const int64_t end_ns = clock.now_ns();
    table->read_origin(table->self, tick.origin);
    tick.wake_ms = static_cast<double>(start_ns - due_ns) * 1e-6;
    tick.latency_ms = static_cast<double>(end_ns - due_ns) * 1e-6;
    run.ticks.push_back(tick);
    if (between && !between(i, tick)) break;
  }
  table->read_counters(table->self, run.counters);
  run.phase = table->phase_name(run.counters[OUTRIDER_TANDEM_PHASE]);
  run.lead_error = table->lead_error(table->self);
  return run;
}

int64_t TandemRun::n_missed() const {
  const auto bad = [this](const TandemTick& tick) {
    return !tick.answered || tick.latency_ms > 1e3 / hz;
  };
  return n_skipped + std::ranges::count_if(ticks, bad);
}

double TandemRun::worst_late_ms() const {
  double worst = 0;
  for (const TandemTick& tick : ticks) worst = std::max(worst, tick.latency_ms - 1e3 / hz);
  return worst;
}

double TandemRun::leader_ms(int64_t leader) const {
  const auto led = [leader](const TandemTick& tick) { return tick.leader() == leader; };
  return static_cast<double>(std::ranges::count_if(ticks, led)) * 1e3 / hz;
}

Report tandem_state(const Session& session) {
  const outrider_tandem_v1* table = table_of(session);
  if (table == nullptr) return {};
  int64_t values[OUTRIDER_TANDEM_COUNT];
  table->read_counters(table->self, values);
  return {{"state", table->phase_name(values[OUTRIDER_TANDEM_PHASE])},
          {"lead_error", table->lead_error(table->self)},
          {"counters", named_counters(*table, values)}};
}

Report leader_changes(const TandemRun& run, const Session& session) {
  const outrider_tandem_v1* table = table_of(session);
  Report rows = Report::array();
  int64_t epoch = -1;
  for (const TandemTick& tick : run.ticks) {
    if (tick.origin[OUTRIDER_ORIGIN_EPOCH] == epoch) continue;
    epoch = tick.origin[OUTRIDER_ORIGIN_EPOCH];
    const char* reason = table->reason_name(tick.origin[OUTRIDER_ORIGIN_REASON]);
    rows.push_back({{"time_s", tick.time_s},
                    {"leader", tick.leader() == 2   ? "lead"
                               : tick.leader() == 1 ? "standby"
                                                    : "nobody"},
                    {"reason", reason != nullptr ? reason : "unknown"}});
  }
  return rows;
}

Report tandem_report(const TandemRun& run, const Session& session) {
  const outrider_tandem_v1* table = table_of(session);
  std::vector<double> latency;
  for (const TandemTick& tick : run.ticks) latency.push_back(tick.latency_ms);
  Report report;
  report["hz"] = run.hz;
  report["ticks"] = run.ticks.size();
  report["missed"] = run.n_missed();
  report["handovers"] = run.counters[OUTRIDER_TANDEM_HANDOVERS];
  report["held"] = run.counters[OUTRIDER_TANDEM_HELD];
  report["worst_late_ms"] = run.worst_late_ms();
  report["leader_ms"] = {{"standby", run.leader_ms(1)}, {"lead", run.leader_ms(2)}};
  report["latency_ms"] = percentiles_report(percentiles(latency));
  report["skipped"] = run.n_skipped;
  report["state"] = run.phase;
  report["lead_error"] = run.lead_error;
  report["changes"] = leader_changes(run, session);
  report["counters"] = named_counters(*table, run.counters);
  return report;
}

}  // namespace outrider::cli
