// The one exported symbol of provider_gguf.so.
#include "abi/provider.h"
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

Result<frt_model_runtime_v1*> open_text(const Result<LlmOpenConfig>& config) {
  if (!config) return config.error();
  auto face = LlmFace::open(config.value());
  if (!face) return face.error();
  return publish_llm_face(std::move(face.value()));
}

Result<frt_model_runtime_v1*> open_llm(const Json& json) {
  return open_text(read_llm_open_config(json));
}
Result<frt_model_runtime_v1*> open_mllm(const Json& json) {
  return open_text(read_mllm_open_config(json));
}

}  // namespace
}  // namespace outrider

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out) {
  constexpr outrider::abi::Family kFamilies[] = {
      {"pi0", outrider::open_pi}, {"llm", outrider::open_llm}, {"mllm", outrider::open_mllm}};
  return outrider::abi::open_provider(config_json, out, kFamilies);
}
