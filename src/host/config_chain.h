// Runtimes that stand before others name them by the path of a configuration. Whether such a chain
// ends is read from the files, before any of them is opened: each provider is a library of its own
// and none of them knows who opened it.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"

namespace outrider::host {

inline constexpr uint32_t kMostChainedConfigs = 4;  // files, one behind the other

// [setup] Follows the keys `runtime`, `standby` and `lead` of the configuration at `path`, whatever
// its family, to the last file. A file that cannot be read ends its branch: whoever opens it says
// why. A file counts as the same under all its names (links, other spellings of its path).
// Errors, each with the files in their order: kUnsupported (a file that stands behind itself, more
// than kMostChainedConfigs behind each other).
Result<void> check_config_chain(const std::string& path);

}  // namespace outrider::host
