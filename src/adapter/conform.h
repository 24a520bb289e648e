// The contract of include/outrider/adapter.h as checks. Reads only.
#pragma once
#include <string>
#include <vector>

#include "outrider/adapter.h"

namespace outrider::adapter {

struct Check {
  std::string name, detail;
  bool passed = true;
};
// [setup] Never throws for what a hook does. The list begins with version and size; when these
// differ nothing else is called.
std::vector<Check> conform(const outrider_adapter_v1* adapter);
// Names of the hooks that the adapter sets, "keys" first when it brings its own names.
std::vector<std::string> overridden(const outrider_adapter_v1& adapter);

}  // namespace outrider::adapter
