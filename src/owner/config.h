// The service configuration of outriderd. Strict JSON; docs/guides/owner-daemon.md has a row a key.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "owner/borrow/protocol.h"
#include "owner/provision.h"

namespace outrider::owner {

struct Keys {
  std::string mode = "OutriderMode", parked = "IsOffroad", charge_phone = "OutriderChargePhone",
              big_model, catalog, spec = "OutriderSpec", shutdown = "DoShutdown",
              reboot = "DoReboot", uninstall = "DoUninstall";
};

struct Tuning {
  std::string path, value;
  bool at_least = false;  // a larger number that is there stays
};

struct PortCurrent {
  std::string path;  // "": this board has no such knob
  std::string cut = "0";
};

struct Config {
  std::string socket = kDefaultSocket;
  int64_t socket_mode = 0600;
  std::string status = "/run/outrider/status.json";
  std::string runtime_record = "/run/outrider/runtime.json";  // of the tandem; read only
  std::string power_off_request = "/run/outrider/power-off.json";
  std::string state_dir = "/var/lib/outrider/owner";  // settings journal, lock
  std::string params_dir;                             // "": the stock folder, looked up each time
  std::string log_file;                               // of the programs it starts
  Keys keys;
  std::string usb_serial, usb_controller;
  int64_t usb_owner_uid = 0, usb_owner_gid = 0;
  std::string tcp_listen = "tcp://127.0.0.1:5599";
  std::string key_file;
  bool plaintext = false;
  std::vector<Tuning> tuning;
  PortCurrent port_current;
  PinnedModel default_model;
  std::vector<std::string> provision, power_off;  // argv; {model} {sha256} {socket} are filled in
};

// [setup] Errors: kInvalid naming file, line, key, what is allowed; kNotFound.
Result<Config> read_config(const std::string& path);
Result<Config> parse_config(std::string_view text, const std::string& name);

// The settings that are changed while the link is on, unless the configuration has its own list.
std::vector<Tuning> stock_tuning();

// `{model}` and so on in the words of a command.
std::vector<std::string> filled(const std::vector<std::string>& argv, const Config& config,
                                const std::string& sha256);

}  // namespace outrider::owner
