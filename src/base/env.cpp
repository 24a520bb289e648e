#include "base/env.h"

#include <cstdlib>
#include <string_view>

namespace outrider {
namespace {

const char* read(const char* name) {
  const char* value = secure_getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

const char* env_log_level() {
  return read(kEnvLogLevel);
}

const char* env_plugin_path() {
  return read(kEnvPluginPath);
}

const char* env_columns() {
  return read("COLUMNS");
}

const char* env_terminal() {
  return read("TERM");
}

bool env_no_color() {
  return read("NO_COLOR") != nullptr;
}

const char* env_params_root() {
  return read("PARAMS_ROOT");
}

const char* env_params_prefix() {
  return read("OPENPILOT_PREFIX");
}

const char* env_home() {
  return read("HOME");
}

const char* env_notify_socket() {
  return read("NOTIFY_SOCKET");
}

const char* env_watchdog_usec() {
  return read("WATCHDOG_USEC");
}

const char* env_watchdog_pid() {
  return read("WATCHDOG_PID");
}

bool env_jetlink_datagrams_any_peer() {
  const char* value = read("JETLINK_DATAGRAMS_ANY_PEER");
  return value != nullptr && std::string_view(value) == "1";
}

bool env_open_errors_to_stderr() {
  const char* value = read(kEnvOpenErrors);
  return value != nullptr && std::string_view(value) == "stderr";
}

}  // namespace outrider
