// The JSON payloads, each as a struct with its writer and its reader. Unknown keys are skipped:
// peers of other releases add some. Readers bound what they take; errors are kInvalid and name the
// field, the value found and the values allowed.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "link/jetlink/spec.h"
#include "link/jetlink/wire.h"

namespace outrider::link::jetlink {

// An empty payload counts as {}.
Result<Json> parse_payload(std::span<const std::byte> payload);

struct HelloReq {
  std::string name, nonce;      // of the client: for people
  std::string kind, usb_speed;  // of its link: usb, cable or tcp; may be empty
};
std::string to_json(const HelloReq& message);
Result<HelloReq> read_hello_req(const Json& json);

struct HelloResp {
  int64_t protocol = 3;
  std::string backend, runtime_version, device;
  std::string engine_state = "none";
  std::optional<std::string> loaded;  // SHA-256 of the resident model
  int64_t frames_served = 0;
  std::vector<std::string> cached_models;
  std::string telemetry = "{}";  // one JSON object
  double sleep_after = 0;        // 0: the host never suspends
  uint16_t frame_port = 0;       // 0: no frame datagrams are offered
  uint32_t frame_token = 0;
};
std::string to_json(const HelloResp& message);
Result<HelloResp> read_hello_resp(const Json& json);

std::string to_json(const ModelId& message);  // ENGINE_REQ
Result<ModelId> read_engine_req(const Json& json);

enum class EngineState : uint8_t { kNone, kNeedUpload, kBuilding, kReady, kFailed };
const char* state_name(EngineState state) noexcept;
std::optional<EngineState> find_state(std::string_view name) noexcept;

struct EngineResp {
  EngineState state = EngineState::kNone;
  std::string detail;
  std::optional<std::string> sha256;
  uint32_t chunk = kUploadChunkBytes;
  std::optional<ModelSpec> spec;  // when ready
};
std::string to_json(const EngineResp& message);
Result<EngineResp> read_engine_resp(const Json& json);

struct Progress {
  std::string stage;  // upload, patch, parse, build, save, load, failed
  double frac = 0;    // 0 to 1; four places on the wire
  std::string msg;
};
std::string to_json(const Progress& message);
Result<Progress> read_progress(const Json& json);

struct StateResp {
  std::string telemetry = "{}";
  EngineState state = EngineState::kNone;
  std::string detail;
  std::optional<std::string> loaded;
  int64_t frames_served = 0;
};
std::string to_json(const StateResp& message);

struct ErrorResp {
  std::string error, detail;
};
std::string to_json(const ErrorResp& message);
Result<ErrorResp> read_error(const Json& json);

struct ShutdownResp {
  bool ok = false;
  std::string detail;
};
std::string to_json(const ShutdownResp& message);
Result<ShutdownResp> read_shutdown_resp(const Json& json);

// Of SHUTDOWN_REQ and LEAVE; "" when there is none. For people: at most 200 bytes, printable.
std::string read_reason(const Json& json);
std::string reason_json(std::string_view reason);
// "reason, drops 1, p99_ms 41.2": the reason of a LEAVE and the numbers beside it.
std::string leave_text(const Json& json);

}  // namespace outrider::link::jetlink
