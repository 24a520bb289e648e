#include "providers/link/open_config.h"

#include <cstring>

#include "base/printable.h"
#include "link/transport/transport.h"

namespace outrider {
namespace {

constexpr RemoteKey kKeys[] = {
    {"model_family", true, nullptr, "\"remote\""},
    {"endpoint", true, nullptr, "\"tcp://HOST:PORT\", \"usb:SERIAL\" or \"loopback:NAME\""},
    {"model", true, nullptr, "a name of the host's configuration, or a SHA-256; 1 to 255 bytes"},
    {"deadline_ms", false, "200", "a whole number from 1 to 600000"},
    {"connect_ms", false, "5000", "a whole number from 1 to 600000"},
    {"key_file", false, "\"\"", "a path, or empty"},
    {"plan", false, "\"mirror\"", "\"mirror\" or \"send_receive\""},
    {"dialect", false, "\"outrider\"", "\"outrider\" or \"jetlink\""},
    {"build_ms", false, "900000", "a whole number from 1 to 3600000, with dialect \"jetlink\""},
    {"frame_skip", false, "4", "a whole number from 1 to 64, with dialect \"jetlink\""},
    {"desire", false, "\"level\"", "\"level\" or \"pulse\", with dialect \"jetlink\""},
    {"datagrams", false, "\"auto\"", "\"auto\" or \"off\", with dialect \"jetlink\""},
    {"datagram_ms", false, "46", "a whole number from 1 to 600000, with dialect \"jetlink\""},
};

const RemoteKey* find_key(const std::string& name) {
  for (const RemoteKey& key : kKeys)
    if (name == key.name) return &key;
  return nullptr;
}

Error wrong(const char* key, const Json* found) {
  const std::string text = found == nullptr     ? "missing"
                           : found->is_string() ? "\"" + printable(found->text()) + "\""
                                                : printable(found->text());
  return make_error(Code::kInvalid, "config: key \"%s\" is %s, allowed: %s", key, text.c_str(),
                    find_key(key)->allowed);
}

Result<void> read_count(const Json& json, const char* key, int64_t most, int64_t& out) {
  const Json* value = json.find(key);
  if (value == nullptr) return {};
  if (!value->is_number() || !value->is_integer() || value->integer() < 1 ||
      value->integer() > most)
    return wrong(key, value);
  out = value->integer();
  return {};
}

Result<void> read_text(const Json& json, const char* key, std::string& out) {
  const Json* value = json.find(key);
  if (value == nullptr)
    return find_key(key)->required ? Result<void>(wrong(key, nullptr)) : Result<void>();
  if (!value->is_string()) return wrong(key, value);
  if (find_key(key)->required && value->text().empty()) return wrong(key, value);
  out = value->text();
  return {};
}

// Keys that mean nothing in the chosen dialect are refused, not ignored.
Result<void> check_dialect(const Json& json, const RemoteConfig& config) {
  for (const char* key : {"build_ms", "frame_skip", "desire", "datagrams", "datagram_ms"})
    if (!config.jetlink && json.find(key) != nullptr) return wrong(key, json.find(key));
  if (config.jetlink && !config.key_file.empty())
    return make_error(Code::kInvalid,
                      "config: key \"key_file\" does not go with dialect \"jetlink\", which has no "
                      "encryption; leave it out");
  return {};
}

}  // namespace

std::span<const RemoteKey> remote_keys() {
  return kKeys;
}

Result<RemoteConfig> read_remote_config(const Json& json) {
  for (const Json::Member& member : json.members()) {
    if (find_key(member.name) != nullptr) continue;
    std::string all;
    for (const RemoteKey& key : kKeys) all += (all.empty() ? "" : ", ") + std::string(key.name);
    return make_error(Code::kInvalid, "config: unknown key \"%s\"; model_family remote has: %s",
                      printable(member.name).c_str(), all.c_str());
  }
  RemoteConfig out;
  std::string plan = "mirror", dialect = "outrider", desire = "level", datagrams = "auto";
  OUTRIDER_TRY(read_text(json, "endpoint", out.endpoint));
  OUTRIDER_TRY(read_text(json, "model", out.model));
  OUTRIDER_TRY(read_text(json, "key_file", out.key_file));
  OUTRIDER_TRY(read_text(json, "plan", plan));
  OUTRIDER_TRY(read_text(json, "dialect", dialect));
  OUTRIDER_TRY(read_text(json, "desire", desire));
  OUTRIDER_TRY(read_text(json, "datagrams", datagrams));
  constexpr int64_t kMostMs = 600'000;
  OUTRIDER_TRY(read_count(json, "deadline_ms", kMostMs, out.deadline_ms));
  OUTRIDER_TRY(read_count(json, "connect_ms", kMostMs, out.connect_ms));
  OUTRIDER_TRY(read_count(json, "build_ms", 3'600'000, out.build_ms));
  OUTRIDER_TRY(read_count(json, "frame_skip", 64, out.frame_skip));
  OUTRIDER_TRY(read_count(json, "datagram_ms", kMostMs, out.datagram_ms));
  if (out.model.size() > 255) return wrong("model", json.find("model"));
  if (plan != "mirror" && plan != "send_receive") return wrong("plan", json.find("plan"));
  out.send_receive = plan == "send_receive";
  if (dialect != "outrider" && dialect != "jetlink") return wrong("dialect", json.find("dialect"));
  if (desire != "level" && desire != "pulse") return wrong("desire", json.find("desire"));
  if (datagrams != "auto" && datagrams != "off") return wrong("datagrams", json.find("datagrams"));
  out.jetlink = dialect == "jetlink";
  out.pulse = desire == "pulse";
  out.datagrams = datagrams == "auto";
  OUTRIDER_TRY(check_dialect(json, out));
  auto endpoint = link::parse_endpoint(out.endpoint);
  if (!endpoint) return endpoint.error();
  return out;
}

}  // namespace outrider
