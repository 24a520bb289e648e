#include "providers/gguf/llm_open_config.h"

#include <span>

#include "providers/gguf/config_rows.h"

namespace outrider {
namespace {

constexpr const char* kNumericsNames[] = {"reference", "jetson-pi"};
constexpr const char* kPrecisionNames[] = {"auto", "f32", "bf16", "int8", "stored"};
constexpr const char* kPlanNames[] = {"staged", "infer"};
constexpr const char* kOnOffNames[] = {"on", "off"};
constexpr int64_t kMaxContext = LlmRun::kMaxContext;

constexpr const char* kSizesNames[] = {"equal", "any"};
constexpr const char* kKvNames[] = {"auto", "int8"};
constexpr int kMllmKeys = 3;  // the first rows

std::span<const KeyRow<LlmOpenConfig>> key_rows(bool mllm) {
  using C = LlmOpenConfig;
  static const KeyRow<C> rows[] = {
      text_row("mmproj_path", &C::mmproj_path),
      choice_row(
          "image_sizes", kSizesNames, +[](C& c, size_t i) { c.any_sizes = i == 1; }),
      choice_row(
          "tokens_port", kOnOffNames, +[](C& c, size_t i) { c.tokens_port = i == 0; }),
      text_row("model_path", &C::model_path),
      text_row("backend", &C::backend),
      integer_row("n_ctx", true, 0, kMaxContext, &C::n_ctx),
      integer_row("n_threads", true, INT32_MIN, 1024, &C::n_threads),
      number_row("temp", &C::temp),
      integer_row("top_k", true, INT32_MIN, INT32_MAX, &C::top_k),
      number_row("top_p", &C::top_p),
      integer_row("seed", true, 0, UINT32_MAX, &C::seed),
      integer_row("max_tokens", true, 0, UINT32_MAX, &C::max_tokens),
      choice_row(
          "numerics", kNumericsNames,
          +[](C& c, size_t i) { c.numerics = static_cast<NumericsChoice>(i); }),
      choice_row(
          "precision", kPrecisionNames,
          +[](C& c, size_t i) { c.precision = static_cast<PrecisionChoice>(i); }),
      choice_row(
          "plan", kPlanNames, +[](C& c, size_t i) { c.staged = i == 0; }),
      choice_row(
          "reuse", kOnOffNames, +[](C& c, size_t i) { c.reuse = i == 0; }),
      choice_row(
          "kv_precision", kKvNames, +[](C& c, size_t i) { c.kv_8bit = i == 1; }),
      choice_row(
          "pin_threads", kOnOffNames, +[](C& c, size_t i) { c.pin_threads = i == 0; }),
      integer_row("rt_priority", false, 0, 99, &C::rt_priority),
      path_row("cache_dir", &C::cache_dir),
      path_row("schema_path", &C::schema_path),
  };
  return std::span(rows).subspan(mllm ? 0 : kMllmKeys);
}

Result<LlmOpenConfig> read(const Json& json, bool mllm) {
  const char* family = mllm ? "mllm" : "llm";
  LlmOpenConfig config;
  for (const Json::Member& member : json.members()) {
    if (member.name == "model_family") continue;
    const KeyRow<LlmOpenConfig>* row = find_row(key_rows(mllm), member.name);
    if (row == nullptr) return unknown_key(key_rows(mllm), family, member.name);
    OUTRIDER_TRY(read_value(*row, member.value, config));
  }
  for (const KeyRow<LlmOpenConfig>& row : key_rows(mllm))
    if (row.required && json.find(row.name) == nullptr)
      return make_error(Code::kInvalid, "config: key \"%s\" is missing; model_family %s needs it",
                        row.name, family);
  if (config.backend != "cpu")
    return make_error(Code::kUnsupported, "config: backend is \"%.80s\", this build has \"cpu\"",
                      config.backend.c_str());
  return config;
}

}  // namespace

Result<LlmOpenConfig> read_llm_open_config(const Json& json) {
  return read(json, false);
}

Result<LlmOpenConfig> read_mllm_open_config(const Json& json) {
  return read(json, true);
}

}  // namespace outrider
