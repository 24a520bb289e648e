// Where the shared reference data lies. Tests that need it skip visibly when it is not there.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/temp_dir.h"

namespace outrider::test {

// "" when absent.
inline std::string shared_dir() {
  const char* named = std::getenv("OUTRIDER_SHARED");
  const std::filesystem::path path = named != nullptr && *named != 0
                                         ? std::filesystem::path(named)
                                         : std::filesystem::path(OUTRIDER_SOURCE_DIR) / "../shared";
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? path.string() : std::string();
}

// A file or folder below shared_dir(), or "".
inline std::string shared_path(const std::string& relative) {
  const std::string dir = shared_dir();
  std::error_code ignored;
  return !dir.empty() && std::filesystem::exists(dir + "/" + relative, ignored)
             ? dir + "/" + relative
             : std::string();
}

}  // namespace outrider::test

// Skips the running test unless the shared file is there; `name` becomes its path.
#define OUTRIDER_NEED_SHARED(name, relative)                        \
  const std::string name = ::outrider::test::shared_path(relative); \
  if (name.empty()) GTEST_SKIP() << "shared reference data is absent: " << (relative)
