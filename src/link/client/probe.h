// What a link is worth, measured by messages that no runtime sees.
#pragma once
#include <string>
#include <vector>

#include "link/client/connection.h"

namespace outrider::link {

struct LinkMeasurement {
  std::vector<double> trip_us;           // PING to PONG, in order
  double forth_mb_s = 0, back_mb_s = 0;  // 1e6 bytes a second; 0: not measured
  int64_t sent = 0, lost = 0;            // PINGs; those without an answer in time
  int64_t offset_ns = 0, bound_ns = 0;
  uint64_t corrupted = 0, resyncs = 0;
  std::string host, peer, kind;
  uint16_t version = 0;
  bool clock_known = false;
};

struct ProbeOptions {
  int n_pings = 200;
  int64_t pause_ns = 2'000'000;     // between them
  int64_t answer_ns = 500'000'000;  // a later answer counts as lost
  uint32_t block_bytes = 1 << 20;   // of a throughput message
  int n_blocks = 24;
};

// [setup] Errors: the loss with its cause; what was measured until then is in `out`.
Result<void> measure_link(Connection& connection, const Clock& clock, const ProbeOptions& options,
                          LinkMeasurement& out);

// What the numbers mean for a control loop: sentences, the most serious first; the last one is the
// verdict. `good` is false when something is wrong.
std::vector<std::string> judge_link(const LinkMeasurement& measured, bool& good);

// [setup] One STATUS exchange. Errors: as above.
Result<wire::StatusReply> ask_status(Connection& connection, int64_t deadline_ns);

}  // namespace outrider::link
