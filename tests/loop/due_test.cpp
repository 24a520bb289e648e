// The loop tells a tandem when its tick was due, so that a late wake-up costs the lead and not the
// robot.
#include "loop/due.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support.h"
#include "temp_dir.h"

namespace outrider::loop {
namespace {

constexpr int64_t kMs = 1'000'000;
const std::string kLib = OUTRIDER_BUILD_DIR "/lib/";

// Two fakes; the period is long, so that no machine is too slow for it.
SessionPtr open_tandem(const test::TempDir& folder) {
  std::string config =
      "{\"model_family\":\"tandem\",\"period_ms\":500,\"hold_ms\":460,\"deadline_ms\":2000";
  for (const char* side : {"standby", "lead"}) {
    const std::string path = folder.file(std::string(side) + ".json");
    std::ofstream(path) << "{\"model_family\":\"fake\"}";
    config += std::string(",\"") + side + "\":\"" + path + "\",\"" + side + "_provider\":\"" +
              kLib + "provider_fake.so\"";
  }
  outrider_session* session = nullptr;
  char reason[512] = {};
  EXPECT_EQ(outrider_open((kLib + "provider_tandem.so").c_str(), (config + "}").c_str(), &session,
                          reason, sizeof reason),
            0)
      << reason;
  return SessionPtr(session);
}

TEST(LoopDue, R9_a_tick_that_began_late_is_counted_from_when_it_was_due) {
  const test::TempDir folder;
  const SessionPtr session = open_tandem(folder);
  ASSERT_NE(session, nullptr);
  const auto* tandem = static_cast<const outrider_tandem_v1*>(
      outrider_extension(session.get(), OUTRIDER_EXT_TANDEM, 1));
  ASSERT_NE(tandem, nullptr);
  const Payload inputs = input_payload(session.get(), three_states()).value();
  const Payload outputs = output_payload(session.get(), {}).value();
  auto segment = Segment::make("", inputs, outputs, {});
  ASSERT_TRUE(segment) << segment.error().text;
  Options options = at(2, 1);
  options.text = "go";
  auto made = Runner::make(session.get(), inputs, outputs, segment.value(), std::move(options));
  ASSERT_TRUE(made) << made.error().text;
  Runner& runner = *made.value();
  const std::vector<std::byte> zeros(inputs.bytes);
  outrider_loop_send(&segment.value().observations(), zeros.data(), 0, 0);
  std::atomic<bool> stop{false};
  runner.start();
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // it wakes up late
  runner.run(stop);
  runner.finish();
  ASSERT_EQ(runner.samples().size(), 1u) << "later than its deadline: the machine stood still";
  const Sample tick = runner.samples()[0];
  ASSERT_EQ(tick.reason, OUTRIDER_LOOP_OK);
  ASSERT_GT(tick.wake_ns, 100 * kMs);
  int64_t origin[OUTRIDER_ORIGIN_COUNT] = {};
  tandem->read_origin(tandem->self, origin);
  EXPECT_GE(origin[OUTRIDER_ORIGIN_AGE_NS], tick.wake_ns);
  EXPECT_LE(origin[OUTRIDER_ORIGIN_AGE_NS], tick.latency_ns);
}

TEST(LoopDue, who_is_no_tandem_is_told_nothing) {
  const SessionPtr session = open_fake();
  DueTime(session.get()).tell(1);
  DueTime().tell(1);
  EXPECT_EQ(outrider_extension(session.get(), OUTRIDER_EXT_TANDEM, 1), nullptr);
}

}  // namespace
}  // namespace outrider::loop
