// Flags that change nothing in the combination given.
#pragma once
#include <initializer_list>

#include "cli/args.h"

namespace outrider::cli {

// A flag that changes nothing here is refused and never passed over. `why`: what it goes with.
// Errors: kInvalid with the first of `flags` that was given.
Result<void> refuse_idle(const Args& args, std::initializer_list<const char*> flags,
                         const char* why);

}  // namespace outrider::cli
