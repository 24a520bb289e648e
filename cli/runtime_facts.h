// What an opened runtime says of itself, and how much work its stages are.
#pragma once
#include <string>

#include "cli/config.h"
#include "cli/flops.h"
#include "cli/request.h"
#include "cli/session.h"

namespace outrider::cli {

struct RuntimeFacts {
  Report described;          // the status extension's JSON; null when there is none
  std::string kernel_table;  // "" when not told
  std::string precision;     // "f32", "bf16", "int8", "stored"
  int n_threads = 0;         // 0 when not told
};
RuntimeFacts runtime_facts(const Session& session);

// Counters of the status extension; an empty object when there is none.
Report counters_report(const Session& session);

// Inputs for a runtime nobody gave inputs for: pictures of a scene in the configured size, a plain
// instruction, a state of eight values (or the chunk's width for PI0).
Request sample_request(const Resolved& resolved, double time_s);

// Draws the pictures anew in the size and number the opened ports have, where they say so.
void fit_pictures(Request& request, const Session& session);
// Makes a made-up state as wide as the state port, where that is fixed.
void fit_state(Request& request, const Session& session);

// Work of each stage, by name; zero for a stage or a file this build cannot count.
struct StageWork {
  double gflop = 0, weight_bytes = 0;
};
std::vector<StageWork> stage_work(const Resolved& resolved, const Request& request,
                                  const Session& session, const RuntimeFacts& facts);

}  // namespace outrider::cli
