#pragma once
#include <string>

#include "base/result.h"
#include "cli/demo.h"
#include "cli/scene.h"

namespace outrider::cli {

// outrider-demo.html. `report` as demo_report made it, plus "open_ms".
Result<std::string> demo_page(const DemoRun& run, const Report& report, const Scene& scene);

}  // namespace outrider::cli
