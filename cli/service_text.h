// The text of a service configuration: strict, without a look at the files it names.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace outrider::cli {

struct NamedModel {
  std::string name, config;  // config: a path
};

// Where models are kept that devices push. folder "": nowhere.
struct StoreConfig {
  std::string folder;
  int64_t reserve_mb = 256;  // left free on the disk
  int64_t keep_last = 0;     // models kept after each upload, those in use and more; 0: all
};

struct ServiceText {
  std::vector<std::string> listen;
  std::vector<NamedModel> models;
  int64_t memory_budget_mb = 0, max_instances = 4, max_peers = 32;
  std::string key_file;
  std::string manage = "auto";  // who may push and remove over the link: one of kManageWords
  StoreConfig store;
};

inline constexpr const char* kManageWords[] = {"auto", "yes", "no"};  // as link::Manage

// [setup] `path` is where the document stands: paths in it are relative to its folder, messages
// name it. Errors: kInvalid (an unknown key with its line and the nearest known name, a value out
// of range with the range), kUnsupported (a face that this build has not).
Result<ServiceText> read_service_text(const Json& object, const std::string& path);

}  // namespace outrider::cli
