// The open configuration of family "tandem": one table of keys, and the two files it names.
#pragma once
#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "tandem/limits.h"
#include "tandem/ports.h"

namespace outrider::tandem {

struct TandemConfig {
  std::string standby, lead;                    // paths of open configurations
  std::string standby_provider, lead_provider;  // "": model_family chooses
  std::string preset = "driving20", record_path;
  Limits limits;
  PortRoom room;
  double agree_distance = 0.1;
  int64_t open_wait_ms = 1000;
};

// Errors: kInvalid, one line: unknown key with a near one, missing key, wrong type, range,
// limits that contradict each other.
Result<TandemConfig> read_tandem_config(const Json& json);

// One of the two runtimes, as far as files tell. Errors: kInvalid (not a configuration), kNotFound
// (file, provider), kUnsupported (a tandem inside a tandem, a family unknown).
struct Side {
  std::string role, path, json, family, provider, digest;  // digest: SHA-256 of the file
};
Result<Side> read_side(const std::string& role, const std::string& path,
                       const std::string& provider);

}  // namespace outrider::tandem
