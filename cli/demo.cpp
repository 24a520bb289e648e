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
  return report;
}

}  // namespace outrider::cli
