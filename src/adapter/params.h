// The stock parameter store: a folder of files, one value each.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace outrider::adapter {

inline constexpr size_t kMaxParamBytes = size_t{1} << 20;

struct ParamsPlace {
  const char* root = nullptr;    // PARAMS_ROOT
  const char* prefix = nullptr;  // OPENPILOT_PREFIX
  const char* home = nullptr;
  bool on_device = false;  // /data/params is there
};
// Pure. Empty when there is no root to be found.
std::string params_dir(const ParamsPlace& place);
// [any] The same from the environment as it is now.
std::string params_dir_here();

// A key is 1 to 64 of A-Z a-z 0-9 _; another one reads as unset and is never written.
bool is_key(std::string_view key);
// Errors: kNotFound (unset, unknown, or the file is no plain file), kInvalid (too long).
Result<std::string> read_param(const std::string& dir, std::string_view key);
// Replaced whole. `block`: on the disk before it returns. Errors: kInvalid (key, length), kFailed.
Result<void> write_param(const std::string& dir, std::string_view key, std::string_view value,
                         bool block);
Result<void> remove_param(const std::string& dir, std::string_view key);  // absent is fine

}  // namespace outrider::adapter
