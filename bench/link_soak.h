// A long run: a device ticks at a fixed rate against a host in a child process. Nothing may be
// lost on a clean link, and neither process may grow.
//
// Prints one JSON document: ticks, lost (a verb failed or the answer was wrong), late (it came
// after the next tick should have begun), latency percentiles, and for both processes descriptors,
// threads and memory (RssAnon) after the first tenth and at the end.
#pragma once
#include <string>

namespace outrider::link_bench {

struct Soak {
  double seconds = 0, rate_hz = 200;
  bool encrypted = false;
};

// Exit status: 0, or 1 when something was lost or grew (by more than 256 KB).
int run_soak(const Soak& soak, const std::string& lib);

}  // namespace outrider::link_bench
