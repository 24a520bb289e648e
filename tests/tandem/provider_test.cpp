// provider_tandem.so as a host sees it: two scripted providers behind it, real threads, real time
// with generous bounds.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "host/conform.h"
#include "host/session.h"
#include "hot_counter.h"
#include "outrider/ext/tandem.h"
#include "support/temp_dir.h"

namespace outrider::tandem::test {
namespace {

using outrider::test::HotCounts;
namespace hot_counter = outrider::test::hot_counter;

const std::string kLib = std::string(OUTRIDER_BUILD_DIR) + "/lib/";
const std::string kFake = kLib + "provider_fake.so", kTandem = kLib + "provider_tandem.so";

std::string fake(const std::string& more = {}) {
  return "{\"model_family\":\"fake\"" + more + "}";
}

// Writes both sides' configurations and gives the tandem's.
std::string tandem_config(const std::string& standby, const std::string& lead,
                          const std::string& more = {}) {
  static int n = 0;
  const std::string base = outrider::test::temp_file(std::to_string(n++));
  std::ofstream(base + "_standby.json") << standby;
  std::ofstream(base + "_lead.json") << lead;
  return "{\"model_family\":\"tandem\",\"standby\":\"" + base + "_standby.json\",\"lead\":\"" +
         base + "_lead.json\",\"standby_provider\":\"" + kFake + "\",\"lead_provider\":\"" + kFake +
         "\"" + more + "}";
}

// Quick enough for a test: 20 ms period, no proof but one good answer.
const std::string kQuick =
    ",\"period_ms\":20,\"hold_ms\":16,\"return_ms\":15,\"return_ticks\":1,\"history_ticks\":4";

class Loop {
 public:
  explicit Loop(const std::string& config) {
    auto opened = host::Session::open(kTandem, config);
    if (!opened) {
      ADD_FAILURE() << opened.error().text;
      return;
    }
    session_ = std::make_unique<host::Session>(std::move(opened.value()));
    tandem_ = static_cast<const outrider_tandem_v1*>(session_->extension(OUTRIDER_EXT_TANDEM, 1));
  }
  host::Session& session() { return *session_; }
  const outrider_tandem_v1& table() { return *tandem_; }

  bool stage(bool engaged, float state = 1) {
    const frt_image_view view = {
        sizeof view, FRT_PIXEL_RGB8, pixels_, sizeof pixels_, 6, 4, 18, 0, 0};
    const std::byte flag{static_cast<uint8_t>(engaged)};
    return session_->set_image(0, {&view, 1}) && session_->set_text(1, "go") &&
           session_->set_state(2, std::span(&state, 1)) &&
           session_->set_raw(6, std::span(&flag, 1));
  }
  // One tick of `period_ms`; the code.
  Code tick(bool engaged, int period_ms = 20) {
    const auto due = std::chrono::steady_clock::now() + std::chrono::milliseconds(period_ms);
    EXPECT_TRUE(stage(engaged));
    const Code code = session_->tick().code();
    std::this_thread::sleep_until(due);
    return code;
  }
  int64_t origin(int i) {
    int64_t out[OUTRIDER_ORIGIN_COUNT];
    tandem_->read_origin(tandem_->self, out);
    return out[i];
  }
  int64_t counter(int i) {
    int64_t out[OUTRIDER_TANDEM_COUNT];
    tandem_->read_counters(tandem_->self, out);
    return out[i];
  }
  bool until_lead(int most = 400) {
    for (int i = 0; i < most; ++i) {
      if (tick(false) != Code::kOk) return false;
      if (origin(OUTRIDER_ORIGIN_LEADER) == 2) return true;
    }
    return false;
  }

 private:
  uint8_t pixels_[72] = {1, 2, 3};
  std::unique_ptr<host::Session> session_;
  const outrider_tandem_v1* tandem_ = nullptr;
};

TEST(TandemProvider, has_the_ports_of_the_standby_and_three_more) {
  Loop loop(tandem_config(fake(), fake()));
  const auto ports = loop.session().ports();
  ASSERT_EQ(ports.size(), 9u);
  EXPECT_STREQ(ports[0].name, "images") << "numbers of the standby stay";
  const struct {
    const char* name;
    uint32_t dtype, direction;
    int64_t n;
  } own[] = {{"engaged", FRT_DTYPE_U8, FRT_PORT_IN, 1},
             {"origin", FRT_DTYPE_I64, FRT_PORT_OUT, 6},
             {"counters", FRT_DTYPE_I64, FRT_PORT_OUT, 32}};
  for (size_t i = 0; i < 3; ++i) {
    const auto& port = ports[6 + i];
    EXPECT_STREQ(port.name, own[i].name);
    EXPECT_EQ(port.modality, static_cast<uint32_t>(FRT_MODALITY_TENSOR));
    EXPECT_EQ(port.dtype, own[i].dtype);
    EXPECT_EQ(port.direction, own[i].direction);
    EXPECT_EQ(port.required, 0u);
    ASSERT_EQ(port.rank, 1u);
    EXPECT_EQ(port.shape[0], own[i].n);
  }
}

TEST(TandemProvider, the_lead_takes_over_when_nobody_is_in_control) {
  Loop loop(tandem_config(fake(), fake(), kQuick));
  for (int i = 0; i < 30; ++i) ASSERT_EQ(loop.tick(true), Code::kOk);
  EXPECT_EQ(loop.origin(OUTRIDER_ORIGIN_LEADER), 1);
  EXPECT_TRUE(loop.until_lead());
  EXPECT_EQ(loop.counter(OUTRIDER_TANDEM_TAKEOVERS), 1);
  EXPECT_STREQ(loop.table().reason_name(loop.origin(OUTRIDER_ORIGIN_REASON)), "take_over");
  std::byte bytes[48];
  int64_t origin[6];
  ASSERT_TRUE(loop.session().get_into(7, bytes));
  std::memcpy(origin, bytes, sizeof origin);
  EXPECT_EQ(origin[OUTRIDER_ORIGIN_TICK], loop.counter(OUTRIDER_TANDEM_TICKS));
}

// Every way a lead can go wrong: the standby answers, no tick is lost, the process lives.
TEST(TandemProvider, FC36_a_lead_that_fails_in_any_way_costs_no_tick) {
  for (const char* how :
       {",\"fail_at\":12", ",\"nan_at\":12", ",\"throw_at\":12", ",\"raw_throw_at\":12",
        ",\"overrun_bytes\":0,\"fail_at\":12,"
        "\"fail_code\":-6"}) {
    Loop loop(tandem_config(fake(), fake(how), kQuick));
    ASSERT_TRUE(loop.until_lead()) << how;
    for (int i = 0; i < 60; ++i) ASSERT_EQ(loop.tick(true), Code::kOk) << how;
    EXPECT_EQ(loop.origin(OUTRIDER_ORIGIN_LEADER), 1) << how;
    EXPECT_EQ(loop.counter(OUTRIDER_TANDEM_REFUSED), 0) << how;
    EXPECT_GE(loop.counter(OUTRIDER_TANDEM_LOSSES), 1) << how;
    EXPECT_NE(std::string(loop.table().lead_error(loop.table().self)), "") << how;
  }
}

TEST(TandemProvider, a_slow_lead_never_gets_the_wheel_and_never_slows_a_tick) {
  Loop loop(tandem_config(fake(), fake(",\"sleep_ms\":300"), kQuick));
  for (int i = 0; i < 60; ++i) ASSERT_EQ(loop.tick(false), Code::kOk);
  EXPECT_EQ(loop.counter(OUTRIDER_TANDEM_BY_LEAD), 0);
  EXPECT_LT(loop.counter(OUTRIDER_TANDEM_WORST_TICK_NS), int64_t{250} * 1000000)
      << "a tick waited for the lead";
}

TEST(TandemProvider, a_lead_that_does_not_open_again_is_tried_again_and_again) {
  Loop loop(tandem_config(fake(), fake(",\"fail_at\":8"),
                          kQuick + ",\"retry_quick_ms\":50,\"retry_quick_count\":100"));
  ASSERT_TRUE(loop.until_lead());
  for (int i = 0; i < 150; ++i) ASSERT_EQ(loop.tick(false), Code::kOk);
  EXPECT_GE(loop.counter(OUTRIDER_TANDEM_CONNECTS), 2);
  EXPECT_GE(loop.counter(OUTRIDER_TANDEM_TAKEOVERS), 2) << "each new one leads until its tick 8";
  EXPECT_EQ(loop.counter(OUTRIDER_TANDEM_REFUSED), 0);
}

TEST(TandemProvider, FC32_its_threads_and_memory_go_with_it) {
  const std::string config = tandem_config(fake(), fake(), kQuick);
  for (int i = 0; i < 20; ++i) {
    Loop loop(config);
    loop.tick(false, 1);
  }
  int n_threads = 0;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("Threads:", 0) == 0) n_threads = std::stoi(line.substr(8));
  EXPECT_LE(n_threads, 3);
}

// ---- a tick takes nothing -----------------------------------------------------------------------

TEST(TandemHot, a_tick_takes_no_heap_no_lock_and_writes_nothing_in_any_state) {
  if (!hot_counter::available()) GTEST_SKIP() << "a sanitizer stands where the counter would";
  Loop loop(tandem_config(fake(), fake(",\"nan_at\":60"), kQuick + ",\"retry_quick_ms\":3600000"));
  bool led = false, retried = false;
  for (int i = 0; i < 400 && !retried; ++i) {
    hot_counter::arm();
    loop.table().due(loop.table().self, MonotonicClock().now_ns());
    const bool good = loop.stage(false) && loop.session().tick();
    const HotCounts counts = hot_counter::disarm();
    ASSERT_TRUE(good);
    // Opening and closing the lead is the control thread's, and no part of a tick.
    const bool cold = loop.counter(OUTRIDER_TANDEM_PHASE) == 0 ||
                      (loop.counter(OUTRIDER_TANDEM_PHASE) == 4 && !retried);
    if (!cold) {
      ASSERT_EQ(counts.total(), 0u) << i << ": " << hot_counter::describe(counts);
    }
    led |= loop.origin(OUTRIDER_ORIGIN_LEADER) == 2;
    retried = led && loop.counter(OUTRIDER_TANDEM_PHASE) == 4;
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  EXPECT_TRUE(led && retried) << "not every state was met";
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (int i = 0; i < 50; ++i) {
    hot_counter::arm();
    const bool good = loop.stage(false) && loop.session().tick();
    const HotCounts counts = hot_counter::disarm();
    ASSERT_TRUE(good);
    ASSERT_EQ(counts.total(), 0u) << "retrying " << i << ": " << hot_counter::describe(counts);
  }
}

// ---- open ---------------------------------------------------------------------------------------

Error open_error(const std::string& config) {
  auto opened = host::Session::open(kTandem, config);
  EXPECT_FALSE(opened) << config;
  return opened ? Error{} : opened.error();
}

TEST(TandemOpen, ports_that_differ_are_refused_with_every_difference) {
  const Error e =
      open_error(tandem_config(fake(), fake(",\"action_dim\":5,\"image_width\":8,\"trace\":1")));
  EXPECT_EQ(e.code, Code::kShape);
  for (const char* part :
       {"port images: standby IN IMAGE U8 {1,4,6,3}", "lead IN IMAGE U8 {1,4,8,3}",
        "port actions: standby OUT ACTION F32 {4,3}", "{4,5}", "port trace: the standby has none"})
    EXPECT_NE(e.message().find(part), std::string::npos) << part << " in: " << e.text;
}

TEST(TandemOpen, a_side_that_does_not_open_is_named) {
  const Error lead =
      open_error(tandem_config(fake(), fake(",\"open_code\":-5,\"open_reason\":\"no room\"")));
  EXPECT_EQ(lead.code, Code::kNoMemory);
  EXPECT_NE(lead.message().find("lead: "), std::string::npos) << lead.text;
  const Error standby =
      open_error(tandem_config(fake(",\"open_code\":-2,\"open_reason\":\"gone\""), fake()));
  EXPECT_EQ(standby.code, Code::kNotFound);
  EXPECT_NE(standby.message().find("standby: gone"), std::string::npos) << standby.text;
}

TEST(TandemOpen, FC48_every_mistake_in_the_configuration_is_named) {
  const struct {
    const char *more, *part;
  } cases[] = {
      {",\"holdms\":40",
       "unknown key \"holdms\" for model_family tandem; the nearest known key is \"hold_ms\""},
      {",\"hold_ms\":\"40\"", "hold_ms is \"40\", allowed is a number"},
      {",\"hold_ms\":60", "hold_ms is 60, allowed is less than period_ms (50)"},
      {",\"row_holds\":1.5", "row_holds is 1.5, allowed is an integer 1..1000"},
      {",\"preset\":\"boat\"", "allowed are \"driving20\", \"arm\""},
      {",\"preset\":3", "preset is 3, allowed is a string"},
      {",\"agree_distance\":-1", "agree_distance is -1, allowed is a number"},
      {",\"max_input_bytes\":1", "max_input_bytes is 1, allowed is an integer"},
  };
  for (const auto& c : cases) {
    const Error e = open_error(tandem_config(fake(), fake(), c.more));
    EXPECT_EQ(e.code, Code::kInvalid) << c.more;
    EXPECT_NE(e.message().find(c.part), std::string::npos) << c.more << ": " << e.text;
  }
  for (const char* key : {"standby", "lead"}) {
    const std::string other = std::string(key) == "standby" ? "lead" : "standby";
    const Error e = open_error("{\"model_family\":\"tandem\",\"" + other + "\":\"x.json\"}");
    EXPECT_EQ(e.code, Code::kInvalid);
    EXPECT_NE(e.message().find("key \"" + std::string(key) + "\" is missing"), std::string::npos);
  }
  const Error none =
      open_error(R"({"model_family":"tandem","standby":"/nowhere/s.json","lead":"l"})");
  EXPECT_EQ(none.code, Code::kNotFound);
  EXPECT_NE(none.message().find("standby: "), std::string::npos) << none.text;
}

TEST(TandemOpen, a_tandem_inside_a_tandem_is_refused) {
  const Error e = open_error(tandem_config(R"({"model_family":"tandem"})", fake()));
  EXPECT_EQ(e.code, Code::kUnsupported);
}

TEST(TandemOpen, identity_tells_both_sides_and_changed_limits) {
  Loop a(tandem_config(fake(), fake())), b(tandem_config(fake(), fake())),
      c(tandem_config(fake(), fake(), ",\"hold_ms\":40,\"return_ms\":40")),
      d(tandem_config(fake(), fake(",\"n_views\":1")));
  EXPECT_EQ(a.session().fingerprint(), b.session().fingerprint());
  EXPECT_NE(a.session().fingerprint(), c.session().fingerprint());
  EXPECT_NE(a.session().fingerprint(), d.session().fingerprint());
  EXPECT_NE(c.session().identity().find("hold_ms=40000000"), std::string::npos);
}

TEST(TandemConform, no_check_of_the_contract_suite_fails) {
  const host::ConformReport report = host::conform(kTandem, tandem_config(fake(), fake()));
  EXPECT_EQ(report.failed, 0) << host::to_text(report);
  EXPECT_GE(report.passed, 40);
}

}  // namespace
}  // namespace outrider::tandem::test
