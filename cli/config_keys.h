// Keys of an open configuration for a PI0 / PI0.5 file, as one table.
#pragma once
#include <span>

namespace outrider::cli {

struct ConfigKey {
  const char* name;
  const char* by_default;  // JSON literal; nullptr: required
  const char* help;
  bool is_text;
};
std::span<const ConfigKey> pi0_keys();

}  // namespace outrider::cli
