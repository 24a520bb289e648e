#include "providers/golden_case.h"

#include <cmath>

#include "support/reference_files.h"

namespace outrider::test {
std::vector<float> read_floats(const std::string& path) {
  return read_reference<float>(path);
}

double max_abs(const std::vector<float>& got, const std::vector<float>& wanted) {
  if (got.size() != wanted.size() || got.empty()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double d = std::abs(double(got[i]) - wanted[i]);
    if (!(d <= worst)) worst = std::isfinite(d) ? d : INFINITY;
  }
  return worst;
}

GoldenCase::GoldenCase(std::string folder) : folder_(std::move(folder)) {
  const auto bytes = read_reference<char>(folder_ + "/meta.json");
  auto json = Json::parse({bytes.data(), bytes.size()});
  EXPECT_TRUE(json) << json.error().text;
  if (json) meta_ = std::move(json.value());
}

const Json& GoldenCase::field(const char* name) const {
  static const Json none;
  const Json* found = meta_.find(name);
  EXPECT_NE(found, nullptr) << folder_ << "/meta.json has no " << name;
  return found != nullptr ? *found : none;
}

std::string GoldenCase::config(const std::string& models, const std::string& extra) const {
  ConfigSpec spec;
  spec.pair.policy = models + "/" + policy_file();
  spec.pair.vision = models + "/" + vision_file();
  spec.pair.action_steps = field("action_steps").integer();
  spec.pair.action_dim = field("action_dim").integer();
  spec.n_views = field("views").integer();
  spec.image_height = field("height").integer();
  spec.image_width = field("width").integer();
  spec.extra = extra;
  return config_json(spec);
}

void GoldenCase::stage(const PiProvider& provider) const {
  const int64_t width = field("width").integer(), height = field("height").integer();
  const int64_t n_views = field("views").integer(), view_bytes = width * height * 3;
  const auto images = read_reference<uint8_t>(folder_ + "/images.u8");
  ASSERT_EQ(static_cast<int64_t>(images.size()), n_views * view_bytes);
  std::vector<frt_image_view> views;
  for (int64_t i = 0; i < n_views; ++i) {
    views.push_back({sizeof(frt_image_view), FRT_PIXEL_RGB8, images.data() + i * view_bytes,
                     static_cast<uint64_t>(view_bytes), static_cast<int32_t>(width),
                     static_cast<int32_t>(height), 0, 0, 0});
  }
  std::vector<float> state(is_pi05() ? 8u : static_cast<size_t>(field("action_dim").integer()));
  if (field("state").is_array()) {
    state.clear();
    for (const Json& value : field("state").items()) {
      state.push_back(static_cast<float>(value.number()));
    }
  }
  ASSERT_EQ(provider.set_images(views), 0) << provider.error();
  ASSERT_EQ(provider.set_prompt(field("prompt").text()), 0) << provider.error();
  ASSERT_EQ(provider.set_state(state), 0) << provider.error();
}

std::vector<float> GoldenCase::floats(const std::string& name) const {
  return read_reference<float>(folder_ + "/" + name + ".bin");
}

Taps::Taps(const PiProvider& provider) {
  const void* table = nullptr;
  EXPECT_EQ(provider->query_extension(provider.get(), OUTRIDER_EXT_TAPS, 1, &table), 0);
  taps_ = static_cast<const outrider_taps_v1*>(table);
  EXPECT_EQ(taps_->enable(taps_->self, 1), 0);
}

std::vector<float> Taps::read(const char* name) const {
  uint64_t n = 0;
  int64_t shape[4];
  uint32_t rank = 0;
  EXPECT_EQ(taps_->read(taps_->self, name, nullptr, 0, &n, shape, &rank), FRT_ERR_STORAGE) << name;
  std::vector<float> values(n);
  EXPECT_EQ(taps_->read(taps_->self, name, values.data(), n, &n, shape, &rank), 0) << name;
  return values;
}

}  // namespace outrider::test
