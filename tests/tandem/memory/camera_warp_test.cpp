// The routes of a warp's output with the real camera warp instead of the byte pattern: R14, R27,
// and what the probe says of it. driving.md a.5, b.6, h.
#include "hot_counter.h"
#include "tandem/memory/doubles.h"
#include "vision/warp.h"
#include "vision/warp_oracle.h"

namespace outrider::memory::test {
namespace {

namespace hot_counter = outrider::test::hot_counter;
using outrider::test::crc32;

// The camera warp as a compiled program: scalars are both transforms, narrow then wide.
class CameraGraph final : public CompiledGraph {
 public:
  CameraGraph(WarpPair pair, size_t frame_bytes) : pair_(std::move(pair)) {
    const auto n = static_cast<int64_t>(frame_bytes);
    for (const char* name : {"frame_road", "frame_wide"})
      captured_.push_back({name, FRT_DTYPE_U8, {n}, frame_bytes});
    captured_.push_back({"scalars", FRT_DTYPE_F32, {18}, 18 * sizeof(float)});
  }
  std::span<const ArgumentSpec> captured() const override { return captured_; }
  size_t output_bytes() const override { return pair_.plane_bytes(); }
  Result<void> link(std::byte* output) override {
    output_ = output;
    return {};
  }
  const std::byte* replay(std::span<const Argument> arguments) noexcept override {
    Matrix3 m[2];
    std::memcpy(m, arguments[2].data, sizeof m);
    pair_.set_transforms(m[0], m[1]);
    const auto frame = [&](size_t i) {
      return std::span(static_cast<const std::byte*>(arguments[i].data), arguments[i].bytes);
    };
    const Code code = pair_.run(frame(0), frame(1), {output_, pair_.plane_bytes()});
    return code == Code::kOk ? output_ : nullptr;
  }
  Code wait() noexcept override { return Code::kOk; }

 private:
  WarpPair pair_;
  std::vector<ArgumentSpec> captured_;
  std::byte* output_ = nullptr;
};

// A small model whose warp is the real one, and what a load asks for.
struct CameraRig {
  CameraRig(const WarpOptions& options, size_t bytes, uint32_t grants)
      : o(options), frame_bytes(bytes), own(0), device(grants) {
    scalars.resize(18);
    for (const size_t i : {0u, 4u, 8u, 9u, 13u, 17u}) scalars[i] = 1;  // identity twice
  }
  Artifact artifact() {
    Artifact a;
    a.runtime_id = "native02e";
    a.check_digest = [] { return Result<void>(); };
    a.identity = [] { return std::string("inode 7"); };
    a.construct = [this]() -> Result<std::unique_ptr<WarpState>> {
      auto pair = WarpPair::make(o);
      if (!pair) return pair.error();
      const size_t bytes = pair.value().plane_bytes();
      auto program =
          Program::make(std::make_unique<CameraGraph>(std::move(pair.value()), frame_bytes),
                        own.allocate(bytes, 0).value());
      if (!program) return program.error();
      auto state = std::make_unique<WarpState>();
      state->program = program.value();
      state->scalars = scalars;
      return state;
    };
    a.warm_up = [this](WarpState& s) -> Result<void> {
      const std::vector<std::byte> zeros(frame_bytes);
      const CameraFrame frame{0, zeros.data(), zeros.size(), 0};
      if (warp_frames(s, frame, frame) != Code::kOk || s.program->wait() != Code::kOk)
        return make_error(Code::kDevice, "warm-up: %s", s.program->last_error().c_str());
      return {};
    };
    return a;
  }
  ProbeParts probe() {
    ProbeParts parts;
    parts.frames = &probe_memory;
    parts.frame_bytes = frame_bytes;
    parts.fill = [](int round, uint32_t view, std::span<std::byte> to) {
      Rig::fill(static_cast<uint64_t>(round) * 2 + view + 100, to);
    };
    parts.reference = [this](std::span<const std::byte> road, std::span<const std::byte> wide,
                             std::span<std::byte> out) {
      const auto expected = oracle(road, wide);
      std::memcpy(out.data(), expected.data(), out.size());
    };
    return parts;
  }
  void load() {
    LoadOptions l;
    l.link_on = true;
    l.runtime_id = "native02e";
    l.hooks.coherent_warp = [this]() -> Mover {
      return [this](Program& p) { return make_sendable(p, device); };
    };
    auto made = load_warp(artifact(), l);
    ASSERT_TRUE(made) << made.error().text;
    loaded = std::move(made.value());
    auto link = warp_for_link(*loaded.state, loaded.why_not, probe(), clock);
    ASSERT_TRUE(link) << link.error().text;
    warp = std::move(link.value());
  }
  void set(const Matrix3& narrow, const Matrix3& wide) {
    std::copy(narrow.begin(), narrow.end(), scalars.begin());
    std::copy(wide.begin(), wide.end(), scalars.begin() + 9);
  }
  std::vector<uint8_t> oracle(std::span<const std::byte> road,
                              std::span<const std::byte> wide) const {
    Matrix3 m[2];
    std::memcpy(m, scalars.data(), sizeof m);
    auto out = outrider::test::warp_oracle(o, reinterpret_cast<const uint8_t*>(road.data()), m[0]);
    const auto second =
        outrider::test::warp_oracle(o, reinterpret_cast<const uint8_t*>(wide.data()), m[1]);
    out.insert(out.end(), second.begin(), second.end());
    return out;
  }
  // start, wait, the bytes to send.
  std::span<const std::byte> frame(std::span<const std::byte> road,
                                   std::span<const std::byte> wide) {
    EXPECT_EQ(warp->start({0, road.data(), road.size(), 1}, {1, wide.data(), wide.size(), 1}),
              Code::kOk);
    EXPECT_EQ(warp->wait(), Code::kOk);
    return warp->send_view();
  }

  WarpOptions o;
  size_t frame_bytes;
  ManualClock clock;
  FakeDevice own, device, probe_memory{attribute::kSendable};
  std::vector<float> scalars;
  LoadedWarp loaded;
  std::unique_ptr<LinkWarp> warp;
};

constexpr uint32_t kGrants[] = {attribute::kSendable, attribute::kIoCoherent};  // direct, staged

TEST(MemoryCameraWarp, R14_both_routes_give_the_golden_frames) {
  const struct {
    Matrix3 narrow, wide;
    uint32_t crc;
  } goldens[] = {
      {{1, 0, 0, 0, 1, 0, 0, 0, 1}, {1, 0, 0, 0, 1, 0, 0, 0, 1}, 0x08e57d62},
      {{2.90989017f, 0, 219.06813f, 0, 2.90989017f, 465.489227f, 0, 0, 1},
       {1.24615383f, 0, 644.984619f, 0, 1.24615383f, 414.833832f, 0, 0, 1},
       0xd4c801e2},
      {{3, .05f, -20, .02f, 2.9f, -30, 1e-5f, 2e-5f, 1},
       {1.5f, -.02f, 40.25f, .01f, 1.6f, -12.5f, -2e-5f, 1e-5f, 1},
       0x63d10101},
  };
  const DeviceFrame device = device_frame(1928, 1208).value();
  const auto road = outrider::test::noise_frame(device.allocation_bytes, 1),
             wide = outrider::test::noise_frame(device.allocation_bytes, 2);
  for (const uint32_t grants : kGrants) {
    CameraRig rig({.camera = device.layout}, device.allocation_bytes, grants);
    ASSERT_NO_FATAL_FAILURE(rig.load());
    ASSERT_EQ(rig.warp->route().route,
              grants == attribute::kSendable ? SendRoute::kDirect : SendRoute::kStaged);
    ASSERT_EQ(rig.warp->send_view().size(), kFrameBytes);
    for (const auto& g : goldens) {
      rig.set(g.narrow, g.wide);
      const auto view = rig.frame(std::as_bytes(std::span(road)), std::as_bytes(std::span(wide)));
      EXPECT_EQ(crc32(reinterpret_cast<const uint8_t*>(view.data()), view.size()), g.crc)
          << route_name(rig.warp->route().route);
    }
  }
}

TEST(MemoryCameraWarp, R27_after_wait_the_view_holds_the_warp_of_this_frame_on_either_route) {
  const WarpOptions options{.camera = {64, 48, 72, 72 * 48}, .model_width = 34, .model_height = 16};
  const size_t bytes = options.camera.least_bytes();
  for (const uint32_t grants : kGrants) {
    CameraRig rig(options, bytes, grants);
    ASSERT_NO_FATAL_FAILURE(rig.load());
    const UniformStream noise(11);
    std::vector<std::byte> frames[2] = {std::vector<std::byte>(bytes),
                                        std::vector<std::byte>(bytes)};
    for (uint64_t i = 0; i < 500; ++i) {
      for (uint64_t view = 0; view < 2; ++view) {
        Rig::fill(i * 2 + view, frames[view]);
        float* m = rig.scalars.data() + 9 * view;
        for (uint64_t k = 0; k < 9; ++k)
          m[k] = noise.symmetric(i * 100 + view * 9 + k) * (k % 3 == 2 ? 20.0f : k < 6 ? 2 : .03f);
        m[8] = 1;
      }
      const auto wanted = rig.oracle(frames[0], frames[1]);
      hot_counter::arm();
      const auto view = rig.frame(frames[0], frames[1]);
      const auto counts = hot_counter::disarm();
      ASSERT_EQ(counts.total(), 0u) << hot_counter::describe(counts);
      ASSERT_EQ(crc32(reinterpret_cast<const uint8_t*>(view.data()), view.size()),
                crc32(wanted.data(), wanted.size()))
          << route_name(rig.warp->route().route) << " frame " << i;
    }
  }
}

// A transform written in place between two frames: the plan that is kept must not hide it.
TEST(MemoryCameraWarp, R19_a_calibration_that_arrives_is_in_the_very_next_frame) {
  const WarpOptions options{.camera = {64, 48, 64, 64 * 48}, .model_width = 32, .model_height = 16};
  const size_t bytes = options.camera.least_bytes();
  CameraRig rig(options, bytes, attribute::kSendable);
  ASSERT_NO_FATAL_FAILURE(rig.load());
  std::vector<std::byte> road(bytes), wide(bytes);
  Rig::fill(1, road);
  Rig::fill(2, wide);
  for (const float shift : {0.0f, 1.0f, 2.5f, 2.5f, 0.0f}) {
    rig.set({1, 0, shift, 0, 1, 0, 0, 0, 1}, {1, 0, 0, 0, 1, shift, 0, 0, 1});
    const auto view = rig.frame(road, wide);
    const auto wanted = rig.oracle(road, wide);
    ASSERT_EQ(std::memcmp(view.data(), wanted.data(), wanted.size()), 0) << shift;
  }
}

// A program that is captured for whole allocations refuses a frame that is one byte short.
TEST(MemoryCameraWarp, a_short_frame_is_refused_and_the_view_stays) {
  const WarpOptions options{.camera = {64, 48, 64, 64 * 48}, .model_width = 32, .model_height = 16};
  const size_t bytes = options.camera.least_bytes();
  CameraRig rig(options, bytes, attribute::kSendable);
  ASSERT_NO_FATAL_FAILURE(rig.load());
  std::vector<std::byte> road(bytes), wide(bytes);
  const auto view = rig.frame(road, wide);
  const std::vector<std::byte> kept(view.begin(), view.end());
  Rig::fill(3, road);
  EXPECT_EQ(rig.warp->start({0, road.data(), bytes - 1, 1}, {1, wide.data(), bytes, 1}),
            Code::kShape);
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), rig.warp->send_view().begin()));
  rig.frame(road, wide);
}

}  // namespace
}  // namespace outrider::memory::test
