// Everything that the environment may set: nothing else in this project reads it.
#pragma once

namespace outrider {

// OUTRIDER_LOG_LEVEL: off, error, warn, info or debug (parse_log_level in log.h reads it).
// OUTRIDER_PLUGIN_PATH: folders for provider libraries, separated by ':'.
// OUTRIDER_OPEN_ERRORS: "stderr" makes a provider write one line there when an open fails, for
// hosts that only show a code.
inline constexpr char kEnvLogLevel[] = "OUTRIDER_LOG_LEVEL";
inline constexpr char kEnvPluginPath[] = "OUTRIDER_PLUGIN_PATH";
inline constexpr char kEnvOpenErrors[] = "OUTRIDER_OPEN_ERRORS";

// [setup] nullptr when unset or empty, and in programs that run with more rights than their caller.
// Valid until the variable changes.
const char* env_log_level();
const char* env_plugin_path();
bool env_open_errors_to_stderr();
// What a terminal program honours: COLUMNS and TERM as text or nullptr, NO_COLOR set to anything.
const char* env_columns();
const char* env_terminal();
bool env_no_color();
// The parameter store of a driving stack: PARAMS_ROOT, OPENPILOT_PREFIX, HOME.
const char* env_params_root();
const char* env_params_prefix();
const char* env_home();
// A Jetlink server's test switch: JETLINK_DATAGRAMS_ANY_PEER is 1.
bool env_jetlink_datagrams_any_peer();
// What a service manager hands to a service: NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID.
const char* env_notify_socket();
const char* env_watchdog_usec();
const char* env_watchdog_pid();

}  // namespace outrider
