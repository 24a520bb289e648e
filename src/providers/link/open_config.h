// The open configuration of model_family "remote".
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace outrider {

struct RemoteConfig {
  std::string endpoint, model, key_file;
  int64_t deadline_ms = 200, connect_ms = 5000;
  bool send_receive = false;
  // Dialect "jetlink" alone.
  bool jetlink = false;
  int64_t build_ms = 900'000;  // until the host's model is ready: upload and build
  int64_t frame_skip = 4;
  bool pulse = false;     // "desire" is a pulse already
  bool datagrams = true;  // an offer of frame datagrams is taken
  int64_t datagram_ms = 46;   // a frame that went that way is given up after so long
};

// One row per key: what `inspect` and the documentation list.
struct RemoteKey {
  const char* name;
  bool required;
  const char* by_default;  // as JSON; nullptr: none
  const char* allowed;
};
std::span<const RemoteKey> remote_keys();

// Errors: kInvalid with key, value found, values allowed.
Result<RemoteConfig> read_remote_config(const Json& json);

}  // namespace outrider
