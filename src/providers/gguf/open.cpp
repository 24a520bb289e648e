// The one exported symbol of provider_gguf.so.
#include <dlfcn.h>

#include <cstdio>

#include "abi/guard.h"
#include "base/env.h"
#include "base/json.h"
#include "providers/gguf/fast_runtime.h"
#include "providers/gguf/llm_provider.h"
#include "providers/gguf/pi_runtime.h"
#include "providers/gguf/policy_runtime.h"
#include "providers/gguf/provider.h"

namespace outrider {
namespace {

Result<frt_model_runtime_v1*> open_pi(const Json& json) {
  auto config = read_pi_open_config(json);
  if (!config) return config.error();
  auto files = open_pi_files(config.value());
  if (!files) return files.error();
  auto face = config.value().plain_face() ? PiRuntime::open(config.value(), files.value())
              : files.value()->config.is_fast()
                  ? FastRuntime::open(config.value(), files.value())
                  : PolicyRuntime::open(config.value(), files.value());
  if (!face) return face.error();
  return publish_pi_face(std::move(face.value()));
}

Result<frt_model_runtime_v1*> open_llm(const Json& json) {
  auto config = read_llm_open_config(json);
  if (!config) return config.error();
  auto files = open_llm_files(config.value());
  if (!files) return files.error();
  auto face = LlmFace::open(config.value(), files.value());
  if (!face) return face.error();
  return publish_llm_face(std::move(face.value()));
}

Result<frt_model_runtime_v1*> open_runtime(const char* config_json) {
  auto json = Json::parse(config_json, Json::Dialect::kFlatOpen);
  if (!json) return json.error();
  const Json* family = json.value().find("model_family");
  if (family == nullptr || !family->is_string() || family->text().empty()) {
    return make_error(Code::kInvalid,
                      "config: key \"model_family\" is missing, empty or no string; this provider "
                      "has \"pi0\" and "
                      "\"llm\"");
  }
  const std::string& name = family->text();
  if (name == "pi0") return open_pi(json.value());
  if (name == "llm") return open_llm(json.value());
  return make_error(Code::kUnsupported,
                    "config: model_family is \"%.80s\", this build has \"pi0\" and \"llm\"",
                    name.c_str());
}

int open_guarded(const char* config_json, frt_model_runtime_v1** out) {
  if (config_json == nullptr) {
    const Error error = make_error(Code::kInvalid, "config: NULL, wanted a JSON object");
    report_open_failure(error);
    return to_abi(error.code);
  }
  auto opened = open_runtime(config_json);
  if (!opened) {
    report_open_failure(opened.error());
    return to_abi(opened.error().code);
  }
  *out = opened.value();
  return FRT_OK;
}

}  // namespace

// Only one symbol may be exported, so a reason cannot be asked for. Our host offers a sink; any
// other host can have one line on standard error by OUTRIDER_OPEN_ERRORS=stderr.
void report_open_failure(const Error& error) noexcept {
  using Sink = void (*)(const char*);
  if (auto* sink = reinterpret_cast<Sink>(dlsym(RTLD_DEFAULT, "outrider_open_reason_sink")))
    sink(error.text);
  if (env_open_errors_to_stderr())
    std::fprintf(stderr, "outrider: open failed (%d): %s\n", to_abi(error.code), error.text);
}

}  // namespace outrider

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out) {
  if (out == nullptr) return FRT_ERR_INVALID;
  *out = nullptr;
  return outrider::abi::guard([&] { return outrider::open_guarded(config_json, out); });
}
