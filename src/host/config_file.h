// An open configuration that another one names by its path: for runtimes that stand before others.
#pragma once
#include <cstddef>
#include <string>

#include "base/result.h"

namespace outrider::host {

inline constexpr size_t kMostConfigBytes = size_t{1} << 20;

struct ConfigFile {
  std::string path, json, family, provider, digest;  // digest: SHA-256 of the file
};
// [setup] `provider` "": the one its model_family chooses. Errors, each with the path: kInvalid
// (not a configuration, more than 1 MiB), kNotFound (file, provider), kUnsupported (a family
// unknown; a chain of configurations that never ends, host/config_chain.h).
Result<ConfigFile> read_config_file(const std::string& path, const std::string& provider);

}  // namespace outrider::host
