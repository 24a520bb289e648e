// What `outrider serve X` serves: a service configuration, or one open configuration or model file
// under the name "default".
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/config.h"

namespace outrider::cli {

struct ServedModel {
  std::string name;
  Resolved resolved;
};

// Where models are kept that devices push. folder "": nowhere.
struct StoreConfig {
  std::string folder;
  int64_t reserve_mb = 256;  // left free on the disk
  int64_t keep_last = 0;     // models kept after each upload, those in use and more; 0: all
};

struct ServiceConfig {
  std::vector<std::string> listen;
  std::vector<ServedModel> models;
  int64_t memory_budget_mb = 0, max_instances = 4, max_peers = 32;
  std::string key_file;
  StoreConfig store;
};

// [setup] Strict: an unknown key is refused with its line and the nearest known name; a value out
// of range names the range. Paths in a service configuration are relative to its folder. Errors:
// kInvalid, kNotFound, and those of resolve().
Result<ServiceConfig> read_service(const std::string& path, const Wish& wish);

}  // namespace outrider::cli
