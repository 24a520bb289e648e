// A log that counts, a folder that goes, an adapter written in C.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/log.h"
#include "outrider/adapter.h"

extern "C" void c11_adapter(outrider_adapter_v1* out);

namespace outrider::adapter::test {

class LogLines {
 public:
  LogLines() {
    set_log_level(LogLevel::kInfo);
    set_log_sink([](void* user, LogLevel,
                    const char* line) { static_cast<LogLines*>(user)->lines.push_back(line); },
                 this);
  }
  ~LogLines() { set_log_sink(nullptr, nullptr); }
  size_t count(const std::string& part) const {
    size_t n = 0;
    for (const std::string& line : lines) n += line.find(part) != std::string::npos;
    return n;
  }
  std::vector<std::string> lines;
};

struct Folder {
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "outrider_adapter_XXXXXX";
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

inline outrider_adapter_v1 empty_adapter() {
  outrider_adapter_v1 adapter;
  outrider_adapter_init(&adapter);
  return adapter;
}

inline outrider_engagement_v1 idle_car() {
  outrider_engagement_v1 now{};
  now.struct_size = sizeof now;
  now.fresh = OUTRIDER_YES;
  return now;
}

}  // namespace outrider::adapter::test
