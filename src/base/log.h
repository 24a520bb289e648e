// Sentences for the embedder. The library prints nothing: without a sink a line goes nowhere.
//
// Error: someone must act. Warn: we coped. Info: state changed. Debug: for whoever looks for a
// fault. Never prompts, images or keys. Never inside a tick: hot code puts numbers in an EventRing.
#pragma once
#include <string_view>

#include "base/result.h"

namespace outrider {

enum class LogLevel : uint8_t { kOff, kError, kWarn, kInfo, kDebug };

const char* log_level_name(LogLevel level);
// "off", "error", "warn", "info", "debug". Errors: kInvalid naming the five.
Result<LogLevel> parse_log_level(std::string_view name);

// `line` is one line without its end, at most kLogLineBytes - 1 bytes, valid during the call. Calls
// come one at a time, from any thread. What a sink itself logs is dropped.
inline constexpr size_t kLogLineBytes = 512;
using LogSink = void (*)(void* user, LogLevel level, const char* line);

// [setup] nullptr silences. On return no call into the former sink is running or will start (a sink
// must not call this).
void set_log_sink(LogSink sink, void* user);
// For command line programs: "outrider: warn: ..." on standard error.
void stderr_log_sink(void* user, LogLevel level, const char* line);

// Lines above `level` are dropped before they are formatted. Until it is set, OUTRIDER_LOG_LEVEL
// decides, and kWarn when that is unset; a name it does not know counts as kWarn and is reported to
// the first sink that is set.
void set_log_level(LogLevel level);
LogLevel log_level();

// printf-style. Control bytes are shown as '?': a line stays a line.
__attribute__((format(printf, 2, 3))) void log_line(LogLevel level, const char* format, ...);

}  // namespace outrider
