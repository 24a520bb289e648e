#include "providers/tandem/config.h"

#include <cinttypes>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "host/config_file.h"

namespace outrider::tandem {
namespace {

using C = TandemConfig;

struct TextKey {
  const char* name;
  std::string C::*field;
  bool required;
};
constexpr TextKey kTextKeys[] = {{"standby", &C::standby, true},
                                 {"lead", &C::lead, true},
                                 {"preset", &C::preset, false},
                                 {"standby_provider", &C::standby_provider, false},
                                 {"lead_provider", &C::lead_provider, false},
                                 {"record_path", &C::record_path, false}};

// Numbers beside the limits.
struct NumberKey {
  const char* name;
  double least, most;
  bool whole;
  void (*set)(C&, double);
};
constexpr NumberKey kNumberKeys[] = {
    {"agree_distance", 0, 1e30, false, [](C& c, double v) { c.agree_distance = v; }},
    {"open_wait_ms", 0, 600000, true,
     [](C& c, double v) { c.open_wait_ms = static_cast<int64_t>(v); }},
    {"max_input_bytes", 16, 1 << 28, true,
     [](C& c, double v) { c.room.max_input_bytes = static_cast<uint64_t>(v); }},
    {"max_image_bytes", 16, 1 << 28, true,
     [](C& c, double v) { c.room.max_image_bytes = static_cast<uint64_t>(v); }},
    {"max_output_bytes", 16, 1 << 28, true,
     [](C& c, double v) { c.room.max_output_bytes = static_cast<uint64_t>(v); }}};

template <class Visit>
void each_key(Visit&& visit) {
  for (const TextKey& key : kTextKeys) visit(key.name);
  for (const NumberKey& key : kNumberKeys) visit(key.name);
  for (const LimitRow& row : limit_rows()) visit(row.name);
}

Error unknown_key(const std::string& name) {
  std::vector<const char*> known = {"model_family"};
  each_key([&](const char* key) { known.push_back(key); });
  return unknown_key_error("tandem", name, known);
}

Result<double> number_of(const std::string& name, const Json& value) {
  if (!value.is_number())
    return make_error(Code::kInvalid, "config: %s is \"%.80s\", allowed is a number", name.c_str(),
                      value.text().c_str());
  return value.number();
}

Result<void> read_text(const TextKey& key, const Json& value, C& config) {
  if (!value.is_string())
    return make_error(Code::kInvalid, "config: %s is %.80s, allowed is a string", key.name,
                      value.text().c_str());
  if (value.text().empty() && key.required)
    return make_error(Code::kInvalid, "config: %s is empty, allowed is the path of a configuration",
                      key.name);
  if (value.text().find('\0') != std::string::npos)
    return make_error(Code::kInvalid, "config: %s contains a NUL byte", key.name);
  config.*key.field = value.text();
  return {};
}

Result<void> read_number(const NumberKey& key, const Json& value, C& config) {
  auto number = number_of(key.name, value);
  if (!number) return number.error();
  const double v = number.value();
  if (v < key.least || v > key.most || (key.whole && !value.is_integer()))
    return make_error(Code::kInvalid, "config: %s is %.80s, allowed is %s %g..%g", key.name,
                      value.text().c_str(), key.whole ? "an integer" : "a number", key.least,
                      key.most);
  key.set(config, v);
  return {};
}

Result<void> read_limit(const LimitRow& row, const Json& value, C& config) {
  auto number = number_of(row.name, value);
  if (!number) return number.error();
  if (row.unit != Unit::kMs && !value.is_integer())
    return make_error(Code::kInvalid, "config: %s is %.80s, allowed is an integer %g..%g", row.name,
                      value.text().c_str(), row.least, row.most);
  auto set = set_limit(config.limits, row, number.value());
  if (!set) return make_error(Code::kInvalid, "config: %s", set.error().text);
  return {};
}

Result<void> read_member(const Json::Member& member, C& config) {
  if (member.name == "model_family") return {};
  for (const TextKey& key : kTextKeys)
    if (member.name == key.name) return read_text(key, member.value, config);
  for (const NumberKey& key : kNumberKeys)
    if (member.name == key.name) return read_number(key, member.value, config);
  if (const LimitRow* row = find_limit(member.name)) return read_limit(*row, member.value, config);
  return unknown_key(member.name);
}

}  // namespace

Result<TandemConfig> read_tandem_config(const Json& json) {
  TandemConfig config;
  // The preset comes first, wherever it stands: limits are set over it.
  if (const Json* preset = json.find("preset"); preset != nullptr)
    OUTRIDER_TRY(read_text(kTextKeys[2], *preset, config));
  auto limits = preset_limits(config.preset);
  if (!limits) return make_error(Code::kInvalid, "config: %s", limits.error().text);
  config.limits = limits.value();
  for (const Json::Member& member : json.members()) OUTRIDER_TRY(read_member(member, config));
  // A loop of another rate: the age follows the period unless it is given itself.
  if (json.find("engaged_max_age_ms") == nullptr)
    config.limits.engaged_max_age_ns = 3 * config.limits.period_ns;
  for (const TextKey& key : kTextKeys)
    if (key.required && json.find(key.name) == nullptr)
      return make_error(Code::kInvalid,
                        "config: key \"%s\" is missing; model_family tandem needs it", key.name);
  if (auto fine = check_limits(config.limits); !fine)
    return make_error(Code::kInvalid, "config: %s", fine.error().text);
  return config;
}

Result<Side> read_side(const std::string& role, const std::string& path,
                       const std::string& provider) {
  auto file = host::read_config_file(path, provider);
  if (!file) return make_error(file.error().code, "%s: %s", role.c_str(), file.error().text);
  host::ConfigFile& f = file.value();
  if (f.family == "tandem")
    return make_error(Code::kUnsupported,
                      "%s %.200s: a tandem inside a tandem; allowed are the other families",
                      role.c_str(), path.c_str());
  return Side{role, f.path, f.json, f.family, f.provider, f.digest};
}

}  // namespace outrider::tandem
