#include "providers/pi_fixture.h"

#include <dlfcn.h>

#include <cstring>
#include <map>

#include "base/rng.h"
#include "gguf/gguf.h"
#include "models/pi_gguf.h"
#include "models/synthetic_pi.h"
#include "outrider/ext/status.h"
#include "support/shared_data.h"

namespace outrider::test {

std::string provider_path() {
  return std::string(OUTRIDER_BUILD_DIR) + "/lib/provider_gguf.so";
}

const PiPair& tiny_pair(PiFamily family, DType dtype) {
  static const TempDir dir;
  static std::map<std::pair<PiFamily, DType>, PiPair> pairs;
  PiPair& pair = pairs[{family, dtype}];
  if (!pair.policy.empty()) return pair;
  const std::string stem = std::string(family == PiFamily::kPi0 ? "pi0-" : "pi05-") +
                           std::string(dtype_info(dtype).name);
  pair.policy = dir.file(stem + ".gguf");
  pair.vision = dir.file(stem + "-mmproj.gguf");
  SyntheticPi spec;
  spec.family = family;
  spec.full = false;
  spec.dtype = dtype;
  spec.seed = 7;
  const auto written = write_synthetic_pi(spec, pair.policy.c_str(), pair.vision.c_str());
  EXPECT_TRUE(written) << written.error().text;
  const auto policy = GgufFile::open(pair.policy.c_str()),
             vision = GgufFile::open(pair.vision.c_str());
  EXPECT_TRUE(policy && vision);
  const auto config = read_pi_config(policy.value(), vision.value());
  EXPECT_TRUE(config) << config.error().text;
  pair.image_size = config.value().vision.image_size;
  pair.action_steps = config.value().action_steps;
  pair.action_dim = config.value().action_dim;
  return pair;
}

std::string config_json(const ConfigSpec& spec) {
  const auto number = [](const char* key, int64_t value) {
    return std::string(",\"") + key + "\":" + std::to_string(value);
  };
  const int64_t height = spec.image_height > 0 ? spec.image_height : spec.pair.image_size;
  const int64_t width = spec.image_width > 0 ? spec.image_width : spec.pair.image_size;
  std::string json =
      R"({"model_family":"pi0","model_path":")" + spec.pair.policy + R"(","mmproj_path":")" +
      spec.pair.vision + R"(","backend":"cpu")" + number("n_views", spec.n_views) +
      number("image_height", height) + number("image_width", width) + number("image_channels", 3) +
      number("action_steps", spec.pair.action_steps) + number("action_dim", spec.pair.action_dim);
  if (!spec.extra.empty()) json += "," + spec.extra;
  return json + "}";
}

PiProvider::PiProvider(const std::string& config) {
  library_ = dlopen(provider_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library_, nullptr) << dlerror();
  if (library_ == nullptr) return;
  const auto open = reinterpret_cast<frt_model_runtime_open_v1_fn>(
      dlsym(library_, FRT_MODEL_RUNTIME_OPEN_SYMBOL));
  EXPECT_NE(open, nullptr);
  open_code_ = open(config.c_str(), &runtime_);
}

PiProvider::~PiProvider() {
  if (runtime_ != nullptr) runtime_->release(runtime_->owner);
  if (library_ != nullptr) dlclose(library_);
}

const frt_generic_stage_plan_ext_v1* PiProvider::plan() const {
  const void* table = nullptr;
  if (runtime_->query_extension(runtime_, FRT_EXT_GENERIC_STAGE_PLAN_V1, 1, &table) != 0)
    return nullptr;
  return static_cast<const frt_generic_stage_plan_ext_v1*>(table);
}

int PiProvider::stage(const std::string& name) const {
  const auto* stages = plan();
  for (uint64_t i = 0; i < stages->n_stages; ++i) {
    if (name == stages->stages[i].name)
      return stages->run_opaque(stages->stage_self, stages->stages[i].executor_ref);
  }
  ADD_FAILURE() << "no stage " << name;
  return -1;
}

uint64_t PiProvider::action_values() const {
  return static_cast<uint64_t>(runtime_->ports[3].shape[0] * runtime_->ports[3].shape[1]);
}

int PiProvider::read(std::vector<float>& actions) const {
  actions.assign(action_values(), -12345.0f);
  uint64_t written = 0;
  const int code = runtime_->verbs.get_output(runtime_->self, 3, actions.data(),
                                              actions.size() * sizeof(float), &written, -1);
  if (code == 0) {
    EXPECT_EQ(written, actions.size() * sizeof(float));
  }
  return code;
}

int64_t PiProvider::counter(const std::string& name) const {
  const void* table = nullptr;
  EXPECT_EQ(runtime_->query_extension(runtime_, OUTRIDER_EXT_STATUS, 1, &table), 0);
  const auto* status = static_cast<const outrider_status_v1*>(table);
  std::vector<outrider_counter_v1> counters(status->read(status->self, nullptr, 0));
  status->read(status->self, counters.data(), counters.size());
  for (const auto& counter : counters) {
    if (name == counter.name) return counter.value;
  }
  ADD_FAILURE() << "no counter " << name;
  return -1;
}

std::vector<uint8_t> noise_rgb(int64_t width, int64_t height, uint64_t seed) {
  const UniformStream stream(seed, "picture");
  std::vector<uint8_t> rgb(static_cast<size_t>(width * height * 3));
  for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(stream.bits(i) >> 56);
  return rgb;
}

frt_image_view rgb_view(const std::vector<uint8_t>& rgb, int64_t width, int64_t height) {
  return {sizeof(frt_image_view),
          FRT_PIXEL_RGB8,
          rgb.data(),
          rgb.size(),
          static_cast<int32_t>(width),
          static_cast<int32_t>(height),
          0,
          0,
          0};
}

Request make_request(const PiPair& pair, int64_t n_views, uint64_t seed) {
  Request request;
  for (int64_t i = 0; i < n_views; ++i) {
    request.pictures.push_back(
        noise_rgb(pair.image_size, pair.image_size, seed * 100 + static_cast<uint64_t>(i)));
  }
  for (const auto& picture : request.pictures)
    request.views.push_back(rgb_view(picture, pair.image_size, pair.image_size));
  return request;
}

void stage_all(const PiProvider& provider, const Request& request) {
  ASSERT_EQ(provider.set_images(request.views), 0) << provider.error();
  ASSERT_EQ(provider.set_prompt(request.prompt), 0) << provider.error();
  ASSERT_EQ(provider.set_state(request.state), 0) << provider.error();
}

std::vector<float> run_request(const PiProvider& provider, const Request& request) {
  stage_all(provider, request);
  EXPECT_EQ(provider.step(), 0) << provider.error();
  std::vector<float> actions;
  EXPECT_EQ(provider.read(actions), 0) << provider.error();
  return actions;
}

}  // namespace outrider::test
