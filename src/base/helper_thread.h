// What a thread does first that serves others: it gives back what it inherited from a loop.
#pragma once

namespace outrider {

// [setup] The calling thread leaves real-time scheduling for the normal one, and if it was pinned
// to a single processor it may run on every one that the process is allowed. A thread made by a
// loop that runs under SCHED_FIFO on a processor of its own would otherwise compete with that loop.
// Nothing is changed for a thread that inherited nothing of the kind; a refusal is ignored.
void become_helper_thread() noexcept;

}  // namespace outrider
