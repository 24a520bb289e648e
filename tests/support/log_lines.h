// What the library logs while this object lives.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"

namespace outrider::test {

class LogLines {
 public:
  LogLines() {
    set_log_level(LogLevel::kInfo);
    set_log_sink(
        [](void* user, LogLevel, const char* line) {
          auto* self = static_cast<LogLines*>(user);
          const std::scoped_lock hold(self->lock_);
          self->lines_.emplace_back(line);
        },
        this);
  }
  ~LogLines() { set_log_sink(nullptr, nullptr); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  // Lines with this part.
  size_t count(const std::string& part) const {
    const std::scoped_lock hold(lock_);
    size_t n = 0;
    for (const std::string& line : lines_) n += line.find(part) != std::string::npos;
    return n;
  }
  std::string text() const {
    const std::scoped_lock hold(lock_);
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
  }

 private:
  mutable std::mutex lock_;
  std::vector<std::string> lines_;
};

}  // namespace outrider::test
