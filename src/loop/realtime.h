// What the system grants a loop: priority, memory that stays, one processor. Each is asked for and
// what came of it is told; none is needed.
#pragma once
#include <string>

namespace outrider::loop {

struct Grant {
  bool asked = false, given = false;
  std::string why;  // of a refusal: one line with the fix
};

// [setup] SCHED_FIFO of the calling thread, 1 to 99; 0: not asked for.
Grant take_priority(int priority);
// [setup] Pages that are there and those to come stay in memory; what was never touched is not read
// for it.
Grant lock_memory();
void unlock_memory();
// [setup] The calling thread runs on this processor alone; below 0: not asked for.
Grant take_processor(int cpu);
// [setup] Timers of this thread are not rounded for power's sake.
void exact_timers();

}  // namespace outrider::loop
