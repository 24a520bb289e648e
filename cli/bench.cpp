#include "cli/bench.h"

#include <cerrno>
#include <ctime>

#include "base/clock.h"
#include "cli/machine.h"

namespace outrider::cli {
namespace {

void rest_until_ns(int64_t at_ns) {
  while (!sleep_until_ns(at_ns)) {
  }
}

class Bench {
 public:
  Bench(Session& session, const Request& request, std::string port)
      : session_(session), request_(request), port_(std::move(port)) {}

  // One tick; its output is compared with the first one's.
  Result<TickTimes> tick(Measurement& m) {
    auto ticked = timed_tick(session_, request_, port_);
    if (!ticked) return ticked.error();
    const uint64_t sum = checksum(ticked.value().output);
    if (!seen_) m.output_checksum = sum;
    seen_ = true;
    m.n_different += sum != m.output_checksum;
    return ticked.value().times;
  }

 private:
  Session& session_;
  const Request& request_;
  std::string port_;
  bool seen_ = false;
};

// Each tick is due at its own time, whatever the ticks before it did: a stall shows in all the
// ticks it delayed.
Result<void> run_ticks(Bench& bench, const BenchOptions& options, Measurement& m, Output& out) {
  const MonotonicClock clock;
  const int64_t begin_ns = clock.now_ns();
  const int64_t period_ns = options.rate_hz > 0 ? static_cast<int64_t>(1e9 / options.rate_hz) : 0;
  auto since_ms = [&](int64_t ns) { return static_cast<double>(ns - begin_ns) * 1e-6; };
  m.samples.reserve(static_cast<size_t>(options.n_ticks));
  for (int64_t i = 0; i < options.n_ticks; ++i) {
    const int64_t due_ns = period_ns > 0 ? begin_ns + i * period_ns : clock.now_ns();
    if (period_ns > 0) rest_until_ns(due_ns);
    Sample sample;
    const int64_t start_ns = clock.now_ns();
    sample.intended_ms = since_ms(due_ns);
    sample.start_ms = since_ms(start_ns);
    const SystemEvents before = system_events();
    auto times = bench.tick(m);
    if (!times) return times.error();
    const SystemEvents after = system_events();
    const int64_t end_ns = clock.now_ns();
    sample.times = times.value();
    sample.latency_ms =
        period_ns > 0 ? static_cast<double>(end_ns - due_ns) * 1e-6 : sample.times.total_ms;
    m.n_late += period_ns > 0 && end_ns - due_ns > period_ns;
    m.events.minor_faults += after.minor_faults - before.minor_faults;
    m.events.major_faults += after.major_faults - before.major_faults;
    m.events.waits += after.waits - before.waits;
    m.events.preemptions += after.preemptions - before.preemptions;
    m.samples.push_back(std::move(sample));
    if (period_ns == 0 || clock.now_ns() < due_ns + period_ns)
      out.progress(fmt::format("tick {} of {}", i + 1, options.n_ticks), i + 1 == options.n_ticks);
  }
  return {};
}

}  // namespace

Result<Measurement> measure(Session& session, const Request& request, const BenchOptions& options,
                            Output& out) {
  auto port = main_output(session);
  if (!port) return port.error();
  Measurement m;
  m.stages = session.stages();
  Bench bench(session, request, port.value());
  for (int64_t i = 0; i <= options.n_warmup; ++i) {
    auto times = bench.tick(m);
    if (!times) return times.error();
    if (i == 0)
      m.first_ms = times.value().total_ms;
    else
      m.warmup_ms.push_back(times.value().total_ms);
  }
  OUTRIDER_TRY(run_ticks(bench, options, m, out));
  if (options.idle_s > 0) {
    rest_until_ns(MonotonicClock().now_ns() + static_cast<int64_t>(options.idle_s * 1e9));
    auto times = bench.tick(m);
    if (!times) return times.error();
    m.after_idle_ms = times.value().total_ms;
  }
  m.resident_bytes = resident_bytes();
  return m;
}

}  // namespace outrider::cli
