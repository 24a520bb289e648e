// Documents of a LeRobot folder: for its two readers.
#pragma once
#include <string>

#include "base/json.h"
#include "policy/checkpoint.h"

namespace outrider {

inline constexpr const char* kLerobotState = "observation.state";
inline constexpr const char* kLerobotAction = "action";

inline Error bad_document(const std::string& path, const char* what) {
  return make_error(Code::kNotFound, "%.300s: %s", path.c_str(), what);
}

// An object. Errors: kNotFound.
inline Result<Json> read_document(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{4} << 20;
  auto text = read_small_file(path, kMaxBytes);
  if (!text) return text.error();
  auto json = Json::parse(text.value(), Json::Dialect::kStandard,
                          {.max_bytes = kMaxBytes, .max_depth = 32, .max_values = 1 << 18});
  if (!json) return make_error(Code::kNotFound, "%.250s: %s", path.c_str(), json.error().text);
  if (!json.value().is_object()) return bad_document(path, "no JSON object");
  return json;
}

inline std::string text_at(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value != nullptr && value->is_string() ? value->text() : std::string();
}
inline bool flag_at(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value != nullptr && value->is_bool() && value->boolean();
}

// [setup] policy_preprocessor.json and policy_postprocessor.json with their *.safetensors: renames,
// prompt, tokenizer, relative actions, statistics. What config.json says is in `out` already.
// Errors: as read_lerobot_folder.
Result<void> read_lerobot_pipelines(const std::string& folder, FolderFacts& out);

}  // namespace outrider
