#include "providers/onnx/onnx_open_config.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "base/printable.h"

namespace outrider {
namespace {

constexpr const char* kPrecisions[] = {"auto", "f32", "bf16", "int8", "stored"};
constexpr const char* kDriving[] = {"auto", "on", "off"};
constexpr const char* kHeads[] = {"known", "required", "only", "off"};
constexpr const char* kDesire[] = {"level", "pulse"};
constexpr const char* kActions[] = {"off", "auto", "v9", "v14", "v15", "v16", "plan"};

// One row a key. Everything the reader does follows from this table.
struct KeyRow {
  const char* name;
  bool required, may_be_empty;
  std::string OnnxOpenConfig::*text;
  int64_t OnnxOpenConfig::*integer;
  int64_t least, most;
  std::span<const char* const> choices;
};

KeyRow text_row(const char* name, std::string OnnxOpenConfig::*field) {
  return {name, true, false, field, nullptr, 0, 0, {}};
}
KeyRow option_row(const char* name, std::string OnnxOpenConfig::*field,
                  std::span<const char* const> choices) {
  return {name, false, true, field, nullptr, 0, 0, choices};
}
KeyRow integer_row(const char* name, int64_t least, int64_t most, int64_t OnnxOpenConfig::*field) {
  return {name, false, false, nullptr, field, least, most, {}};
}

std::span<const KeyRow> key_rows() {
  using C = OnnxOpenConfig;
  static const KeyRow rows[] = {
      text_row("model_path", &C::model_path),
      text_row("backend", &C::backend),
      option_row("precision", &C::precision, kPrecisions),
      integer_row("n_threads", INT32_MIN, 1024, &C::n_threads),
      option_row("dims", &C::dims, {}),
      option_row("state_pairs", &C::state_pairs, {}),
      option_row("stats_path", &C::stats_path, {}),
      integer_row("history", 1, 1024, &C::history),
      option_row("driving", &C::driving, kDriving),
      integer_row("frame_skip", 1, 64, &C::frame_skip),
      option_row("heads", &C::heads, kHeads),
      option_row("desire", &C::desire, kDesire),
      option_row("action", &C::action, kActions),
      integer_row("lateral_smooth_ms", 0, 10000, &C::lateral_smooth_ms),
      integer_row("longitudinal_smooth_ms", 0, 10000, &C::longitudinal_smooth_ms),
  };
  return rows;
}

const KeyRow* find_row(std::string_view name) {
  for (const KeyRow& row : key_rows())
    if (name == row.name) return &row;
  return nullptr;
}

Error unknown_key(const std::string& name) {
  std::vector<const char*> known = {"model_family"};
  for (const KeyRow& row : key_rows()) known.push_back(row.name);
  return unknown_key_error("onnx", name, known);
}

Result<void> read_value(const KeyRow& row, const Json& value, OnnxOpenConfig& config) {
  if (row.integer != nullptr) {
    if (!value.is_number() || !value.is_integer() || value.integer() < row.least ||
        value.integer() > row.most)
      return make_error(Code::kInvalid, "config: %s is %s%.80s%s, allowed is an integer %lld..%lld",
                        row.name, value.is_string() ? "\"" : "", value.text().c_str(),
                        value.is_string() ? "\"" : "", static_cast<long long>(row.least),
                        static_cast<long long>(row.most));
    config.*row.integer = value.integer();
    return {};
  }
  if (!value.is_string())
    return make_error(Code::kInvalid, "config: %s is %.80s, allowed is a string", row.name,
                      value.text().c_str());
  if (value.text().empty() && !row.may_be_empty)
    return make_error(Code::kInvalid, "config: %s is empty, allowed is a non-empty string",
                      row.name);
  if (value.text().find('\0') != std::string::npos)
    return make_error(Code::kInvalid, "config: %s contains a NUL byte", row.name);
  if (!row.choices.empty() && std::ranges::find(row.choices, value.text()) == row.choices.end()) {
    std::string list;
    for (const char* choice : row.choices)
      list += (list.empty() ? "\"" : ", \"") + std::string(choice) + "\"";
    return make_error(Code::kInvalid, "config: %s is \"%.80s\", allowed are %s", row.name,
                      value.text().c_str(), list.c_str());
  }
  config.*row.text = value.text();
  return {};
}

// f(entry) for every part between commas; blanks around it are dropped.
template <class F>
Result<void> each_entry(std::string_view text, const F& f) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view entry = text.substr(0, comma);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    OUTRIDER_TRY(f(std::string(entry)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return {};
}

}  // namespace

Result<OnnxOpenConfig> read_onnx_open_config(const Json& json) {
  OnnxOpenConfig config;
  for (const Json::Member& member : json.members()) {
    if (member.name == "model_family") continue;
    const KeyRow* row = find_row(member.name);
    if (row == nullptr) return unknown_key(member.name);
    OUTRIDER_TRY(read_value(*row, member.value, config));
  }
  for (const KeyRow& row : key_rows())
    if (row.required && json.find(row.name) == nullptr)
      return make_error(Code::kInvalid, "config: key \"%s\" is missing; model_family onnx needs it",
                        row.name);
  if (config.backend != "cpu")
    return make_error(Code::kUnsupported, "config: backend is \"%.80s\", this build has \"cpu\"",
                      config.backend.c_str());
  if (auto dims = parse_dims(config.dims); !dims) return dims.error();
  if (auto pairs = parse_state_pairs(config.state_pairs); !pairs) return pairs.error();
  return config;
}

Precision onnx_precision(const OnnxOpenConfig& config) {
  return config.precision == "bf16"   ? Precision::kBf16
         : config.precision == "int8" ? Precision::kInt8
                                      : Precision::kF32;
}

Result<std::map<std::string, int64_t>> parse_dims(const std::string& text) {
  std::map<std::string, int64_t> dims;
  OUTRIDER_TRY(each_entry(text, [&](const std::string& entry) -> Result<void> {
    const size_t at = entry.rfind('=');
    const std::string digits = at == std::string::npos ? "" : entry.substr(at + 1);
    const bool number = !digits.empty() && digits.size() <= 9 &&
                        digits.find_first_not_of("0123456789") == std::string::npos;
    if (at == 0 || !number || std::stoll(digits) < 1)
      return make_error(Code::kInvalid,
                        "config: dims has \"%s\", allowed is name=size with a size of 1..999999999",
                        printable(entry).c_str());
    if (!dims.emplace(entry.substr(0, at), std::stoll(digits)).second)
      return make_error(Code::kInvalid, "config: dims names \"%s\" twice",
                        printable(entry.substr(0, at)).c_str());
    return {};
  }));
  return dims;
}

Result<std::vector<std::pair<std::string, std::string>>> parse_state_pairs(
    const std::string& text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (text == "none") return pairs;
  OUTRIDER_TRY(each_entry(text, [&](const std::string& entry) -> Result<void> {
    const size_t at = entry.find(':');
    if (at == std::string::npos || at == 0 || at + 1 == entry.size())
      return make_error(Code::kInvalid, "config: state_pairs has \"%s\", allowed is input:output",
                        printable(entry).c_str());
    pairs.emplace_back(entry.substr(0, at), entry.substr(at + 1));
    return {};
  }));
  return pairs;
}

}  // namespace outrider
