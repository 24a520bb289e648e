// Measuring a runtime tick by tick, without flattery: first call, warm-up, steady ticks and the
// tick after a pause apart; latency from the intended start where there is a rate; every output
// compared.
#pragma once
#include <string>
#include <vector>

#include "cli/machine.h"
#include "cli/request.h"
#include "cli/stats.h"

namespace outrider::cli {

struct BenchOptions {
  int64_t n_ticks = 20, n_warmup = 2;
  double rate_hz = 0;  // 0: each tick starts when the last one ended
  double idle_s = 1;   // pause before the after-idle tick; 0: none
};

struct Sample {
  double intended_ms = 0;  // since the first steady tick; equals start_ms without a rate
  double start_ms = 0;
  TickTimes times;
  double latency_ms = 0;  // end - intended
};

struct Measurement {
  std::vector<std::string> stages;
  double first_ms = 0, after_idle_ms = 0;
  std::vector<double> warmup_ms;
  std::vector<Sample> samples;
  uint64_t output_checksum = 0, n_different = 0;  // outputs unlike the first one
  uint64_t resident_bytes = 0;
  SystemEvents events;  // within the measured ticks, without what lies between them
  size_t n_late = 0;    // with a rate: ticks that ended after the next one was due
};

// Errors: of a tick. Progress goes to `out`, between ticks.
Result<Measurement> measure(Session& session, const Request& request, const BenchOptions& options,
                            Output& out);

}  // namespace outrider::cli
