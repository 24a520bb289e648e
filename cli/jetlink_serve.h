// outrider serve in the Jetlink dialect.
#pragma once
#include "cli/output.h"

namespace outrider::cli {

// --jetlink, or a flag that only this dialect has: the native server's own command line.
bool speaks_jetlink(const Args& args);
// [setup] Serves until a signal. `wait` returns the signal that ends it.
int serve_jetlink(Context& context, const Command& command, int (*wait)());

}  // namespace outrider::cli
