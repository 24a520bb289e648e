// A tandem of models that remember: two ONNX graphs with state, through provider_tandem.so.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "host/session.h"
#include "link/server/server.h"
#include "onnx/provider_fixture.h"
#include "outrider/ext/tandem.h"

namespace outrider::tandem::test {
namespace {

using onnx::test::OnDisk;

// y = x + memory, memory = memory / 2 + x.
struct Memory {
  float memory = 0;
  float operator()(float x) {
    const float y = x + memory;
    memory = memory / 2 + x;
    return y;
  }
};

struct Loop {
  // `lead`: another configuration than the standby's.
  explicit Loop(const std::string& more, const std::string& lead = {})
      : disk(onnx::test::stateful()) {
    const std::string side = disk.file("side.json"), other = disk.file("lead.json");
    std::ofstream(side) << disk.config(R"("dims":"n1=1")");
    std::ofstream(other) << (lead.empty() ? disk.config(R"("dims":"n1=1")") : lead);
    auto opened = host::Session::open(
        std::string(OUTRIDER_BUILD_DIR) + "/lib/provider_tandem.so",
        R"({"model_family":"tandem","standby":")" + side + R"(","lead":")" + other +
            R"(","period_ms":20,"hold_ms":16,"return_ms":15,"return_ticks":1,"history_ticks":4)" +
            more + "}");
    if (!opened) {
      ADD_FAILURE() << opened.error().text;
      return;
    }
    session = std::make_unique<host::Session>(std::move(opened.value()));
    table = static_cast<const outrider_tandem_v1*>(session->extension(OUTRIDER_EXT_TANDEM, 1));
    x = port("x");
    y = port("y");
    engaged = port("engaged");
  }
  uint32_t port(const std::string& name) const {
    const auto ports = session->ports();
    for (uint32_t i = 0; i < ports.size(); ++i)
      if (ports[i].name == name) return i;
    ADD_FAILURE() << "no port " << name;
    return 0;
  }
  float tick(float value, bool in_control) {
    const float in[4] = {value, value, value, value};
    const std::byte flag{static_cast<uint8_t>(in_control)};
    EXPECT_TRUE(session->set_raw(x, std::as_bytes(std::span(in))));
    EXPECT_TRUE(session->set_raw(engaged, {&flag, 1}));
    EXPECT_TRUE(session->tick());
    float out[4] = {};
    EXPECT_TRUE(session->get_into(y, std::as_writable_bytes(std::span(out))));
    int64_t origin[OUTRIDER_ORIGIN_COUNT];
    table->read_origin(table->self, origin);
    leader = origin[OUTRIDER_ORIGIN_LEADER];
    held = origin[OUTRIDER_ORIGIN_HELD] != 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    return out[0];
  }
  OnDisk disk;
  std::unique_ptr<host::Session> session;
  const outrider_tandem_v1* table = nullptr;
  uint32_t x = 0, y = 0, engaged = 0;
  int64_t leader = 0;
  bool held = false;
};

TEST(TandemStateful, the_standby_goes_on_from_tick_to_tick) {
  Loop loop("");
  Memory wanted;
  for (int i = 1; i <= 10; ++i)
    ASSERT_EQ(loop.tick(static_cast<float>(i), true), wanted(static_cast<float>(i))) << i;
}

TEST(TandemStateful, a_lead_that_takes_over_has_the_history_of_the_last_ticks) {
  Loop loop("");
  for (int i = 0; i < 8; ++i) loop.tick(1.0f, true);
  float memory_of_last_four = 0;
  for (int i = 1; i <= 200; ++i) {
    // Enough ticks for the lead to follow from the first input that is still kept on.
    const float got = loop.tick(1.0f, false);
    if (loop.leader == 2 && !loop.held) {
      // From rest, n ticks of 1 leave a memory of 2 - 2^(1-n): at least four were replayed.
      memory_of_last_four = got - 1.0f;
      break;
    }
  }
  EXPECT_GE(memory_of_last_four, 2.0f - 0.125f) << "took over cold";
}

// The lead on another computer, which goes away: from that tick on the standby is what it was after
// its own start.
TEST(TandemStateful, R35_the_standby_takes_back_as_after_its_own_start) {
  static const MonotonicClock clock;
  OnDisk disk(onnx::test::stateful());
  auto models = std::make_unique<link::Models>(link::ModelsLimits{}, clock);
  ASSERT_TRUE(models->add("default",
                          std::make_unique<link::ProviderSource>(onnx::test::provider_path(),
                                                                 disk.config(R"("dims":"n1=1")")),
                          true));
  link::ServerOptions options;
  options.listen = {"tcp://127.0.0.1:0"};
  auto server = link::Server::start(options, std::move(models), clock);
  ASSERT_TRUE(server) << server.error().text;
  Loop loop("", R"({"model_family":"remote","model":"default","endpoint":")" +
                    server.value()->endpoints()[0] + "\"}");
  for (int i = 0; i < 8; ++i) loop.tick(1.0f, true);
  float got = 0;
  for (int i = 0; i < 300 && loop.leader != 2; ++i) got = loop.tick(1.0f, false);
  ASSERT_EQ(loop.leader, 2);
  EXPECT_GE(got, 3.0f - 0.125f) << "a remote lead took over cold";
  for (int i = 0; i < 10; ++i) loop.tick(1.0f, true);
  server.value().reset();
  Memory wanted;
  int answered = 0;
  for (int i = 0; i < 30; ++i) {
    const float x = static_cast<float>(i % 5);
    const float y = loop.tick(x, true);
    if (loop.leader != 1) continue;  // a tick that was held once more
    ASSERT_EQ(y, wanted(x)) << i;
    ++answered;
  }
  EXPECT_GE(answered, 27);
  int64_t counters[OUTRIDER_TANDEM_COUNT];
  loop.table->read_counters(loop.table->self, counters);
  EXPECT_EQ(counters[OUTRIDER_TANDEM_RESETS], 1);
}

}  // namespace
}  // namespace outrider::tandem::test
