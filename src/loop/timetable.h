// When each tick of a loop is due. Absolute times of the monotonic clock: a tick that is late moves
// none after it, and steps of the wall clock change nothing.
#pragma once
#include <algorithm>
#include <cstdint>

namespace outrider::loop {

struct Timetable {
  int64_t begin_ns = 0;     // tick 0
  double period_ns = 1e6;   // not a whole number for 60 Hz: no drift over hours
  int64_t deadline_ns = 0;  // an answer counts until so long after its tick was due

  int64_t due_ns(int64_t tick) const {
    return begin_ns + static_cast<int64_t>(static_cast<double>(tick) * period_ns);
  }
  int64_t end_ns(int64_t tick) const { return due_ns(tick) + deadline_ns; }
  // The first tick from `next` on whose deadline is still ahead: those before it are skipped, not
  // replayed.
  int64_t first_open(int64_t next, int64_t now_ns) const {
    if (end_ns(next) > now_ns) return next;
    const auto passed = static_cast<double>(now_ns - begin_ns - deadline_ns);
    int64_t tick = std::max(next, static_cast<int64_t>(passed / period_ns));
    while (end_ns(tick) <= now_ns) ++tick;
    return tick;
  }
};

}  // namespace outrider::loop
