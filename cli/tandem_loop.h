// A control loop over a tandem: used by join and demo.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cli/config.h"
#include "cli/request.h"
#include "cli/session.h"
#include "cli/stats.h"
#include "outrider/ext/tandem.h"

namespace outrider::cli {

struct TandemWish {
  std::string standby_json, standby_provider;  // as resolved
  std::string lead_json, lead_provider;        // provider "": model_family chooses
  double hz = 20;
  std::vector<std::pair<std::string, std::string>> set;  // tandem keys over what follows from hz
};
// Writes the three configurations into `folder` and opens the tandem. Its limits follow from the
// rate: hold point 4 ms before the period at 20 Hz, in proportion elsewhere. Errors: of the open.
Result<Session> open_tandem(const std::string& folder, const TandemWish& wish);

struct TandemTick {
  double time_s = 0, wake_ms = 0, latency_ms = 0;  // both from the intended start
  bool answered = false;
  int64_t origin[OUTRIDER_ORIGIN_COUNT] = {};
  int64_t leader() const { return origin[OUTRIDER_ORIGIN_LEADER]; }
  bool held() const { return origin[OUTRIDER_ORIGIN_HELD] != 0; }
};
struct TandemRun {
  double hz = 0;
  std::vector<TandemTick> ticks;
  int64_t n_skipped = 0;  // due while the tick before was still running; never replayed
  int64_t counters[OUTRIDER_TANDEM_COUNT] = {};
  std::string phase, lead_error;

  int64_t n_missed() const;      // refused, late or skipped
  double worst_late_ms() const;  // beyond the period; 0 when none was
  double leader_ms(int64_t leader) const;
};

// What the system grants the calling thread: SCHED_FIFO, exact timers, memory that stays. None is
// needed; without them other programs on the machine make ticks late. Call it after the open, so
// that no thread of the runtime inherits it. `given`: which, `why`: the refusals.
struct LoopGrants {
  bool priority = false, memory = false;
  std::string why;
};
LoopGrants take_loop_grants();
Report grants_report(const LoopGrants& grants);

// Every tick is due at its own time; inputs are made before, as a camera would. `make_inputs` fills
// the request for a tick; `between` (may be empty) is called after each, with its number.
Result<TandemRun> run_tandem(Session& session, double hz, int64_t n_ticks,
                             const std::function<Request(double time_s)>& make_inputs,
                             const std::function<bool(int64_t tick, const TandemTick&)>& between);

// {"ticks","missed","handovers","held","worst_late_ms","leader_ms":{standby,lead}, ...}
Report tandem_report(const TandemRun& run, const Session& session);
// {"state","lead_error","counters"}: what the tandem counted since its open. Null for any other
// runtime.
Report tandem_state(const Session& session);
// Changes of leader as a table of text: time, who, why.
Report leader_changes(const TandemRun& run, const Session& session);

// Stages whatever the runtime's inputs are: pictures, text, state from the request, zeros
// elsewhere.
Result<void> stage_any(Session& session, const Request& request);

}  // namespace outrider::cli
