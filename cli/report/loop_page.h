// The page of `outrider loop --report`: what went in and came out over time, and how punctual it
// was.
#pragma once
#include <string>

#include "cli/output.h"
#include "loop/runner.h"

namespace outrider::cli {

std::string loop_page(const Report& report, const loop::Runner& runner, const loop::Payload& inputs,
                      const loop::Payload& outputs);

}  // namespace outrider::cli
