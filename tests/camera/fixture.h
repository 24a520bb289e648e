// A graph that gives back the model frames it was handed, and cameras before it.
#pragma once
#include <cstring>
#include <fstream>

#include "host/session.h"
#include "onnx/provider_fixture.h"
#include "vision/warp_oracle.h"

namespace outrider::camera::test {

inline std::string camera_path() {
  return std::string(OUTRIDER_BUILD_DIR) + "/lib/provider_camera.so";
}

// Model 32x16. planes = new_img in f32 plus seen; seen = seen + 1 every run when it is a state.
inline onnx::test::ModelMaker echo(const std::string& port = "new_img",
                                   const std::vector<int64_t>& dims = {2, 6, 8, 16}) {
  onnx::test::ModelMaker m;
  m.input("gain", {1}).input(port, dims, ::onnx::TensorProto::UINT8).input("seen", {1});
  m.output("planes", dims).output("next_seen", {1});
  m.floats("one", {1}, {1.0f});
  onnx::test::set_int(m.node("Cast", {port}, {"raw"}), "to", ::onnx::TensorProto::FLOAT);
  m.node("Mul", {"raw", "gain"}, {"scaled"});
  m.node("Add", {"scaled", "seen"}, {"planes"});
  m.node("Add", {"seen", "one"}, {"next_seen"});
  return m;
}

inline constexpr Nv12Layout kLayout = {64, 48, 72, 72 * 50};
inline constexpr const char* kLayoutKeys = R"("width":64,"height":48,"stride":72,"uv_offset":3600)";

struct Cameras {
  // `more`: further keys of the camera's configuration. `behind`: keys of the graph's.
  explicit Cameras(const std::string& more = "",
                   const std::string& behind = R"("state_pairs":"none")",
                   onnx::test::ModelMaker maker = echo())
      : disk(maker) {
    const std::string side = disk.file("graph.json");
    std::ofstream(side) << disk.config(behind);
    config = R"({"model_family":"camera","runtime":")" + side + "\"," + kLayoutKeys +
             (more.empty() ? "" : "," + more) + "}";
    narrow = outrider::test::noise_frame(kLayout.least_bytes(), 1);
    wide = outrider::test::noise_frame(kLayout.least_bytes(), 2);
  }
  void open() {
    auto opened = host::Session::open(camera_path(), config);
    ASSERT_TRUE(opened) << opened.error().text;
    session = std::make_unique<host::Session>(std::move(opened.value()));
  }
  uint32_t port(const char* name) const {
    const auto found = session->port_by_name(name);
    EXPECT_TRUE(found) << name;
    return found ? found.value() : 0;
  }
  template <class T>
  Result<void> set(const char* name, const std::vector<T>& values) {
    return session->set_raw(port(name), std::as_bytes(std::span(values)));
  }
  Result<void> transforms(const Matrix3& a, const Matrix3& b) {
    std::vector<float> both(a.begin(), a.end());
    both.insert(both.end(), b.begin(), b.end());
    return set("transforms", both);
  }
  void stage_all() {
    ASSERT_TRUE(set("gain", std::vector<float>{1}));
    if (session->port_by_name("seen")) {
      ASSERT_TRUE(set("seen", std::vector<float>{0}));
    }
    ASSERT_TRUE(transforms(m[0], m[1]));
    ASSERT_TRUE(set("frame_narrow", narrow));
    ASSERT_TRUE(set("frame_wide", wide));
  }
  std::vector<float> values() {
    const auto raw = session->get_raw(port("planes"));
    EXPECT_TRUE(raw) << raw.error().text;
    if (!raw) return {};
    std::vector<float> out(raw.value().size() / sizeof(float));
    std::memcpy(out.data(), raw.value().data(), raw.value().size());
    return out;
  }
  std::vector<uint8_t> planes() {
    std::vector<uint8_t> out;
    for (const float v : values()) out.push_back(static_cast<uint8_t>(v));
    return out;
  }
  std::vector<uint8_t> wanted(WarpSampling sampling = WarpSampling::kNearest) const {
    const WarpOptions o{kLayout, 32, 16, sampling};
    auto out = outrider::test::warp_oracle(o, narrow.data(), m[0]);
    const auto second = outrider::test::warp_oracle(o, wide.data(), m[1]);
    out.insert(out.end(), second.begin(), second.end());
    return out;
  }
  int64_t counter(const char* name) const {
    outrider_counter_v1 rows[64];
    const uint64_t n = session->status()->read(session->status()->self, rows, 64);
    for (uint64_t i = 0; i < n && i < 64; ++i)
      if (std::strcmp(rows[i].name, name) == 0) return rows[i].value;
    ADD_FAILURE() << "no counter " << name;
    return -1;
  }

  onnx::test::OnDisk disk;
  std::string config;
  std::vector<uint8_t> narrow, wide;
  Matrix3 m[2] = {{1.9f, .1f, -3, .05f, 2.2f, 1.5f, 1e-3f, 2e-3f, 1},
                  {1, 0, 8.5f, 0, 1.25f, 4, 0, -1e-3f, 1}};
  std::unique_ptr<host::Session> session;
};

}  // namespace outrider::camera::test
