// Driving graphs on disk and their providers.
#pragma once
#include "driving/graph/synthetic.h"
#include "onnx/provider_fixture.h"
#include "outrider/ext/driving.h"
#include "outrider/ext/history.h"

namespace outrider::onnx::test {

// The tiny graph of a layout and seed, in a folder of its own.
class DrivingOnDisk {
 public:
  explicit DrivingOnDisk(driving::Layout layout, uint64_t seed = 1)
      : path_(dir_.file("driving.onnx")) {
    const auto wrote = driving::write_synthetic_driving({layout, false, seed}, path_);
    EXPECT_TRUE(wrote) << wrote.error().text;
  }
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return dir_.file(name); }
  std::string config(const std::string& extra = R"("n_threads":1)") const {
    return R"({"model_family":"onnx","model_path":")" + path_ + R"(","backend":"cpu")" +
           (extra.empty() ? "" : "," + extra) + "}";
  }

 private:
  ::outrider::test::TempDir dir_;
  std::string path_;
};

struct Frame {
  std::vector<uint8_t> image;
  std::vector<float> desire, traffic, action_t;
};
// Frame i of a made drive: another picture each time, desire levels of 0 and 1.
inline Frame frame_of(uint32_t i, size_t image_bytes = 393216) {
  Frame frame;
  frame.image.resize(image_bytes);
  for (size_t k = 0; k < frame.image.size(); ++k)
    frame.image[k] = static_cast<uint8_t>((k + 977 * i) * 2654435761u >> 24);
  frame.desire.assign(8, 0.0f);
  frame.desire[i / 3 % 8] = 1.0f;
  frame.traffic = {i % 50 < 25 ? 1.0f : 0.0f, i % 50 < 25 ? 0.0f : 1.0f};
  frame.action_t = {0.2f + 0.01f * static_cast<float>(i % 10), 0.5f};
  return frame;
}

inline int set_frame(const Provider& p, const Frame& f) {
  int worst = p.get()->verbs.set_input(p.get()->self, p.port("new_img"), f.image.data(),
                                       f.image.size(), -1);
  worst = std::min(worst, p.set("desire", f.desire));
  worst = std::min(worst, p.set("traffic_convention", f.traffic));
  return std::min(worst, p.set("action_t", f.action_t));
}

inline const outrider_driving_v1* driving_of(const Provider& p) {
  const void* table = nullptr;
  p.get()->query_extension(p.get(), OUTRIDER_EXT_DRIVING, 1, &table);
  return static_cast<const outrider_driving_v1*>(table);
}

}  // namespace outrider::onnx::test
