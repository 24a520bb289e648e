#include "providers/gguf/pi_open_config.h"

#include <span>
#include <string_view>

#include "providers/gguf/config_rows.h"

namespace outrider {
namespace {

constexpr const char* kNumericsNames[] = {"reference", "jetson-pi"};
constexpr const char* kPrecisionNames[] = {"auto", "f32", "bf16", "int8", "stored"};
constexpr const char* kSwitchNames[] = {"auto", "on", "off"};
constexpr const char* kOnOffNames[] = {"on", "off"};

std::span<const KeyRow<PiOpenConfig>> key_rows() {
  using C = PiOpenConfig;
  static const KeyRow<C> rows[] = {
      text_row("model_path", &C::model_path),
      text_row("mmproj_path", &C::mmproj_path),
      text_row("backend", &C::backend),
      integer_row("n_views", true, 1, 3, &C::n_views),
      integer_row("image_height", true, 1, 65535, &C::image_height),
      integer_row("image_width", true, 1, 65535, &C::image_width),
      integer_row("image_channels", true, 1, UINT32_MAX, &C::image_channels),
      integer_row("action_steps", true, 1, UINT32_MAX, &C::action_steps),
      integer_row("action_dim", true, 1, UINT32_MAX, &C::action_dim),
      choice_row(
          "numerics", kNumericsNames,
          +[](C& c, size_t i) { c.numerics = static_cast<NumericsChoice>(i); }),
      choice_row(
          "precision", kPrecisionNames,
          +[](C& c, size_t i) { c.precision = static_cast<PrecisionChoice>(i); }),
      choice_row(
          "rope_bf16", kSwitchNames,
          +[](C& c, size_t i) { c.rope_bf16 = static_cast<SwitchChoice>(i); }),
      integer_row("n_threads", false, INT32_MIN, 1024, &C::n_threads),
      integer_row("num_steps", false, 0, 1000, &C::num_steps),
      integer_row("noise_seed", false, 0, UINT32_MAX, &C::noise_seed),
      choice_row(
          "reuse", kOnOffNames, +[](C& c, size_t i) { c.reuse = i == 0; }),
      choice_row(
          "pin_threads", kOnOffNames, +[](C& c, size_t i) { c.pin_threads = i == 0; }),
      integer_row("rt_priority", false, 0, 99, &C::rt_priority),
      path_row("cache_dir", &C::cache_dir),
      path_row("policy_dir", &C::policy_dir),
  };
  return rows;
}

// Keys that a robot's policy answers by itself.
bool may_be_left_out(std::string_view key) {
  return key != "backend";
}

Result<void> check_required(const Json& json, PiOpenConfig& config) {
  const KeyRow<PiOpenConfig>* missing = nullptr;
  bool any_size = false;
  for (const KeyRow<PiOpenConfig>& row : key_rows()) {
    if (!row.required) continue;
    const bool given = json.find(row.name) != nullptr;
    if (!given && (config.policy_dir.empty() || !may_be_left_out(row.name)) && missing == nullptr)
      missing = &row;
    any_size = any_size || (given && row.shape == KeyShape::kInteger);
  }
  if (missing == nullptr) return {};
  // A model file alone: whether it describes a robot, the file knows.
  if (config.policy_dir.empty() && !any_size && !config.model_path.empty() &&
      !config.backend.empty()) {
    config.robot_in_file = true;
    return {};
  }
  return make_error(Code::kInvalid, "config: key \"%s\" is missing; model_family pi0 needs it",
                    missing->name);
}

}  // namespace

const char* choice_name(NumericsChoice choice) {
  return kNumericsNames[static_cast<size_t>(choice)];
}
const char* choice_name(PrecisionChoice choice) {
  return kPrecisionNames[static_cast<size_t>(choice)];
}
const char* choice_name(SwitchChoice choice) {
  return kSwitchNames[static_cast<size_t>(choice)];
}

Result<PiOpenConfig> read_pi_open_config(const Json& json) {
  PiOpenConfig config;
  for (const Json::Member& member : json.members()) {
    if (member.name == "model_family") continue;
    const KeyRow<PiOpenConfig>* row = find_row(key_rows(), member.name);
    if (row == nullptr) return unknown_key(key_rows(), "pi0", member.name);
    OUTRIDER_TRY(read_value(*row, member.value, config));
  }
  OUTRIDER_TRY(check_required(json, config));
  if (config.backend != "cpu") {
    return make_error(Code::kUnsupported, "config: backend is \"%.80s\", this build has \"cpu\"",
                      config.backend.c_str());
  }
  return config;
}

Result<void> check_pi_sizes(const PiOpenConfig& config, const PiConfig& file,
                            const std::string& path) {
  if (config.action_steps != file.action_steps || config.action_dim != file.action_dim) {
    return make_error(
        Code::kShape, "config: action_steps x action_dim is %lld x %lld, but %s has %lld x %lld",
        static_cast<long long>(config.action_steps), static_cast<long long>(config.action_dim),
        path.c_str(), static_cast<long long>(file.action_steps),
        static_cast<long long>(file.action_dim));
  }
  if (config.image_channels != 3) {
    return make_error(Code::kShape,
                      "config: image_channels is %lld, the vision tower of %s reads 3",
                      static_cast<long long>(config.image_channels), path.c_str());
  }
  return {};
}

}  // namespace outrider
