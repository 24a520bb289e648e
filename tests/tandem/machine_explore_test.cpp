// Every state that a small tandem can reach, by every event: no promise breaks, and every pair of
// state and event that the code can meet is met.
//
// Times are multiples of 40 ms and compared relative to now, counters of the past are left out:
// what remains is what the next step can depend on.
#include <set>
#include <unordered_set>
#include <vector>

#include "base/fnv.h"
#include "tandem/rig.h"

namespace outrider::tandem::test {
namespace {

Limits small() {
  Limits l = driving();
  l.period_ns = 50 * kMs;
  l.hold_ns = 40 * kMs;
  l.return_ns = 40 * kMs;
  l.deadline_ns = 100 * kMs;
  l.settling_ticks = 1;
  l.proving_ticks = 2;
  l.row_holds = 2;
  l.window_holds = 2;
  l.window_ns = 160 * kMs;
  l.standby_first_ticks = 1;
  l.return_ticks = 1;
  l.retry_quick_ns = 50 * kMs;
  l.retry_quick_count = 1;
  l.retry_ns = 100 * kMs;
  l.retry_max_ns = 100 * kMs;
  l.ping_ns = 100 * kMs;
  l.keepalive_ns = 120 * kMs;
  l.stop_holds = 1;
  l.agree_ticks = 2;
  l.predict_ticks = 0;
  l.drop_first_ticks = 0;
  return l;
}

// A state as the next step sees it: times relative, the past forgotten.
State essence(State s) {
  const int64_t now = s.now_ns, tick = s.tick;
  const auto relative = [now](int64_t& ns) { ns = std::max<int64_t>(ns - now, -200 * kMs); };
  for (int64_t* ns : {&s.start_ns, &s.oldest_asked_ns, &s.busy_since_ns, &s.contact_ns,
                      &s.good_since_ns, &s.retry_at_ns})
    relative(*ns);
  if (s.asked_tick <= s.answered_tick) s.oldest_asked_ns = 0;
  if (!s.lead_busy) s.busy_since_ns = 0;
  if (s.phase != Phase::kReady) s.contact_ns = 0;
  if (s.turn == Turn::kIdle && s.asked_tick <= s.answered_tick) s.start_ns = 0;
  s.good_since_ns = 0;
  if (s.phase != Phase::kRetrying) s.retry_at_ns = 0;
  std::array<int64_t, kMaxWindowHolds + 1> holds{};
  const int64_t kept = std::min<int64_t>(s.n_holds, 3);
  for (int64_t i = 0; i < kept; ++i) {
    holds[static_cast<size_t>(i)] =
        s.hold_ns[static_cast<size_t>(s.n_holds - 1 - i) % s.hold_ns.size()];
    relative(holds[static_cast<size_t>(i)]);
  }
  s.hold_ns = holds;
  s.n_holds = kept;
  s.asked_tick = std::max<int64_t>(s.asked_tick - tick, -4);
  s.answered_tick = std::max<int64_t>(s.answered_tick - tick, -4);
  s.caught_up_tick = s.caught_up_tick == tick ? 0 : s.caught_up_tick == tick - 1 ? -1 : -2;
  s.tick = 0;
  s.now_ns = 0;
  s.epoch = s.link = 1;
  s.counts = {};
  s.n_ticks = 0;
  s.led_ticks = std::min<int64_t>(s.led_ticks, 3);
  s.standby_ran = std::min<int64_t>(s.standby_ran, 1);
  s.standby_failed = std::min<int64_t>(s.standby_failed, 2);
  s.good_returns = std::min<int64_t>(s.good_returns, 1);
  s.agreed = std::min<int64_t>(s.agreed, 2);
  s.failures = std::min<int64_t>(s.failures, 3);
  s.silent = std::min<int64_t>(s.silent, 3);
  s.waited_ticks = 0;
  s.drops = {};
  s.lag = {};
  s.reason = Reason::kNone;
  return s;
}

uint64_t hash(const State& s) {
  const int64_t words[] = {static_cast<int64_t>(s.phase),
                           static_cast<int64_t>(s.turn),
                           static_cast<int64_t>(s.pending),
                           s.start_ns,
                           s.n_ticks,
                           s.engaged,
                           s.covered,
                           s.published,
                           s.standby_ran,
                           s.standby_failed,
                           s.standby_ns,
                           s.led_ticks,
                           s.holds_row,
                           s.silent,
                           s.asked_tick,
                           s.answered_tick,
                           s.oldest_asked_ns,
                           s.hold_ns[0],
                           s.hold_ns[1],
                           s.hold_ns[2],
                           s.n_holds,
                           s.joined,
                           s.connecting,
                           s.lead_busy,
                           s.replug_used,
                           s.busy_since_ns,
                           s.contact_ns,
                           s.caught_up_tick,
                           s.good_returns,
                           s.agreed,
                           s.failures,
                           s.good_since_ns,
                           s.retry_at_ns,
                           s.forgive_drops};
  return fnv1a64(std::string_view(reinterpret_cast<const char*>(words), sizeof words));
}

std::vector<Event> events_of(const State& s) {
  std::vector<Event> all;
  const auto add = [&](Event e) { all.push_back(e); };
  for (const bool engaged : {false, true})
    add({.kind = EventKind::kTick, .tick = s.tick + 1, .engaged = engaged});
  for (const bool sound : {true, false}) {
    add({.kind = EventKind::kPong, .link = s.link, .sound = sound});
    for (const int64_t tick : {s.tick, s.tick - 1})
      add({.kind = EventKind::kAnswer, .tick = tick, .epoch = s.epoch, .sound = sound});
    add({.kind = EventKind::kStandby, .tick = s.tick, .sound = sound, .took_ns = 10 * kMs});
    for (const Agreement agreement : {Agreement::kWithin, Agreement::kBeyond})
      add({.kind = EventKind::kShadow,
           .tick = s.tick,
           .link = s.link,
           .sound = sound,
           .caught_up = agreement == Agreement::kWithin,
           .agreement = agreement,
           .took_ns = 20 * kMs});
  }
  add({.kind = EventKind::kAnswer, .tick = s.tick, .epoch = s.epoch - 1});
  add({.kind = EventKind::kFailed, .link = s.link - 1});
  for (const EventKind kind : {EventKind::kJoined, EventKind::kFailed, EventKind::kMismatch})
    add({.kind = kind, .link = s.link});
  for (const EventKind kind : {EventKind::kPoint, EventKind::kReplugged, EventKind::kStop})
    add({.kind = kind});
  return all;
}

TEST(TandemExplore, no_reachable_state_breaks_a_promise) {
  const Limits limits = small();
  constexpr size_t kMost = 2000000;  // beyond this the space is no longer small
  std::vector<State> open = {State{}};
  open[0].now_ns = 0;
  std::unordered_set<uint64_t> seen = {hash(essence(open[0]))};
  std::set<std::pair<int, int>> pairs;  // (phase, turn) x event that were tried
  size_t n_steps = 0, at = 0;
  for (; at < open.size() && seen.size() < kMost; ++at) {
    const State from = open[at];
    for (const Event& e : events_of(from)) {
      for (const int64_t delay : {int64_t{0}, 40 * kMs}) {
        const Step next = step(limits, from, e, from.now_ns + delay);
        ++n_steps;
        ASSERT_EQ(broken_promise(from, e, next.state, next.actions), "")
            << "phase " << phase_name(from.phase) << " event " << static_cast<int>(e.kind);
        pairs.insert({static_cast<int>(from.phase) * 3 + static_cast<int>(from.turn),
                      static_cast<int>(e.kind)});
        if (seen.insert(hash(essence(next.state))).second) open.push_back(next.state);
      }
    }
  }
  RecordProperty("states", std::to_string(seen.size()));
  RecordProperty("steps", std::to_string(n_steps));
  EXPECT_EQ(at, open.size()) << "not the whole space";
  EXPECT_GT(seen.size(), 100000u);
  // Every phase meets every event, in every turn that it has.
  for (int phase = 0; phase < 6; ++phase) {
    const bool lead_phase =
        phase == static_cast<int>(Phase::kLeading) || phase == static_cast<int>(Phase::kHolding);
    for (int turn = 0; turn < 3; ++turn) {
      const auto t = static_cast<Turn>(turn);
      if (t == (lead_phase ? Turn::kAwaitStandby : Turn::kAwaitLead)) continue;  // cannot be
      for (int kind = 0; kind < static_cast<int>(EventKind::kCount); ++kind) {
        EXPECT_TRUE(pairs.contains({phase * 3 + turn, kind}))
            << phase_name(static_cast<Phase>(phase)) << " turn " << turn << " event " << kind;
      }
    }
  }
  for (const auto& [place, kind] : pairs) {
    const bool lead_phase = place / 3 == static_cast<int>(Phase::kLeading) ||
                            place / 3 == static_cast<int>(Phase::kHolding);
    EXPECT_NE(static_cast<Turn>(place % 3), lead_phase ? Turn::kAwaitStandby : Turn::kAwaitLead);
  }
}

}  // namespace
}  // namespace outrider::tandem::test
