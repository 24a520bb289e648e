#include "record/runtime.h"

#include "base/json.h"

namespace outrider::record {
namespace {

constexpr int64_t kMaxAgeNs = 1500000000, kMaxOutputAgeNs = 250000000;
constexpr size_t kMaxCheckpointBytes = 256;
constexpr const char* kStates[] = {"none",  "joining", "retrying",
                                   "ready", "running", "unavailable"};

// Reads typed fields; a missing one, or one of another type, is remembered.
struct Fields {
  const Json& json;
  bool typed = true;
  int64_t integer(const char* key) {
    const Json* value = json.find(key);
    typed &= value != nullptr && value->is_number() && value->is_integer();
    return value != nullptr ? value->integer() : 0;
  }
  std::string word(const char* key) {
    const Json* value = json.find(key);
    typed &= value != nullptr && value->is_string();
    return value != nullptr ? value->text() : std::string();
  }
};

// Digest, and the optional size and name of what leads. False: not proven.
bool read_artifact(const Json& json, RuntimeView& view) {
  const Json *digest = json.find("artifact_sha256"), *bytes = json.find("artifact_nbytes"),
             *name = json.find("model_checkpoint");
  if (digest == nullptr || !digest->is_string() || !is_hex(digest->text(), 64)) return false;
  if (bytes != nullptr && (!bytes->is_number() || !bytes->is_integer() || bytes->integer() <= 0))
    return false;
  if (name != nullptr && (!name->is_string() || name->text().size() > kMaxCheckpointBytes))
    return false;
  view.artifact_sha256 = digest->text();
  if (bytes != nullptr) view.artifact_bytes = bytes->integer();
  if (name != nullptr) view.checkpoint = name->text();
  return true;
}

// Optional, both or none. False: malformed.
bool read_warp(const Json& json, RuntimeView& view) {
  const Json *route = json.find("warp_route"), *reason = json.find("warp_reason");
  if (route == nullptr && reason == nullptr) return true;
  if (route == nullptr || !route->is_string() || reason == nullptr || !reason->is_string())
    return false;
  if (route->text() != "direct" && route->text() != "staged") return false;
  view.warp_route = route->text();
  view.warp_reason = reason->text();
  return true;
}

}  // namespace

bool is_runtime_record(std::string_view text) {
  auto parsed = Json::parse(text, Json::Dialect::kStandard,
                            {.max_bytes = kMaxRuntimeBytes, .max_depth = 4, .max_values = 64});
  if (!parsed || !parsed.value().is_object()) return false;
  Fields of{parsed.value()};
  for (const char* number :
       {"version", "pid", "process_start_ticks", "mono_ns", "handovers", "remote_output_mono_ns"})
    (void)of.integer(number);
  const std::string session = of.word("session"), boot = of.word("boot_id");
  (void)of.word("state");
  return of.typed && is_hex(session, 32) && !boot.empty();
}

RuntimeView read_runtime(std::string_view text, const Place& place) {
  const RuntimeView nothing;
  auto parsed = Json::parse(text, Json::Dialect::kStandard,
                            {.max_bytes = kMaxRuntimeBytes, .max_depth = 4, .max_values = 64});
  if (!parsed || !parsed.value().is_object()) return nothing;
  Fields of{parsed.value()};
  const int64_t version = of.integer("version"), pid = of.integer("pid"),
                ticks = of.integer("process_start_ticks"), mono_ns = of.integer("mono_ns"),
                output_ns = of.integer("remote_output_mono_ns");
  RuntimeView view;
  view.handovers = of.integer("handovers");
  view.state = of.word("state");
  const std::string boot = of.word("boot_id"), session = of.word("session");
  bool known = false;
  for (const char* state : kStates) known |= view.state == state;
  const bool proven = of.typed && version == 1 && !boot.empty() && boot == place.boot_id &&
                      is_hex(session, 32) && pid > 0 && ticks > 0 && mono_ns > 0 &&
                      mono_ns <= place.now_ns && place.now_ns - mono_ns <= kMaxAgeNs &&
                      output_ns >= 0 && output_ns <= mono_ns && known && view.handovers >= 0 &&
                      place.start_ticks(pid) == ticks;
  if (!proven) return nothing;
  if (!read_warp(of.json, view)) return nothing;
  RuntimeView led = view;
  led.active = view.state == "running" && read_artifact(of.json, led) && output_ns > 0 &&
               mono_ns - output_ns <= kMaxOutputAgeNs;
  return led.active ? led : view;
}

}  // namespace outrider::record
