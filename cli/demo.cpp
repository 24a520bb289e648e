#include "cli/demo.h"

namespace outrider::cli {

Report demo_report(const DemoRun& run) {
  std::vector<double> latency, input, wake;
  for (const DemoTick& tick : run.ticks) {
    latency.push_back(tick.latency_ms);
    input.push_back(tick.times.input_ms);
    wake.push_back(tick.wake_ms);
  }
  Report report;
  report["hz"] = run.rate_hz;
  report["ticks"] = run.ticks.size();
  report["missed"] = run.n_missed;
  report["first_ms"] = run.first_ms;
  report["latency_ms"] = percentiles_report(percentiles(latency));
  Report stages = Report::array();
  // How late the system let the loop run; nothing of ours.
  stages.push_back({{"name", "wake-up"}, {"ms", percentiles_report(percentiles(wake))}});
  stages.push_back({{"name", "inputs"}, {"ms", percentiles_report(percentiles(input))}});
  for (size_t s = 0; s < run.stages.size(); ++s) {
    std::vector<double> values;
    for (const DemoTick& tick : run.ticks) values.push_back(tick.times.stage_ms[s]);
    stages.push_back({{"name", run.stages[s]}, {"ms", percentiles_report(percentiles(values))}});
  }
  report["stages"] = std::move(stages);
  size_t held = 0, by_lead = 0, by_standby = 0;
  for (const DemoTick& tick : run.ticks) {
    held += tick.held != 0;
    by_lead += tick.leader == 2;
    by_standby += tick.leader == 1;
  }
  report["held"] = held;
  report["handovers"] = run.changes.empty() ? 0 : run.changes.size() - 1;
  report["leader_ms"] = {{"standby", static_cast<double>(by_standby) * 1e3 / run.rate_hz},
                         {"lead", static_cast<double>(by_lead) * 1e3 / run.rate_hz}};
  report["lead_error"] = run.lead_error;
  report["changes"] = run.changes;
  Report cuts = Report::array();
  for (const DemoCut& cut : run.cuts)
    cuts.push_back({{"from_s", cut.from_s}, {"to_s", cut.to_s}, {"what", cut.what}});
  report["cuts"] = std::move(cuts);
  return report;
}

}  // namespace outrider::cli
