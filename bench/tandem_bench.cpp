// What the tandem's state machine costs a tick: the time of single steps, by event, on drives that
// meet every phase. Prints p50, p99 and the longest; the reading of the clock is told apart.
//
//   tandem_bench [STEPS]     default 1,000,000
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "tandem/machine.h"

namespace outrider::tandem {
namespace {

constexpr int64_t kMs = 1000000;
constexpr const char* kEvents[] = {"tick",   "answer", "point", "standby",   "joined", "mismatch",
                                   "failed", "shadow", "pong",  "replugged", "stop"};
static_assert(std::size(kEvents) == static_cast<size_t>(EventKind::kCount));

struct Bench {
  MonotonicClock clock;
  Limits limits = preset_limits("driving20").value();
  State state;
  Actions actions;
  int64_t now_ns = 0;
  std::vector<int64_t> took_ns[static_cast<size_t>(EventKind::kCount)];

  void send(Event e) {
    e.link = state.link;
    const int64_t begin_ns = clock.now_ns();
    const Step next = step(limits, state, e, now_ns);
    const int64_t end_ns = clock.now_ns();
    state = next.state;
    actions = next.actions;
    took_ns[static_cast<size_t>(e.kind)].push_back(end_ns - begin_ns);
  }
  // One tick of a loop whose lead answers in time, late, wrongly, not at all, or is gone, as dice
  // say.
  void tick(const UniformStream& dice, uint64_t i) {
    const uint64_t roll = dice.bits(i) % 10000;
    send({.kind = EventKind::kTick, .tick = state.tick + 1, .engaged = i % 400 > 300});
    if (actions.has(act::kConnect)) send({.kind = EventKind::kJoined});
    if (actions.has(act::kFollowLead) || actions.has(act::kShadowLead))
      send(
          {.kind = EventKind::kShadow, .tick = state.tick, .caught_up = true, .took_ns = 30 * kMs});
    if (actions.has(act::kPingLead)) send({.kind = EventKind::kPong});
    if (roll == 0) send({.kind = EventKind::kReplugged});
    for (int n = 0; state.turn != Turn::kIdle && n < 8; ++n) {
      if (state.turn == Turn::kAwaitStandby) {
        now_ns += 10 * kMs;
        send({.kind = EventKind::kStandby, .tick = state.tick, .took_ns = 10 * kMs});
      } else if (roll < 2) {
        send({.kind = EventKind::kFailed});
      } else if (roll < 200) {
        now_ns = std::max(now_ns, actions.wait_until_ns);
        send({.kind = EventKind::kPoint});
      } else {
        now_ns += 30 * kMs;
        send({.kind = EventKind::kAnswer,
              .tick = state.tick,
              .epoch = state.epoch,
              .sound = roll != 200,
              .took_ns = 30 * kMs});
      }
    }
    now_ns = state.start_ns + limits.period_ns;
  }
};

void print(const char* name, std::vector<int64_t>& ns) {
  if (ns.empty()) return;
  std::sort(ns.begin(), ns.end());
  std::printf("%-10s %10zu %8lld %8lld %10lld\n", name, ns.size(),
              static_cast<long long>(ns[ns.size() / 2]),
              static_cast<long long>(ns[ns.size() * 99 / 100]), static_cast<long long>(ns.back()));
}

int run(uint64_t n_steps) {
  Bench bench;
  const UniformStream dice(7);
  size_t n = 0;
  for (uint64_t i = 0; n < n_steps; ++i) {
    bench.tick(dice, i);
    n = 0;
    for (const auto& list : bench.took_ns) n += list.size();
  }
  std::vector<int64_t> clock_ns, all;
  for (int i = 0; i < 100000; ++i) {
    const int64_t begin = bench.clock.now_ns();
    clock_ns.push_back(bench.clock.now_ns() - begin);
  }
  utsname system{};
  uname(&system);
  std::printf("%s %s; state %zu bytes; %lld take-overs, %lld losses\n", system.sysname,
              system.machine, sizeof(State), static_cast<long long>(bench.state.counts.takeovers),
              static_cast<long long>(bench.state.counts.losses));
  std::printf("%-10s %10s %8s %8s %10s   ns a step\n", "event", "steps", "p50", "p99", "longest");
  for (size_t kind = 0; kind < std::size(kEvents); ++kind) {
    all.insert(all.end(), bench.took_ns[kind].begin(), bench.took_ns[kind].end());
    print(kEvents[kind], bench.took_ns[kind]);
  }
  print("all", all);
  print("the clock", clock_ns);
  return 0;
}

}  // namespace
}  // namespace outrider::tandem

int main(int argc, char** argv) {
  const long long n = argc > 1 ? std::atoll(argv[1]) : 1000000;
  if (argc > 2 || n < 1) {
    std::fprintf(stderr, "usage: tandem_bench [STEPS]\n");
    return 2;
  }
  return outrider::tandem::run(static_cast<uint64_t>(n));
}
