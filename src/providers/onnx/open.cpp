// The one exported symbol of provider_onnx.so.
#include "abi/provider.h"
#include "providers/onnx/driving_runtime.h"
#include "providers/onnx/provider.h"

namespace outrider {
namespace {

Result<frt_model_runtime_v1*> open_onnx(const Json& json) {
  auto config = read_onnx_open_config(json);
  if (!config) return config.error();
  auto file = open_onnx_file(config.value());
  if (!file) return file.error();
  if (is_driving(config.value(), *file.value())) {
    auto driving = DrivingRuntime::open(config.value(), file.value());
    if (!driving) return driving.error();
    return publish_driving_runtime(std::move(driving.value()));
  }
  auto runtime = OnnxRuntime::open(config.value(), file.value());
  if (!runtime) return runtime.error();
  return publish_onnx_runtime(std::move(runtime.value()));
}

}  // namespace
}  // namespace outrider

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out) {
  constexpr outrider::abi::Family kFamilies[] = {{"onnx", outrider::open_onnx}};
  return outrider::abi::open_provider(config_json, out, kFamilies);
}
