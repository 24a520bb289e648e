// What `outrider serve X` serves: a service configuration, or one open configuration or model file
// under the name "default".
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/config.h"
#include "cli/service_text.h"

namespace outrider::cli {

struct ServedModel {
  std::string name;
  Resolved resolved;
};

struct ServiceConfig {
  ServiceText text;
  std::vector<ServedModel> models;  // those of text.models
};

// [setup] Strict: an unknown key is refused with its line and the nearest known name; a value out
// of range names the range. Paths in a service configuration are relative to its folder. Errors:
// kInvalid, kNotFound, and those of resolve().
Result<ServiceConfig> read_service(const std::string& path, const Wish& wish);

}  // namespace outrider::cli
