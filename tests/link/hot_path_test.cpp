// What a tick through provider_link.so does on the device: no heap, no lock, no write, in any
// thread of the process. The host is a process of its own, so that nothing of it is counted.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "hot_counter.h"
#include "link/host_here.h"
#include "link/serve_process.h"
#include "support/temp_dir.h"

namespace outrider::link {
namespace {

constexpr const char* kConfig =
    "{\"model_family\":\"fake\",\"plan\":\"split\",\"n_views\":2,\"image_height\":64,"
    "\"image_width\":64,\"action_steps\":50,\"action_dim\":32}";

struct HostProcess : here::ServeProcess {
  HostProcess()
      : ServeProcess({config_file(), "--provider", here::provider("fake"), "--listen",
                      "tcp://127.0.0.1:0"}) {}
  static std::string config_file() {
    const std::string path = test::temp_file("fake.json");
    std::ofstream(path) << kConfig;
    return path;
  }
};

struct Ticks {
  std::vector<uint8_t> pixels = std::vector<uint8_t>(2 * 64 * 64 * 3, 9);
  frt_image_view views[2] = {};
  float state[8] = {};
  std::vector<float> out = std::vector<float>(1600);
  uint64_t written = 0;

  Ticks() {
    for (size_t v = 0; v < 2; ++v)
      views[v] = {sizeof(frt_image_view),
                  FRT_PIXEL_RGB8,
                  pixels.data() + v * 64 * 64 * 3,
                  64 * 64 * 3,
                  64,
                  64,
                  0,
                  0,
                  0};
  }
  int stage(Runtime& r) {
    state[0] += 1;
    int code = r.set_input(0, views, sizeof views);
    if (code == 0) code = r.set_input(1, "pick up the cup", 15);
    return code == 0 ? r.set_input(2, state, sizeof state) : code;
  }
  int read(Runtime& r) { return r.get_output(3, out.data(), out.size() * sizeof(float), &written); }
  int whole(Runtime& r) {
    int code = stage(r);
    if (code == 0) code = r.step();
    return code == 0 ? read(r) : code;
  }
  int by_stages(Runtime& r) {
    int code = stage(r);
    for (uint64_t i = 0; i < r.plan()->n_stages && code == 0; ++i)
      code = r.run(r.plan()->stages[i].executor_ref);
    return code == 0 ? read(r) : code;
  }
};

class HotPath : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Plans, HotPath, ::testing::Values("mirror", "send_receive"));

TEST_P(HotPath, a_tick_takes_no_heap_no_lock_and_writes_nothing_on_the_device) {
  if (!test::hot_counter::available()) GTEST_SKIP() << "not under a sanitizer";
  const HostProcess host;
  auto opened = ProviderSource(here::provider("link"),
                               "{\"model_family\":\"remote\",\"model\":\"default\","
                               "\"deadline_ms\":2000,\"endpoint\":\"" +
                                   host.endpoint() + "\",\"plan\":\"" + GetParam() + "\"}")
                    .open();
  ASSERT_TRUE(opened) << opened.error().text;
  Runtime& remote = *opened.value();
  Ticks ticks;
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(ticks.whole(remote), 0) << remote.last_error();
    ASSERT_EQ(ticks.by_stages(remote), 0) << remote.last_error();
  }
  // Every 50 ms a thread of the provider looks after the link: a window that it falls into may see
  // its lock, never its heap.
  constexpr int kWindows = 12;
  int n_clean = 0;
  std::string seen;
  for (int window = 0; window < kWindows; ++window) {
    test::hot_counter::arm();
    int code = 0;
    for (int i = 0; i < 5 && code == 0; ++i) {
      code = ticks.whole(remote);
      if (code == 0) code = ticks.by_stages(remote);
    }
    const test::HotCounts counts = test::hot_counter::disarm();
    ASSERT_EQ(code, 0) << remote.last_error();
    EXPECT_EQ(counts.allocations + counts.frees + counts.writes, 0u)
        << test::hot_counter::describe(counts);
    EXPECT_LE(counts.locks, 4u) << test::hot_counter::describe(counts);
    if (counts.total() == 0) ++n_clean;
    if (counts.total() != 0) seen = test::hot_counter::describe(counts);
    std::this_thread::sleep_for(std::chrono::milliseconds(7));
  }
  EXPECT_GE(n_clean, kWindows / 3) << seen;
}

}  // namespace
}  // namespace outrider::link
