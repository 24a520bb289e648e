// What a loop saw, as a document, as a table, as rows of a file.
#pragma once
#include <string>

#include "cli/output.h"
#include "loop/runner.h"

namespace outrider::cli {

struct LoopFacts {
  double hz = 0, seconds = 0;  // asked for; run
  std::string input;           // "shm:arm", "stdin", "sample"
  loop::Grants grants;
  int priority = 0, cpu = -1;
  int64_t deadline_ns = 0;
  uint64_t n_frames_in = 0, n_frames_out = 0, n_frames_lost = 0;  // of streams
};

Report loop_report(const loop::Runner& runner, const LoopFacts& facts);
// The table for people, lines with their ends.
std::string loop_text(const Report& report);
// tick,wake_us,latency_us,origin,reason of the newest ticks.
std::string loop_samples_csv(const loop::Runner& runner);
const char* reason_name(uint32_t reason);
// 0; 1 when a tick failed or was refused; 3 when one was late, skipped or had no fresh observation.
Exit loop_status(const loop::Totals& totals);

}  // namespace outrider::cli
