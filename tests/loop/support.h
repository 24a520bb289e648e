// A fake runtime behind the host, and a loop around it.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "loop/runner.h"

namespace outrider::loop {

struct Close {
  void operator()(outrider_session* session) const { outrider_close(session); }
};
using SessionPtr = std::unique_ptr<outrider_session, Close>;

inline SessionPtr open_fake(const std::string& more = "") {
  outrider_session* session = nullptr;
  char reason[512] = {};
  const std::string config =
      "{\"model_family\":\"fake\",\"trace\":1" + (more.empty() ? "" : "," + more) + "}";
  const int code = outrider_open(OUTRIDER_BUILD_DIR "/lib/provider_fake.so", config.c_str(),
                                 &session, reason, sizeof reason);
  EXPECT_EQ(code, 0) << reason;
  return SessionPtr(session);
}

inline PayloadWish three_states() {
  PayloadWish wish;
  wish.sizes["state"] = 3;
  return wish;
}

// Everything around one loop; a frame in the ring makes it run.
struct Bench {
  SessionPtr session;
  Payload inputs, outputs;
  std::unique_ptr<Segment> segment;
  std::unique_ptr<Runner> runner;
  std::atomic<bool> stop{false};

  Bench(const std::string& fake, Options options, const std::string& name = "") {
    session = open_fake(fake);
    inputs = input_payload(session.get(), three_states()).value();
    outputs = output_payload(session.get(), {}).value();
    auto made = Segment::make(name, inputs, outputs, {});
    EXPECT_TRUE(made) << made.error().text;
    segment = std::make_unique<Segment>(std::move(made.value()));
    options.text = "go";
    auto r = Runner::make(session.get(), inputs, outputs, *segment, std::move(options));
    EXPECT_TRUE(r) << r.error().text;
    runner = std::move(r.value());
  }
  // Pictures of zeros and this state.
  std::vector<std::byte> observation(float state) const {
    std::vector<std::byte> payload(inputs.bytes);
    for (const Slot& slot : inputs.slots)
      for (uint64_t i = 0; slot.is_f32() && i < slot.bytes; i += sizeof state)
        std::memcpy(payload.data() + slot.offset + i, &state, sizeof state);
    return payload;
  }
  void observe(float state, int64_t time_ns = 0, uint32_t flags = 0) const {
    outrider_loop_send(&segment->observations(), observation(state).data(), time_ns, flags);
  }
  const Totals& run() {
    runner->start();
    runner->run(stop);
    runner->finish();
    return runner->totals();
  }
  struct Action {
    bool there = false;
    outrider_loop_frame frame = {};
    std::vector<float> values;
  };
  Action action(uint64_t tick) const {
    Action a;
    std::vector<std::byte> payload(outputs.bytes);
    a.there = outrider_loop_read(&segment->actions(), tick, &a.frame, payload.data()) != 0;
    a.values.resize(outputs.slots[0].bytes / sizeof(float));
    std::memcpy(a.values.data(), payload.data(), outputs.slots[0].bytes);
    return a;
  }
};

inline Options at(double hz, int64_t n_ticks) {
  Options o;
  o.hz = hz;
  o.n_ticks = n_ticks;
  return o;
}

}  // namespace outrider::loop
