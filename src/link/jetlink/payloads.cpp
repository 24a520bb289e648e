#include "link/jetlink/payloads.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/json_text.h"
#include "base/printable.h"

namespace outrider::link::jetlink {
namespace {

constexpr size_t kMaxCached = 4096;

std::string or_null(const std::optional<std::string>& text) {
  return text ? json_quoted(*text) : "null";
}

std::string decimal(double value, const char* format) {
  char out[32];
  std::snprintf(out, sizeof out, format, std::isfinite(value) ? value : 0.0);
  return out;
}

Error wrong(const char* field, const Json* found, const char* allowed) {
  const std::string text = found == nullptr     ? "missing"
                           : found->is_string() ? "\"" + printable(found->text()) + "\""
                           : found->is_number() ? printable(found->text())
                                                : "of another kind";
  return make_error(Code::kInvalid, "%s is %s, allowed: %s", field, text.c_str(), allowed);
}

// Leaves `out` alone when the key is absent or null.
Result<void> take_text(const Json& json, const char* key, std::string& out, size_t most = 4096) {
  const Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_string() || value->text().size() > most)
    return wrong(key, value, "a text of bounded length");
  out = value->text();
  return {};
}

Result<void> take_count(const Json& json, const char* key, int64_t least, int64_t most,
                        int64_t& out) {
  const Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_integer() || value->integer() < least || value->integer() > most) {
    char allowed[80];
    std::snprintf(allowed, sizeof allowed, "a whole number from %lld to %lld",
                  static_cast<long long>(least), static_cast<long long>(most));
    return wrong(key, value, allowed);
  }
  out = value->integer();
  return {};
}

Result<void> take_sha(const Json& json, const char* key, std::optional<std::string>& out) {
  const Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_string() || !is_sha256(value->text()))
    return wrong(key, value, "64 lower-case hexadecimal digits, or null");
  out = value->text();
  return {};
}

Result<void> take_real(const Json& json, const char* key, double& out) {
  const Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_number()) return wrong(key, value, "a number");
  out = value->number();
  return {};
}

constexpr const char* kStates[] = {"none", "need_upload", "building", "ready", "failed"};

}  // namespace

Result<Json> parse_payload(std::span<const std::byte> payload) {
  const std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
  Json::Limits limits;
  limits.max_bytes = kMaxReplyJson;
  limits.max_depth = 16;
  limits.max_values = 16384;
  auto json = Json::parse(text.empty() ? "{}" : text, Json::Dialect::kStandard, limits);
  if (json && !json.value().is_object())
    return make_error(Code::kInvalid, "the payload is no JSON object");
  return json;
}

std::string to_json(const HelloReq& message) {
  std::string out = "{\"client\":{\"name\":" + json_quoted(message.name) +
                    ",\"nonce\":" + json_quoted(message.nonce);
  if (!message.kind.empty()) {
    out += ",\"link\":{\"kind\":" + json_quoted(message.kind);
    if (!message.usb_speed.empty()) out += ",\"usb_speed\":" + json_quoted(message.usb_speed);
    out += "}";
  }
  return out + "}}";
}

Result<HelloReq> read_hello_req(const Json& json) {
  HelloReq out;
  const Json* client = json.find("client");
  if (client == nullptr || client->is_null()) return out;
  if (!client->is_object()) return wrong("client", client, "an object");
  OUTRIDER_TRY(take_text(*client, "name", out.name));
  OUTRIDER_TRY(take_text(*client, "nonce", out.nonce));
  const Json* link = client->find("link");
  if (link == nullptr || !link->is_object()) return out;
  OUTRIDER_TRY(take_text(*link, "kind", out.kind));
  OUTRIDER_TRY(take_text(*link, "usb_speed", out.usb_speed));
  return out;
}

std::string to_json(const HelloResp& m) {
  std::string out =
      "{\"protocol\":" + std::to_string(m.protocol) + ",\"backend\":" + json_quoted(m.backend) +
      ",\"runtime_version\":" + json_quoted(m.runtime_version) +
      ",\"device\":" + json_quoted(m.device) + ",\"engine_state\":" + json_quoted(m.engine_state) +
      ",\"loaded\":" + or_null(m.loaded) + ",\"frames_served\":" + std::to_string(m.frames_served) +
      ",\"cached_models\":[";
  for (size_t i = 0; i < m.cached_models.size(); ++i)
    out += (i == 0 ? "" : ",") + json_quoted(m.cached_models[i]);
  out += "],\"telemetry\":" + m.telemetry + ",\"sleep_after\":" + decimal(m.sleep_after, "%.1f");
  if (m.frame_port != 0)
    out += ",\"frame_port\":" + std::to_string(m.frame_port) +
           ",\"frame_token\":" + std::to_string(m.frame_token);
  return out + "}";
}

Result<HelloResp> read_hello_resp(const Json& json) {
  HelloResp out;
  OUTRIDER_TRY(take_count(json, "protocol", 0, 65535, out.protocol));
  OUTRIDER_TRY(take_text(json, "backend", out.backend));
  OUTRIDER_TRY(take_text(json, "runtime_version", out.runtime_version));
  OUTRIDER_TRY(take_text(json, "device", out.device));
  OUTRIDER_TRY(take_text(json, "engine_state", out.engine_state));
  OUTRIDER_TRY(take_sha(json, "loaded", out.loaded));
  OUTRIDER_TRY(take_count(json, "frames_served", 0, INT64_MAX, out.frames_served));
  if (const Json* cached = json.find("cached_models"); cached != nullptr && cached->is_array()) {
    if (cached->items().size() > kMaxCached)
      return make_error(Code::kInvalid, "cached_models has %zu entries, allowed: 4096",
                        cached->items().size());
    for (const Json& sha : cached->items()) {
      if (!sha.is_string() || !is_sha256(sha.text()))
        return wrong("cached_models", &sha, "digests of 64 lower-case hexadecimal digits");
      out.cached_models.push_back(sha.text());
    }
  }
  out.sleep_after = 1.0;  // what a host that does not say it means
  OUTRIDER_TRY(take_real(json, "sleep_after", out.sleep_after));
  int64_t port = 0, token = 0;
  OUTRIDER_TRY(take_count(json, "frame_port", 0, 65535, port));
  OUTRIDER_TRY(take_count(json, "frame_token", 0, UINT32_MAX, token));
  out.frame_port = static_cast<uint16_t>(token == 0 ? 0 : port);
  out.frame_token = static_cast<uint32_t>(token);
  return out;
}

std::string to_json(const ModelId& m) {
  return "{\"sha256\":" + json_quoted(m.sha256) + ",\"nbytes\":" + std::to_string(m.nbytes) +
         ",\"frame_skip\":" + std::to_string(m.frame_skip) + "}";
}

Result<ModelId> read_engine_req(const Json& json) {
  ModelId out;
  std::optional<std::string> sha;
  OUTRIDER_TRY(take_sha(json, "sha256", sha));
  if (!sha) return wrong("sha256", nullptr, "64 lower-case hexadecimal digits");
  out.sha256 = *sha;
  out.nbytes = -1;
  OUTRIDER_TRY(take_count(json, "nbytes", 0, kMaxModelBytes, out.nbytes));
  if (out.nbytes < 0) return wrong("nbytes", nullptr, "a whole number from 0 on");
  int64_t skip = kDefaultFrameSkip;
  OUTRIDER_TRY(take_count(json, "frame_skip", 1, kMaxFrameSkip, skip));
  out.frame_skip = static_cast<uint32_t>(skip);
  return out;
}

const char* state_name(EngineState state) noexcept {
  return kStates[static_cast<size_t>(state)];
}

std::optional<EngineState> find_state(std::string_view name) noexcept {
  for (size_t i = 0; i < std::size(kStates); ++i)
    if (name == kStates[i]) return static_cast<EngineState>(i);
  return std::nullopt;
}

std::string to_json(const EngineResp& m) {
  std::string out = std::string("{\"state\":\"") + state_name(m.state) +
                    "\",\"detail\":" + json_quoted(m.detail) + ",\"sha256\":" + or_null(m.sha256) +
                    ",\"chunk\":" + std::to_string(m.chunk);
  if (m.spec) out += ",\"spec\":" + to_json(*m.spec);
  return out + "}";
}

Result<EngineResp> read_engine_resp(const Json& json) {
  EngineResp out;
  std::string state;
  OUTRIDER_TRY(take_text(json, "state", state, 32));
  const auto found = find_state(state);
  if (!found)
    return wrong("state", json.find("state"), "none, need_upload, building, ready or failed");
  out.state = *found;
  OUTRIDER_TRY(take_text(json, "detail", out.detail));
  OUTRIDER_TRY(take_sha(json, "sha256", out.sha256));
  int64_t chunk = kUploadChunkBytes;
  OUTRIDER_TRY(take_count(json, "chunk", 0, INT64_MAX, chunk));
  if (chunk == 0) chunk = kUploadChunkBytes;
  out.chunk = static_cast<uint32_t>(std::min<int64_t>(chunk, kMaxPayloadBytes - 8));
  if (const Json* spec = json.find("spec"); spec != nullptr && !spec->is_null()) {
    auto read = spec_from_json(*spec);
    if (!read) return read.error();
    out.spec = std::move(read.value());
  }
  return out;
}

std::string to_json(const Progress& m) {
  return "{\"stage\":" + json_quoted(m.stage) +
         ",\"frac\":" + decimal(std::clamp(m.frac, 0.0, 1.0), "%.4f") +
         ",\"msg\":" + json_quoted(m.msg) + "}";
}

Result<Progress> read_progress(const Json& json) {
  Progress out;
  OUTRIDER_TRY(take_text(json, "stage", out.stage));
  OUTRIDER_TRY(take_real(json, "frac", out.frac));
  OUTRIDER_TRY(take_text(json, "msg", out.msg));
  return out;
}

std::string to_json(const StateResp& m) {
  // The telemetry fields stand beside the others, not inside an object of their own.
  std::string fields = m.telemetry.substr(1, m.telemetry.size() - 2);
  if (!fields.empty()) fields += ",";
  return "{" + fields + "\"engine_state\":\"" + state_name(m.state) +
         "\",\"detail\":" + json_quoted(m.detail) + ",\"loaded\":" + or_null(m.loaded) +
         ",\"frames_served\":" + std::to_string(m.frames_served) + "}";
}

std::string to_json(const ErrorResp& m) {
  return "{\"error\":" + json_quoted(m.error) + ",\"detail\":" + json_quoted(m.detail) + "}";
}

Result<ErrorResp> read_error(const Json& json) {
  ErrorResp out;
  OUTRIDER_TRY(take_text(json, "error", out.error));
  OUTRIDER_TRY(take_text(json, "detail", out.detail));
  return out;
}

std::string to_json(const ShutdownResp& m) {
  return std::string("{\"ok\":") + (m.ok ? "true" : "false") +
         ",\"detail\":" + json_quoted(m.detail) + "}";
}

Result<ShutdownResp> read_shutdown_resp(const Json& json) {
  ShutdownResp out;
  const Json* ok = json.find("ok");
  if (ok == nullptr || !ok->is_bool()) return wrong("ok", ok, "true or false");
  out.ok = ok->boolean();
  OUTRIDER_TRY(take_text(json, "detail", out.detail));
  return out;
}

std::string read_reason(const Json& json) {
  const Json* reason = json.find("reason");
  return reason != nullptr && reason->is_string() ? printable(reason->text(), 200) : "";
}

std::string reason_json(std::string_view reason) {
  return "{\"reason\":" + json_quoted(reason.substr(0, 200)) + "}";
}

std::string leave_text(const Json& json) {
  std::string out = read_reason(json);
  if (out.empty()) out = "no reason";
  for (const Json::Member& member : json.members())
    if (member.value.is_number() && out.size() < 300)
      out += ", " + printable(member.name, 32) + " " + printable(member.value.text(), 24);
  return out;
}

}  // namespace outrider::link::jetlink
