// A small driving policy beside a big one: two real providers of equal ports, the big one on a host
// that goes away. The standby has the history of its own start when it takes back.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "host/session.h"
#include "link/server/server.h"
#include "onnx/driving_support.h"
#include "outrider/ext/tandem.h"

namespace outrider::tandem::test {
namespace {

using driving::Layout;
using onnx::test::DrivingOnDisk;
using onnx::test::Frame;
using onnx::test::frame_of;
using onnx::test::Provider;

constexpr const char* kOneThread = R"("n_threads":1)";

// What a runtime on its own answers, from its start.
std::vector<float> answer_of(const Provider& runtime, const Frame& frame) {
  EXPECT_EQ(onnx::test::set_frame(runtime, frame), 0);
  EXPECT_EQ(runtime.stage("infer"), 0) << runtime.error();
  return runtime.read("outputs");
}

struct Drive {
  Drive(const std::string& folder_file, const std::string& standby, const std::string& lead) {
    const std::string side = folder_file + ".standby.json", other = folder_file + ".lead.json";
    std::ofstream(side) << standby;
    std::ofstream(other) << lead;
    auto opened = host::Session::open(
        std::string(OUTRIDER_BUILD_DIR) + "/lib/provider_tandem.so",
        R"({"model_family":"tandem","standby":")" + side + R"(","lead":")" + other +
            R"(","period_ms":100,"hold_ms":92,"return_ms":90,"return_ticks":1,"history_ticks":6,"deadline_ms":400})");
    if (!opened) {
      ADD_FAILURE() << opened.error().text;
      return;
    }
    session = std::make_unique<host::Session>(std::move(opened.value()));
    table = static_cast<const outrider_tandem_v1*>(session->extension(OUTRIDER_EXT_TANDEM, 1));
  }
  uint32_t port(const std::string& name) const {
    const auto ports = session->ports();
    for (uint32_t i = 0; i < ports.size(); ++i)
      if (ports[i].name == name) return i;
    ADD_FAILURE() << "no port " << name;
    return 0;
  }
  template <class T>
  void set(const char* name, const std::vector<T>& values) {
    EXPECT_TRUE(session->set_raw(port(name), std::as_bytes(std::span(values)))) << name;
  }
  std::vector<float> tick(const Frame& f, bool in_control) {
    const auto due = std::chrono::steady_clock::now() + std::chrono::milliseconds(40);
    set("new_img", f.image);
    set("desire", f.desire);
    set("traffic_convention", f.traffic);
    set("action_t", f.action_t);
    set("engaged", std::vector<uint8_t>{static_cast<uint8_t>(in_control)});
    EXPECT_TRUE(session->tick());
    std::vector<float> out(18452);
    EXPECT_TRUE(session->get_into(port("outputs"), std::as_writable_bytes(std::span(out))));
    int64_t origin[OUTRIDER_ORIGIN_COUNT];
    table->read_origin(table->self, origin);
    leader = origin[OUTRIDER_ORIGIN_LEADER];
    held = origin[OUTRIDER_ORIGIN_HELD] != 0;
    std::this_thread::sleep_until(due);
    return out;
  }
  int64_t counter(int which) const {
    int64_t counters[OUTRIDER_TANDEM_COUNT];
    table->read_counters(table->self, counters);
    return counters[which];
  }
  std::unique_ptr<host::Session> session;
  const outrider_tandem_v1* table = nullptr;
  int64_t leader = 0;
  bool held = false;
};

// A lead that must be in time has none of it under the thread sanitizer.
#if defined(__SANITIZE_THREAD__)
#define OUTRIDER_NEEDS_TIME() GTEST_SKIP() << "the big model is never in time under this sanitizer"
#else
#define OUTRIDER_NEEDS_TIME() static_cast<void>(0)
#endif

TEST(TandemDriving, S17e_the_small_model_takes_back_with_the_history_of_its_own_start) {
  OUTRIDER_NEEDS_TIME();
  static const MonotonicClock clock;
  const DrivingOnDisk small(Layout::kQueued, 1), big(Layout::kStateful, 2);
  auto models = std::make_unique<link::Models>(link::ModelsLimits{}, clock);
  ASSERT_TRUE(models->add(
      "default",
      std::make_unique<link::ProviderSource>(onnx::test::provider_path(), big.config(kOneThread)),
      true));
  link::ServerOptions options;
  options.listen = {"tcp://127.0.0.1:0"};
  auto server = link::Server::start(options, std::move(models), clock);
  ASSERT_TRUE(server) << server.error().text;
  Drive drive(small.file("drive"), small.config(kOneThread),
              R"({"model_family":"remote","model":"default","endpoint":")" +
                  server.value()->endpoints()[0] + "\"}");
  ASSERT_NE(drive.session, nullptr);
  uint32_t i = 0;
  {
    const Provider alone(small.config(kOneThread));
    for (; i < 8; ++i) {
      const auto out = drive.tick(frame_of(i), true);
      ASSERT_EQ(drive.leader, 1);
      ASSERT_EQ(out, answer_of(alone, frame_of(i))) << i;
    }
  }
  for (; i < 200 && drive.leader != 2; ++i) drive.tick(frame_of(i), false);
  ASSERT_EQ(drive.leader, 2) << "the big model never took over";
  for (const uint32_t end = i + 4; i < end; ++i) drive.tick(frame_of(i), true);
  server.value().reset();
  const Provider fresh(small.config(kOneThread));
  int n_answered = 0;
  for (const uint32_t end = i + 20; i < end; ++i) {
    const auto out = drive.tick(frame_of(i), true);
    if (drive.leader != 1) continue;  // a tick that was held once more
    ASSERT_EQ(out, answer_of(fresh, frame_of(i))) << n_answered;
    ++n_answered;
  }
  EXPECT_GE(n_answered, 17);
  EXPECT_EQ(drive.counter(OUTRIDER_TANDEM_RESETS), 1);
}

TEST(TandemDriving, the_big_model_takes_over_with_the_history_of_the_last_frames) {
  OUTRIDER_NEEDS_TIME();
  const DrivingOnDisk small(Layout::kQueued, 1), big(Layout::kStateful, 2);
  Drive drive(small.file("drive"), small.config(kOneThread), big.config(kOneThread));
  ASSERT_NE(drive.session, nullptr);
  uint32_t i = 0;
  for (; i < 8; ++i) drive.tick(frame_of(0), true);
  std::vector<float> out;
  for (; i < 100 && (drive.leader != 2 || drive.held); ++i) out = drive.tick(frame_of(0), false);
  ASSERT_EQ(drive.leader, 2);
  // One frame over and over: its answers from a cold start change with every fourth frame, when the
  // context moves. The first four are those of a model that has seen nothing.
  const Provider cold(big.config(kOneThread));
  int n = 0, found = 0;
  for (n = 1; n <= 60 && found == 0; ++n)
    if (answer_of(cold, frame_of(0)) == out) found = n;
  EXPECT_GE(found, 5) << "took over cold";
}

}  // namespace
}  // namespace outrider::tandem::test
