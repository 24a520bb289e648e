// What the demo's loop left behind, and its report.
#pragma once
#include "cli/request.h"
#include "cli/stats.h"

namespace outrider::cli {

struct DemoTick {
  double time_s = 0, wake_ms = 0, latency_ms = 0;  // both from the intended start
  TickTimes times;
};
struct Snapshot {
  double time_s = 0;
  std::vector<Image> images;
  std::vector<float> actions;  // [steps, action_dim]
};
struct DemoRun {
  std::vector<std::string> stages;
  double rate_hz = 0, first_ms = 0;
  int64_t action_dim = 0;
  size_t n_missed = 0;  // ticks that ended after the next one was due
  std::vector<DemoTick> ticks;
  std::vector<Snapshot> snapshots;
};
Report demo_report(const DemoRun& run);

}  // namespace outrider::cli
