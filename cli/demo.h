// What the demo's loop left behind, and its report.
#pragma once
#include "cli/output.h"
#include "cli/request.h"
#include "cli/stats.h"

namespace outrider::cli {

struct DemoTick {
  double time_s = 0, wake_ms = 0, latency_ms = 0;  // both from the intended start
  TickTimes times;
  int64_t leader = 0, held = 0;  // 0 nobody, 1 standby, 2 lead; 1: the previous output once more
  int64_t epoch = 0, reason = 0;
};
// What was done to the cable, and how long.
struct DemoCut {
  double from_s = 0, to_s = 0;
  std::string what;
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
  std::vector<DemoCut> cuts;
  Report changes = Report::array();  // of the leader: {"time_s","leader","reason"}
  std::string host;                  // "" or why there was none
  std::string lead_error;            // of its last failure, "" when there was none
};
Report demo_report(const DemoRun& run);

}  // namespace outrider::cli
