#include "fake_config.h"

#include <cinttypes>

#include "base/json.h"

namespace outrider::fake {
namespace {

struct TextKey {
  const char* name;
  std::string FakeConfig::*field;
};
constexpr TextKey kTextKeys[] = {{"model_family", &FakeConfig::model_family},
                                 {"plan", &FakeConfig::plan},
                                 {"fault", &FakeConfig::fault},
                                 {"null_verbs", &FakeConfig::null_verbs},
                                 {"last_error", &FakeConfig::last_error},
                                 {"open_reason", &FakeConfig::open_reason}};

struct NumberKey {
  const char* name;
  int64_t FakeConfig::*field;
  int64_t least, most;
};
constexpr NumberKey kNumberKeys[] = {{"n_views", &FakeConfig::n_views, 1, 16},
                                     {"image_height", &FakeConfig::image_height, 1, 4096},
                                     {"image_width", &FakeConfig::image_width, 1, 4096},
                                     {"action_steps", &FakeConfig::action_steps, 1, 4096},
                                     {"action_dim", &FakeConfig::action_dim, 1, 4096},
                                     {"trace", &FakeConfig::trace, 0, 1},
                                     {"own_ports", &FakeConfig::own_ports, 0, 1},
                                     {"require_inputs", &FakeConfig::require_inputs, 0, 1},
                                     {"fail_at", &FakeConfig::fail_at, 0, INT32_MAX},
                                     {"fail_code", &FakeConfig::fail_code, INT32_MIN, INT32_MAX},
                                     {"fail_stage", &FakeConfig::fail_stage, 0, 3},
                                     {"nan_at", &FakeConfig::nan_at, 0, INT32_MAX},
                                     {"nan_index", &FakeConfig::nan_index, 0, INT32_MAX},
                                     {"throw_at", &FakeConfig::throw_at, 0, INT32_MAX},
                                     {"raw_throw_at", &FakeConfig::raw_throw_at, 0, INT32_MAX},
                                     {"sleep_ms", &FakeConfig::sleep_ms, 0, 60000},
                                     {"stall_at", &FakeConfig::stall_at, 0, INT32_MAX},
                                     {"stall_ms", &FakeConfig::stall_ms, 0, 60000},
                                     {"alloc_in_tick", &FakeConfig::alloc_in_tick, 0, 1000},
                                     {"lock_in_tick", &FakeConfig::lock_in_tick, 0, 1000},
                                     {"write_in_tick", &FakeConfig::write_in_tick, 0, 1000},
                                     {"print_in_tick", &FakeConfig::print_in_tick, 0, 1000},
                                     {"open_sleep_ms", &FakeConfig::open_sleep_ms, 0, 60000},
                                     {"input_sleep_ms", &FakeConfig::input_sleep_ms, 0, 60000},
                                     {"crash_at", &FakeConfig::crash_at, 0, INT32_MAX},
                                     {"exit_at", &FakeConfig::exit_at, 0, INT32_MAX},
                                     {"overrun_bytes", &FakeConfig::overrun_bytes, 0, INT32_MAX},
                                     {"leak_bytes", &FakeConfig::leak_bytes, 0, 1 << 20},
                                     {"open_code", &FakeConfig::open_code, INT32_MIN, INT32_MAX},
                                     {"open_silent", &FakeConfig::open_silent, 0, 1},
                                     {"open_alloc_mb", &FakeConfig::open_alloc_mb, 0, 1 << 20},
                                     {"open_print", &FakeConfig::open_print, 0, 1},
                                     {"identity_pad", &FakeConfig::identity_pad, -1, 64 << 20},
                                     {"manifest_bytes", &FakeConfig::manifest_bytes, 0, 64 << 20},
                                     {"release_fd", &FakeConfig::release_fd, -1, INT32_MAX}};

Result<void> set_key(FakeConfig& config, const std::string& name, const Json& value) {
  for (const TextKey& key : kTextKeys) {
    if (name != key.name) continue;
    if (!value.is_string())
      return make_error(Code::kInvalid, "fake: key %s: wanted a string", key.name);
    config.*key.field = value.text();
    return {};
  }
  for (const NumberKey& key : kNumberKeys) {
    if (name != key.name) continue;
    if (!value.is_integer() || value.integer() < key.least || value.integer() > key.most)
      return make_error(Code::kInvalid,
                        "fake: key %s: found %.32s, allowed are integers %" PRId64 " to %" PRId64,
                        key.name, value.text().c_str(), key.least, key.most);
    config.*key.field = value.integer();
    return {};
  }
  return make_error(Code::kInvalid, "fake: unknown key %.64s", name.c_str());
}

}  // namespace

Result<FakeConfig> parse_config(const char* json) {
  if (json == nullptr) return make_error(Code::kInvalid, "fake: configuration is NULL");
  auto parsed = Json::parse(json, Json::Dialect::kFlatOpen);
  if (!parsed) return parsed.error();
  FakeConfig config;
  for (const Json::Member& member : parsed.value().members())
    OUTRIDER_TRY(set_key(config, member.name, member.value));
  if (config.model_family != "fake")
    return make_error(Code::kUnsupported, "fake: model_family \"%.64s\", allowed is \"fake\"",
                      config.model_family.c_str());
  return config;
}

}  // namespace outrider::fake
