// A payload of megabytes over a slow link: its bytes are a sign of life while they come. A trickle
// is none, and nobody waits past a deadline for either.
#include <gtest/gtest.h>

#include "link/sim.h"

namespace outrider::link {
namespace {

using sim::kMs, sim::kSecond, sim::World;

constexpr size_t kBytes = 16'000'000;

// One input, one output, both of kBytes; a step copies the one to the other.
class Copier final : public Runtime {
 public:
  Copier() {
    static constexpr int64_t kShape[] = {static_cast<int64_t>(kBytes)};
    static frt_runtime_port_desc ports[2] = {};
    ports[0].name = "in", ports[1].name = "out";
    for (auto& port : ports) {
      port.modality = FRT_MODALITY_TENSOR, port.dtype = FRT_DTYPE_U8;
      port.update = FRT_UPDATE_STAGED, port.shape = kShape, port.rank = 1;
    }
    ports[1].direction = FRT_PORT_OUT;
    exp_.identity = "frt-identity-v1\n";
    face_.ports = ports, face_.n_ports = 2, face_.exp = &exp_;
  }
  const frt_model_runtime_v1& face() const noexcept override { return face_; }
  const frt_generic_stage_plan_ext_v1* plan() const noexcept override { return nullptr; }
  bool has_step() const noexcept override { return true; }
  int set_input(uint32_t port, const void* data, uint64_t bytes) noexcept override {
    if (port != 0 || bytes != kBytes) return FRT_ERR_SHAPE;
    in_.assign(static_cast<const std::byte*>(data), static_cast<const std::byte*>(data) + bytes);
    return FRT_OK;
  }
  int get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept override {
    if (written == nullptr || port != 1) return FRT_ERR_INVALID;
    *written = out_.size();
    if (out == nullptr || capacity < out_.size()) return FRT_ERR_STORAGE;
    std::memcpy(out, out_.data(), out_.size());
    return FRT_OK;
  }
  int run(uint32_t) noexcept override { return step(); }
  int step() noexcept override { return out_ = in_, FRT_OK; }
  int prepare(uint32_t, uint64_t) noexcept override { return FRT_ERR_UNSUPPORTED; }
  const char* last_error() noexcept override { return ""; }

 private:
  frt_model_runtime_v1 face_{};
  frt_runtime_export_v1 exp_{};
  std::vector<std::byte> in_, out_;
};

struct SlowWorld : World {
  explicit SlowWorld(uint64_t seed) : World(seed), frame(kBytes) {
    for (std::byte& b : frame) b = static_cast<std::byte>(draw.bits());
    make_runtime = [] { return std::make_unique<Copier>(); };
    stop_host();
    start_host();
    weather[0].window = 256 << 10;
    weather[1].window = 2 * kBytes;  // the simulated host cannot wait
  }
  // A device that has sent a frame once, over a link without a limit.
  std::unique_ptr<Device> opened(int64_t deadline_ns) {
    DeviceConfig config;
    config.deadline_ns = deadline_ns;
    auto device = open_device(config);
    EXPECT_TRUE(device) << device.error().text;
    if (!device) return nullptr;
    EXPECT_EQ(device.value()->set_input(0, frame.data(), kBytes), Code::kOk)
        << device.value()->last_error();
    return std::move(device.value());
  }
  void look_after(Device& device, int64_t until_ns) {
    while (now_ns < until_ns) {
      device.upkeep();
      run_until(std::min(until_ns, now_ns + 50 * kMs));
    }
  }
  static int64_t n_lost(const Device& device) {
    int64_t n = 0;
    for (const auto& lost : device.counters().lost) n += lost;
    return n;
  }
  std::vector<std::byte> frame;
};

TEST(SlowPayload, a_frame_that_takes_longer_than_every_silence_arrives) {
  SlowWorld world(1);
  auto device = world.opened(30 * kSecond);
  ASSERT_TRUE(device);
  world.weather[0].bytes_per_s = world.weather[1].bytes_per_s = 1'000'000;  // 16 s each way
  ASSERT_EQ(device->set_input(0, world.frame.data(), kBytes), Code::kOk) << device->last_error();
  ASSERT_EQ(device->step(), Code::kOk) << device->last_error();
  std::vector<std::byte> out(kBytes);
  uint64_t written = 0;
  ASSERT_EQ(device->get_output(1, out.data(), kBytes, &written), Code::kOk) << device->last_error();
  EXPECT_TRUE(out == world.frame);
  EXPECT_EQ(world.counters.silent_peers.load(), 0);
  EXPECT_EQ(SlowWorld::n_lost(*device), 0);
}

TEST(SlowPayload, a_lent_frame_is_not_taken_for_a_silent_host_while_it_leaves) {
  SlowWorld world(2);
  auto device = world.opened(200 * kMs);
  ASSERT_TRUE(device);
  world.weather[0].bytes_per_s = 1'000'000;
  uint64_t loan = 0;
  ASSERT_EQ(device->lend_input(0, world.frame.data(), kBytes, &loan), Code::kOk)
      << device->last_error();
  ASSERT_NE(loan, 0u);
  const int64_t begin = world.now_ns;
  world.look_after(*device, begin + 18 * kSecond);
  EXPECT_TRUE(device->is_free(loan));
  EXPECT_EQ(SlowWorld::n_lost(*device), 0) << device->last_error();
  EXPECT_EQ(world.counters.silent_peers.load(), 0);
  ASSERT_EQ(device->step(), Code::kOk) << device->last_error();
}

TEST(SlowPayload, an_output_that_comes_late_costs_verbs_their_deadline_and_not_the_link) {
  SlowWorld world(3);
  auto device = world.opened(200 * kMs);
  ASSERT_TRUE(device);
  ASSERT_EQ(device->step(), Code::kOk) << device->last_error();
  world.weather[1].bytes_per_s = 1'000'000;
  std::vector<std::byte> out(kBytes);
  uint64_t written = 0;
  for (int i = 0; i < 5; ++i) {
    const int64_t begin = world.now_ns;
    EXPECT_EQ(device->get_output(1, out.data(), 1000 * (i > 0) + kBytes * (i == 0), &written),
              Code::kDevice);
    EXPECT_LE(world.now_ns - begin, 200 * kMs + kMs);
  }
  world.look_after(*device, world.now_ns + 18 * kSecond);
  EXPECT_EQ(SlowWorld::n_lost(*device), 0) << device->last_error();
  ASSERT_EQ(device->step(), Code::kOk) << device->last_error();
}

TEST(SlowPayload, a_trickle_is_a_silent_host_and_holds_nobody_past_the_deadline) {
  SlowWorld world(4);
  auto device = world.opened(200 * kMs);
  ASSERT_TRUE(device);
  ASSERT_EQ(device->step(), Code::kOk) << device->last_error();
  world.weather[1].bytes_per_s = 1;
  world.weather[1].most_chunk = 1;
  world.weather[1].window = 256;  // the rest is lost with the host's patience
  std::vector<std::byte> out(kBytes);
  uint64_t written = 0;
  const int64_t begin = world.now_ns;
  while (device->connected() && world.now_ns < begin + 20 * kSecond) {
    const int64_t asked = world.now_ns;
    EXPECT_EQ(device->get_output(1, out.data(), kBytes, &written), Code::kDevice);
    // The simulated host stands still for as long as it waits for its peer.
    if (asked > begin) {
      EXPECT_LE(world.now_ns - asked, 200 * kMs + kMs);
    }
    world.look_after(*device, world.now_ns + 100 * kMs);
  }
  EXPECT_FALSE(device->connected());
  EXPECT_LE(world.now_ns - begin, kPeerSendNs + 2 * kSilenceNs);
}

}  // namespace
}  // namespace outrider::link
