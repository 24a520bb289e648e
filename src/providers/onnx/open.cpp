// The one exported symbol of provider_onnx.so.
#include <dlfcn.h>

#include <cstdio>

#include "abi/guard.h"
#include "base/env.h"
#include "base/json.h"
#include "providers/onnx/provider.h"

namespace outrider {
namespace {

Result<frt_model_runtime_v1*> open_runtime(const char* config_json) {
  auto json = Json::parse(config_json, Json::Dialect::kFlatOpen);
  if (!json) return json.error();
  const Json* family = json.value().find("model_family");
  if (family == nullptr || !family->is_string() || family->text().empty())
    return make_error(
        Code::kInvalid,
        "config: key \"model_family\" is missing, empty or no string; this provider has \"onnx\"");
  if (family->text() != "onnx")
    return make_error(Code::kUnsupported,
                      "config: model_family is \"%.80s\", this provider has \"onnx\"",
                      family->text().c_str());
  auto config = read_onnx_open_config(json.value());
  if (!config) return config.error();
  auto runtime = OnnxRuntime::open(config.value());
  if (!runtime) return runtime.error();
  return publish_onnx_runtime(std::move(runtime.value()));
}

// Only one symbol may be exported, so a reason cannot be asked for. Our host offers a sink; any
// other host can have one line on standard error by OUTRIDER_OPEN_ERRORS=stderr.
int report(const Error& error) noexcept {
  using Sink = void (*)(const char*);
  if (auto* sink = reinterpret_cast<Sink>(dlsym(RTLD_DEFAULT, "outrider_open_reason_sink")))
    sink(error.text);
  if (env_open_errors_to_stderr())
    std::fprintf(stderr, "outrider: open failed (%d): %s\n", to_abi(error.code), error.text);
  return to_abi(error.code);
}

int open_guarded(const char* config_json, frt_model_runtime_v1** out) {
  if (config_json == nullptr)
    return report(make_error(Code::kInvalid, "config: NULL, wanted a JSON object"));
  auto opened = open_runtime(config_json);
  if (!opened) return report(opened.error());
  *out = opened.value();
  return FRT_OK;
}

}  // namespace
}  // namespace outrider

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out) {
  if (out == nullptr) return FRT_ERR_INVALID;
  *out = nullptr;
  return outrider::abi::guard([&] { return outrider::open_guarded(config_json, out); });
}
