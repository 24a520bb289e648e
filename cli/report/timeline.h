// The demo's story on one axis of time: who led, what was done to the cable, how long each tick
// took, which ones were held, and every hand-over with its reason.
#pragma once
#include <string>

#include "cli/demo.h"

namespace outrider::cli {

std::string timeline(const DemoRun& run);  // one <svg>

}  // namespace outrider::cli
