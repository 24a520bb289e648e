#include "providers/policy_fixture.h"

#include <cstring>
#include <filesystem>

#include "gguf/gguf.h"
#include "models/pi_gguf.h"
#include "outrider/ext/status.h"

namespace outrider::test {

double mean_of(int64_t i) {
  return 0.1 * static_cast<double>(i);
}
double std_of(int64_t i) {
  return 1 + 0.1 * static_cast<double>(i);
}
double q01_of(int64_t i) {
  return -1 - 0.1 * static_cast<double>(i);
}
double q99_of(int64_t i) {
  return 1.5 + 0.1 * static_cast<double>(i);
}

RobotFolder::RobotFolder(const RobotSpec& spec) : pair_(tiny_pair(spec.family)) {
  write_weights(path(), pair_.policy, pair_.vision, spec.weights);
  const auto policy = GgufFile::open(pair_.policy.c_str()),
             vision = GgufFile::open(pair_.vision.c_str());
  EXPECT_TRUE(policy && vision);
  const auto config = read_pi_config(policy.value(), vision.value());
  EXPECT_TRUE(config);
  std::filesystem::create_directories(path() + "/assets/arm");
  write_text(path() + "/assets/arm/norm_stats.json",
             R"({"norm_stats":{"state":)" + statistics_text(spec.n_state) + R"(,"actions":)" +
                 statistics_text(spec.n_actions) + "}}");
  const auto n = [](int64_t value) { return std::to_string(value); };
  write_text(path() + "/policy.json",
             R"({"cameras":[)" + spec.cameras + R"(],"state":{"fields":[{"name":"joints","size":)" +
                 n(spec.n_state) + R"(,"unit":"rad"}]},"actions":{"size":)" + n(spec.n_actions) +
                 spec.action_more + R"(},"tokenizer":")" + pair_.policy +
                 R"(","model":{"head_dim":)" + n(config.value().backbone.head_dim) +
                 R"(,"vision_heads":)" + n(config.value().vision.n_heads) + R"(},"horizon":)" +
                 n(pair_.action_steps) + spec.more + "}");
}

std::string RobotFolder::config(const std::string& more) const {
  return R"({"model_family":"pi0","policy_dir":")" + path() +
         R"(","backend":"cpu","precision":"f32","n_threads":1)" + more + "}";
}

std::string RobotFolder::described_pair(const std::string& more) const {
  return R"({"model_family":"pi0","policy_dir":")" + path() + R"(","model_path":")" + pair_.policy +
         R"(","mmproj_path":")" + pair_.vision +
         R"(","backend":"cpu","precision":"f32","n_threads":1)" + more + "}";
}

int PolicyProvider::port(const std::string& name) const {
  for (uint64_t i = 0; i < get()->n_ports; ++i)
    if (name == get()->ports[i].name) return static_cast<int>(i);
  return -1;
}

int PolicyProvider::set(const std::string& name, const void* data, uint64_t bytes) const {
  const int index = port(name);
  EXPECT_GE(index, 0) << name;
  return PiProvider::set(static_cast<uint32_t>(index), data, bytes);
}

int PolicyProvider::set_camera(const std::string& name, const std::vector<uint8_t>& rgb,
                               int64_t width, int64_t height) const {
  const frt_image_view view = rgb_view(rgb, width, height);
  return set(name, &view, sizeof view);
}

int PolicyProvider::set_text(const std::string& name, const std::string& text) const {
  return set(name, text.data(), text.size());
}

int PolicyProvider::set_floats(const std::string& name, const std::vector<float>& values) const {
  return set(name, values.data(), values.size() * sizeof(float));
}

std::vector<int64_t> PolicyProvider::shape(const std::string& name) const {
  const int index = port(name);
  if (index < 0) return {};
  const auto& desc = get()->ports[index];
  return {desc.shape, desc.shape + desc.rank};
}

std::vector<float> PolicyProvider::actions() const {
  const auto sides = shape("actions");
  std::vector<float> out(static_cast<size_t>(sides[0] * sides[1]));
  uint64_t written = 0;
  const int code = get()->verbs.get_output(get()->self, static_cast<uint32_t>(port("actions")),
                                           out.data(), out.size() * sizeof(float), &written, -1);
  return code == 0 ? out : std::vector<float>();
}

std::vector<float> PolicyProvider::tick() const {
  EXPECT_EQ(step(), 0) << error();
  return actions();
}

std::string PolicyProvider::description() const {
  const void* table = nullptr;
  EXPECT_EQ(get()->query_extension(get(), OUTRIDER_EXT_STATUS, 1, &table), 0);
  const auto* status = static_cast<const outrider_status_v1*>(table);
  return status->describe(status->self);
}

std::vector<float> some_state(int64_t n) {
  std::vector<float> out;
  for (int64_t i = 0; i < n; ++i)
    out.push_back(0.13f * static_cast<float>(i + 1) - 0.31f * static_cast<float>(i % 3));
  return out;
}

void stage_robot(const PolicyProvider& provider, const PiPair& pair, int64_t n_state) {
  const int64_t s = pair.image_size;
  ASSERT_EQ(provider.set_camera("top", noise_rgb(s, s, 100), s, s), 0) << provider.error();
  if (provider.port("wrist") >= 0) {
    ASSERT_EQ(provider.set_camera("wrist", noise_rgb(s, s, 101), s, s), 0) << provider.error();
  }
  ASSERT_EQ(provider.set_text("prompt", "pick up the red block"), 0) << provider.error();
  ASSERT_EQ(provider.set_floats("state", some_state(n_state)), 0) << provider.error();
}

}  // namespace outrider::test
