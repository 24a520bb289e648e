#include "base/log.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "base/env.h"

namespace outrider {
namespace {

constexpr const char* kNames[] = {"off", "error", "warn", "info", "debug"};
constexpr LogLevel kDefaultLevel = LogLevel::kWarn;

struct Output {
  std::mutex mutex;
  LogSink sink = nullptr;
  void* user = nullptr;
};

Output& output() {
  static Output the_output;
  return the_output;
}

// What the environment asks for; `fault` when it asks for something unknown.
struct FromEnvironment {
  LogLevel level = kDefaultLevel;
  Error fault;
  FromEnvironment() {
    const char* name = env_log_level();
    if (name == nullptr) return;
    const Result<LogLevel> parsed = parse_log_level(name);
    if (parsed) {
      level = parsed.value();
    } else {
      fault = make_error(Code::kInvalid, "%s: %s; %s is used", kEnvLogLevel, parsed.error().text,
                         log_level_name(kDefaultLevel));
    }
  }
};

const FromEnvironment& from_environment() {
  static const FromEnvironment read_once;
  return read_once;
}

std::atomic<LogLevel>& level_setting() {
  static std::atomic<LogLevel> level{from_environment().level};
  return level;
}

thread_local bool inside_sink = false;

void deliver(LogLevel level, char* line) {
  for (char* c = line; *c != '\0'; ++c) {
    if (static_cast<unsigned char>(*c) < 0x20 || *c == 0x7F) *c = '?';
  }
  if (inside_sink) return;
  Output& out = output();
  const std::lock_guard lock(out.mutex);
  if (out.sink == nullptr) return;
  inside_sink = true;
  out.sink(out.user, level, line);
  inside_sink = false;
}

}  // namespace

const char* log_level_name(LogLevel level) {
  return kNames[static_cast<uint8_t>(level)];
}

Result<LogLevel> parse_log_level(std::string_view name) {
  for (const LogLevel level :
       {LogLevel::kOff, LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug}) {
    if (name == log_level_name(level)) return level;
  }
  return make_error(Code::kInvalid,
                    "log level \"%.*s\" is unknown, expected off, error, warn, info or debug",
                    static_cast<int>(name.size() < 32 ? name.size() : 32), name.data());
}

void set_log_sink(LogSink sink, void* user) {
  {
    Output& out = output();
    const std::lock_guard lock(out.mutex);
    out.sink = sink;
    out.user = user;
  }
  static std::atomic<bool> told{false};
  const Error& fault = from_environment().fault;
  if (sink != nullptr && fault.code != Code::kOk && !told.exchange(true)) {
    log_line(LogLevel::kWarn, "%s", fault.text);
  }
}

void stderr_log_sink(void*, LogLevel level, const char* line) {
  std::fprintf(stderr, "outrider: %s: %s\n", log_level_name(level), line);
}

void set_log_level(LogLevel level) {
  level_setting().store(level, std::memory_order_relaxed);
}

LogLevel log_level() {
  return level_setting().load(std::memory_order_relaxed);
}

void log_line(LogLevel level, const char* format, ...) {
  if (level == LogLevel::kOff || level > log_level()) return;
  char line[kLogLineBytes];
  va_list args;
  va_start(args, format);
  std::vsnprintf(line, sizeof line, format, args);
  va_end(args);
  deliver(level, line);
}

}  // namespace outrider
