// A driving device as a whole, in real time: two cameras at 1928x1208, the warp, and a tandem of a
// driving policy here and one on a host that speaks the Jetlink dialect, a process of its own. 20
// Hz, nobody acts on the output.
//   OUTRIDER_LONG_TESTS=1: 60 s; otherwise 6 s.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "fixture.h"
#include "link/serve_process.h"
#include "onnx/driving_support.h"
#include "outrider/ext/tandem.h"
#include "support/witness.h"

namespace outrider::camera::test {
namespace {

constexpr int64_t kMs = 1'000'000, kPeriodNs = 50 * kMs;
constexpr size_t kPool = 3;  // pairs of camera buffers

double ms(int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

struct Device {
  Device() : small(driving::Layout::kQueued, 1), big(driving::Layout::kQueued, 2) {
    for (uint32_t i = 0; i < kPool; ++i)
      for (uint32_t view = 0; view < 2; ++view)
        frames[i][view] = outrider::test::noise_frame(layout.picture_bytes, 2 * i + view + 1);
  }
  void open(const std::string& host) {
    std::ofstream(small.file("standby.json"))
        << small.config(R"("driving":"on","heads":"off","n_threads":1)");
    std::ofstream(small.file("lead.json"))
        << R"({"model_family":"remote","dialect":"jetlink","model":")" << big.path()
        << R"(","endpoint":")" << host << "\"}";
    std::ofstream(small.file("tandem.json"))
        << R"({"model_family":"tandem","preset":"driving20","standby":")"
        << small.file("standby.json") << R"(","lead":")" << small.file("lead.json") << "\"}";
    auto opened = host::Session::open(camera_path(), R"({"model_family":"camera","runtime":")" +
                                                         small.file("tandem.json") +
                                                         R"(","width":1928,"height":1208})");
    ASSERT_TRUE(opened) << opened.error().text;
    session = std::make_unique<host::Session>(std::move(opened.value()));
    table = static_cast<const outrider_tandem_v1*>(session->extension(OUTRIDER_EXT_TANDEM, 1));
    ASSERT_NE(table, nullptr) << "a tandem behind cameras is one still";
    for (auto& [name, index] : ports) index = session->port_by_name(name.c_str()).value();
  }
  template <class T>
  Result<void> set(const char* name, std::span<const T> values) {
    return session->set_raw(ports.at(name), std::as_bytes(values));
  }
  // What a drive gives: calibrations at 4 Hz, now and then a wish to change lanes.
  Result<void> stage(int64_t tick) {
    const double yaw = 1e-3 * static_cast<double>(tick / 5 % 7);
    std::vector<float> both;
    for (const CameraView view : {CameraView::kNarrow, CameraView::kWide}) {
      const auto m = model_transform(
          layout.layout, {device_focal_length(1928, 1208, view).value(), 0, .02, yaw - .015, view});
      both.insert(both.end(), m.value().begin(), m.value().end());
    }
    const std::array<float, 8> desire = {0, 0, 0, tick % 40 < 5 ? 1.0f : 0.0f};
    const std::array<float, 2> traffic = {1, 0}, action = {0.2f, 0.5f};
    const std::array<uint8_t, 1> nobody = {0};
    const auto& pair = frames[static_cast<size_t>(tick) % kPool];
    OUTRIDER_TRY(set("transforms", std::span<const float>(both)));
    OUTRIDER_TRY(set("frame_narrow", std::span<const uint8_t>(pair[0])));
    OUTRIDER_TRY(set("frame_wide", std::span<const uint8_t>(pair[1])));
    OUTRIDER_TRY(set("desire", std::span<const float>(desire)));
    OUTRIDER_TRY(set("traffic_convention", std::span<const float>(traffic)));
    OUTRIDER_TRY(set("action_t", std::span<const float>(action)));
    return set("engaged", std::span<const uint8_t>(nobody));
  }

  DeviceFrame layout = device_frame(1928, 1208).value();
  onnx::test::DrivingOnDisk small, big;
  std::vector<uint8_t> frames[kPool][2];
  std::unique_ptr<host::Session> session;
  const outrider_tandem_v1* table = nullptr;
  std::map<std::string, uint32_t> ports = {
      {"transforms", 0}, {"frame_narrow", 0},       {"frame_wide", 0}, {"desire", 0},
      {"action_t", 0},   {"traffic_convention", 0}, {"engaged", 0},    {"outputs", 0}};
};

struct Drive {
  std::vector<int64_t> late_ns, stage_ns;  // sorted: end after the due time; warps of both views
  int64_t by_lead = 0, first_by_lead = -1, over = 0, beyond = 0, worst_stall_ns = 0;
};

// A tick is missed when it ends after its period, and the machine did not keep a thread that wants
// to run waiting for as long as it was late; both are reported. (For an answer of the lead this
// loop, the tandem's thread, the host and again both must be scheduled one after the other: what
// counts are all waits of the tick.)
void drive(Device& device, int64_t n_ticks, Drive& out) {
  const MonotonicClock clock;
  outrider::test::Witness witness;
  std::vector<std::byte> answer(1 << 20);
  const int64_t first_ns = clock.now_ns() + kMs;
  for (int64_t i = 0; i < n_ticks; ++i) {
    const int64_t due_ns = first_ns + i * kPeriodNs;
    sleep_until_ns(due_ns - 2 * kMs);
    witness.take_sum_ns();  // what stood still before this tick excuses nothing
    sleep_until_ns(due_ns);
    const int64_t begin_ns = clock.now_ns();
    device.table->due(device.table->self, due_ns);
    const auto staged = device.stage(i);
    ASSERT_TRUE(staged) << staged.error().text;
    out.stage_ns.push_back(clock.now_ns() - begin_ns);
    const auto ticked = device.session->tick();
    ASSERT_TRUE(ticked) << "tick " << i << ": " << ticked.error().text;
    const auto bytes = device.session->get_into(device.ports.at("outputs"), answer);
    ASSERT_TRUE(bytes) << i;
    const int64_t end_ns = clock.now_ns();
    const std::span values(reinterpret_cast<const float*>(answer.data()), bytes.value() / 4);
    ASSERT_LT(host::first_non_finite(values), 0) << "tick " << i;
    int64_t origin[OUTRIDER_ORIGIN_COUNT];
    device.table->read_origin(device.table->self, origin);
    const bool by_lead = origin[OUTRIDER_ORIGIN_LEADER] == 2 && origin[OUTRIDER_ORIGIN_HELD] == 0;
    if (by_lead && out.first_by_lead < 0) out.first_by_lead = i;
    out.by_lead += by_lead;
    out.late_ns.push_back(end_ns - due_ns);
    const int64_t stall_ns = witness.take_sum_ns();
    out.worst_stall_ns = std::max(out.worst_stall_ns, stall_ns);
    out.over += end_ns - due_ns > kPeriodNs;
    out.beyond += end_ns - due_ns - stall_ns > kPeriodNs;
  }
  std::sort(out.late_ns.begin(), out.late_ns.end());
  std::sort(out.stage_ns.begin(), out.stage_ns.end());
}

TEST(DeviceLoop, cameras_host_and_standby_miss_no_frame_at_20_hz) {
  const bool full = std::getenv("OUTRIDER_LONG_TESTS") != nullptr;
  const int64_t n_ticks = full ? 1200 : 120;
  Device device;
  const link::here::ServeProcess host({device.big.path(), "--jetlink", "--port", "0", "--threads",
                                       "1", "--no-preload", "--cache", device.big.file("cache")});
  ASSERT_TRUE(host.is_there()) << host.line();
  ASSERT_NO_FATAL_FAILURE(device.open(host.endpoint()));
  Drive d;
  ASSERT_NO_FATAL_FAILURE(drive(device, n_ticks, d));
  int64_t counters[OUTRIDER_TANDEM_COUNT];
  device.table->read_counters(device.table->self, counters);
  const auto at = [](const std::vector<int64_t>& v, size_t percent) {
    return ms(v[std::min(v.size() - 1, v.size() * percent / 100)]);
  };
  std::printf(
      "   %lld ticks, %lld by the lead from tick %lld on, %lld held; both views staged and warped "
      "p50 %.2f p99 %.2f ms; end of a tick after its due time p50 %.2f p99 %.2f worst %.2f ms, "
      "%lld after their period; threads kept waiting for %.2f ms of a tick at worst; %s\n",
      static_cast<long long>(n_ticks), static_cast<long long>(d.by_lead),
      static_cast<long long>(d.first_by_lead),
      static_cast<long long>(counters[OUTRIDER_TANDEM_HELD]), at(d.stage_ns, 50),
      at(d.stage_ns, 99), at(d.late_ns, 50), at(d.late_ns, 99), ms(d.late_ns.back()),
      static_cast<long long>(d.over), ms(d.worst_stall_ns),
      device.table->lead_error(device.table->self));
  EXPECT_EQ(d.beyond, 0) << "frames that were not answered within their period";
  EXPECT_EQ(counters[OUTRIDER_TANDEM_REFUSED], 0);
  EXPECT_EQ(counters[OUTRIDER_TANDEM_TICKS], n_ticks);
  // Hold, hand-back and the way back are for hosts that are late, and so is a machine that stalls.
  const bool calm = d.worst_stall_ns < 10 * kMs;
  EXPECT_GT(d.by_lead, calm ? n_ticks * 3 / 4 : n_ticks / 4) << "the lead is to drive most of it";
}

}  // namespace
}  // namespace outrider::camera::test
