// What passes between the caller's thread and the one that drives the lead.
//
// The caller posts jobs (the newest replaces one that was not begun) and takes reports in order.
// Behind it stands the control thread (worker.h) or, in tests, a simulation.
#pragma once
#include <cstdint>

#include "tandem/answer.h"
#include "tandem/machine.h"

namespace outrider::tandem {

enum class JobKind : uint8_t {
  kNone,
  kConnect,  // open the lead, check its ports
  kClose,
  kAsk,     // answer this tick
  kFollow,  // see every input up to the newest tick (this one at least), from the oldest kept one
            // if there is a gap; the report names the tick that was seen last
  kShadow,  // answer this tick for nobody
  kPing,    // say whether it is there
};

struct Job {
  JobKind kind = JobKind::kNone;
  int64_t tick = 0;
  uint32_t epoch = 0, link = 0;
};

// An event for the machine. `answer` is its outputs, for kAnswer only; valid until pop.
struct Report {
  Event event;
  const Answer* answer = nullptr;
  int64_t arrived_ns = 0;
};

class LeadChannel {
 public:
  virtual ~LeadChannel() = default;
  // All [hot], caller's thread.
  virtual void post(const Job& job) noexcept = 0;
  virtual const Report* peek() noexcept = 0;  // the oldest report, or nullptr
  virtual void pop() noexcept = 0;
  // Returns at this time, or earlier when a report is there.
  virtual void wait_until(int64_t at_ns) noexcept = 0;
};

}  // namespace outrider::tandem
