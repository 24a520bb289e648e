#pragma once
#include <string>

#include "cli/bench.h"

namespace outrider::cli {

// The page of `outrider bench --report`: report as cmd_bench.cpp makes it.
std::string bench_page(const Report& report, const Measurement& measurement);

}  // namespace outrider::cli
