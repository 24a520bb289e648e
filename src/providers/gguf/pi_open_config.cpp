#include "providers/gguf/pi_open_config.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace outrider {
namespace {

constexpr const char* kNumericsNames[] = {"reference", "jetson-pi"};
constexpr const char* kPrecisionNames[] = {"auto", "f32", "bf16", "int8", "stored"};
constexpr const char* kSwitchNames[] = {"auto", "on", "off"};
constexpr const char* kOnOffNames[] = {"on", "off"};

enum class Shape : uint8_t { kText, kPath, kInteger, kChoice };

// One row a key. Everything the reader does follows from this table.
struct KeyRow {
  const char* name;
  Shape shape;
  bool required;
  int64_t least, most;                   // kInteger
  std::span<const char* const> choices;  // kChoice
  std::string PiOpenConfig::*text;
  int64_t PiOpenConfig::*integer;
  void (*choose)(PiOpenConfig&, size_t);  // kChoice: index into choices
};

KeyRow text_row(const char* name, std::string PiOpenConfig::*field) {
  return {name, Shape::kText, true, 0, 0, {}, field, nullptr, nullptr};
}
KeyRow path_row(const char* name, std::string PiOpenConfig::*field) {
  return {name, Shape::kPath, false, 0, 0, {}, field, nullptr, nullptr};
}
KeyRow integer_row(const char* name, bool required, int64_t least, int64_t most,
                   int64_t PiOpenConfig::*field) {
  return {name, Shape::kInteger, required, least, most, {}, nullptr, field, nullptr};
}
KeyRow choice_row(const char* name, std::span<const char* const> choices,
                  void (*choose)(PiOpenConfig&, size_t)) {
  return {name, Shape::kChoice, false, 0, 0, choices, nullptr, nullptr, choose};
}

const std::span<const KeyRow> key_rows() {
  using C = PiOpenConfig;
  static const KeyRow rows[] = {
      text_row("model_path", &C::model_path),
      text_row("mmproj_path", &C::mmproj_path),
      text_row("backend", &C::backend),
      integer_row("n_views", true, 1, 3, &C::n_views),
      integer_row("image_height", true, 1, 65535, &C::image_height),
      integer_row("image_width", true, 1, 65535, &C::image_width),
      integer_row("image_channels", true, 1, UINT32_MAX, &C::image_channels),
      integer_row("action_steps", true, 1, UINT32_MAX, &C::action_steps),
      integer_row("action_dim", true, 1, UINT32_MAX, &C::action_dim),
      choice_row("numerics", kNumericsNames,
                 [](C& c, size_t i) { c.numerics = static_cast<NumericsChoice>(i); }),
      choice_row("precision", kPrecisionNames,
                 [](C& c, size_t i) { c.precision = static_cast<PrecisionChoice>(i); }),
      choice_row("rope_bf16", kSwitchNames,
                 [](C& c, size_t i) { c.rope_bf16 = static_cast<SwitchChoice>(i); }),
      integer_row("n_threads", false, INT32_MIN, 1024, &C::n_threads),
      integer_row("num_steps", false, 0, 1000, &C::num_steps),
      integer_row("noise_seed", false, 0, UINT32_MAX, &C::noise_seed),
      choice_row("reuse", kOnOffNames, [](C& c, size_t i) { c.reuse = i == 0; }),
      choice_row("pin_threads", kOnOffNames, [](C& c, size_t i) { c.pin_threads = i == 0; }),
      integer_row("rt_priority", false, 0, 99, &C::rt_priority),
      path_row("cache_dir", &C::cache_dir),
      path_row("policy_dir", &C::policy_dir),
  };
  return rows;
}

const KeyRow* find_row(std::string_view name) {
  for (const KeyRow& row : key_rows()) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

// Edit distance, for "did you mean".
size_t distance(std::string_view a, std::string_view b) {
  std::string previous(b.size() + 1, 0), current(b.size() + 1, 0);
  if (a.size() > 100 || b.size() > 100) return 100;
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = static_cast<char>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<char>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = previous[j - 1] + (a[i - 1] != b[j - 1]);
      current[j] = static_cast<char>(std::min({change, previous[j] + 1, current[j - 1] + 1}));
    }
    std::swap(previous, current);
  }
  return static_cast<size_t>(previous[b.size()]);
}

Error unknown_key(const std::string& name) {
  const char* nearest = "model_family";
  for (const KeyRow& row : key_rows()) {
    if (distance(name, row.name) < distance(name, nearest)) nearest = row.name;
  }
  return make_error(
      Code::kInvalid,
      "config: unknown key \"%.80s\" for model_family pi0; the nearest known key is \"%s\"",
      name.c_str(), nearest);
}

std::string choices_text(std::span<const char* const> choices) {
  std::string text;
  for (const char* choice : choices)
    text += (text.empty() ? "\"" : ", \"") + std::string(choice) + "\"";
  return text;
}

Result<void> read_value(const KeyRow& row, const Json& value, PiOpenConfig& config) {
  if (row.shape == Shape::kInteger) {
    if (!value.is_number() || !value.is_integer() || value.integer() < row.least ||
        value.integer() > row.most) {
      return make_error(Code::kInvalid, "config: %s is %s%.80s%s, allowed is an integer %lld..%lld",
                        row.name, value.is_string() ? "\"" : "", value.text().c_str(),
                        value.is_string() ? "\"" : "", static_cast<long long>(row.least),
                        static_cast<long long>(row.most));
    }
    config.*row.integer = value.integer();
    return {};
  }
  if (!value.is_string()) {
    return make_error(Code::kInvalid, "config: %s is %.80s, allowed is a string", row.name,
                      value.text().c_str());
  }
  if (row.shape == Shape::kChoice) {
    const auto found = std::find(row.choices.begin(), row.choices.end(), value.text());
    if (found == row.choices.end()) {
      return make_error(Code::kInvalid, "config: %s is \"%.80s\", allowed are %s", row.name,
                        value.text().c_str(), choices_text(row.choices).c_str());
    }
    row.choose(config, static_cast<size_t>(found - row.choices.begin()));
    return {};
  }
  if (value.text().empty() && row.shape == Shape::kText) {
    return make_error(Code::kInvalid, "config: %s is empty, allowed is a non-empty string",
                      row.name);
  }
  if (value.text().find('\0') != std::string::npos) {
    return make_error(Code::kInvalid, "config: %s contains a NUL byte", row.name);
  }
  config.*row.text = value.text();
  return {};
}

// Keys that a robot's policy answers by itself.
bool may_be_left_out(std::string_view key) {
  return key != "backend";
}

Result<void> check_required(const Json& json, PiOpenConfig& config) {
  const KeyRow* missing = nullptr;
  bool any_size = false;
  for (const KeyRow& row : key_rows()) {
    if (!row.required) continue;
    const bool given = json.find(row.name) != nullptr;
    if (!given && (config.policy_dir.empty() || !may_be_left_out(row.name)) && missing == nullptr)
      missing = &row;
    any_size = any_size || (given && row.shape == Shape::kInteger);
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
    const KeyRow* row = find_row(member.name);
    if (row == nullptr) return unknown_key(member.name);
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
