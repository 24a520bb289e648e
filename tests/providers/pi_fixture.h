// A tiny PI0 / PI0.5 pair on disk and provider_gguf.so opened through the plain C ABI.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/pi_config.h"
#include "outrider/frt_v1.h"
#include "tensor/dtype.h"

namespace outrider::test {

std::string provider_path();

// Paths of a synthetic pair, written once per program.
struct PiPair {
  std::string policy, vision;
  int64_t image_size = 0, action_steps = 0, action_dim = 0;
};
const PiPair& tiny_pair(PiFamily family, DType dtype = DType::kF32);

// Builds the open configuration. `extra` is appended: R"("n_threads":1)".
struct ConfigSpec {
  PiPair pair;
  int64_t n_views = 2;
  int64_t image_height = 0, image_width = 0;  // 0: the model's own size
  std::string extra = {};
};
std::string config_json(const ConfigSpec& spec);

// One opened runtime; releases it, then unloads the library.
class PiProvider {
 public:
  explicit PiProvider(const std::string& config);
  ~PiProvider();
  PiProvider(const PiProvider&) = delete;
  PiProvider& operator=(const PiProvider&) = delete;

  bool ok() const { return runtime_ != nullptr; }
  int open_code() const { return open_code_; }
  const frt_model_runtime_v1* operator->() const { return runtime_; }
  const frt_model_runtime_v1* get() const { return runtime_; }

  int set(uint32_t port, const void* data, uint64_t bytes) const {
    return runtime_->verbs.set_input(runtime_->self, port, data, bytes, -1);
  }
  int set_images(const std::vector<frt_image_view>& views) const {
    return set(0, views.data(), views.size() * sizeof(frt_image_view));
  }
  int set_prompt(const std::string& text) const { return set(1, text.data(), text.size()); }
  int set_state(const std::vector<float>& values) const {
    return set(2, values.data(), values.size() * sizeof(float));
  }
  int step() const { return runtime_->verbs.step(runtime_->self); }
  int context() const { return stage("context"); }
  int action() const { return stage("action"); }
  int stage(const std::string& name) const;
  int read(std::vector<float>& actions) const;
  std::string error() const { return runtime_->verbs.last_error(runtime_->self); }
  int64_t counter(const std::string& name) const;
  const frt_generic_stage_plan_ext_v1* plan() const;
  uint64_t action_values() const;

 private:
  void* library_ = nullptr;
  frt_model_runtime_v1* runtime_ = nullptr;
  int open_code_ = 0;
};

// Noise pictures that differ by seed.
std::vector<uint8_t> noise_rgb(int64_t width, int64_t height, uint64_t seed);
frt_image_view rgb_view(const std::vector<uint8_t>& rgb, int64_t width, int64_t height);

// A complete request for a runtime opened with `pair`: two views by default.
struct Request {
  std::vector<std::vector<uint8_t>> pictures;
  std::vector<frt_image_view> views;
  std::string prompt = "pick up the red block";
  std::vector<float> state = {0.1f, -0.2f, 0.3f};
};
Request make_request(const PiPair& pair, int64_t n_views = 2, uint64_t seed = 1);
void stage_all(const PiProvider& provider, const Request& request);
// Stages, steps, reads; empty on failure (with a test failure).
std::vector<float> run_request(const PiProvider& provider, const Request& request);

}  // namespace outrider::test
