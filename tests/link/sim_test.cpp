// Device and host against everything a network does, in simulated time.
//
// A scenario is a loop of ticks with its own weather and faults, all drawn from a seed. Whatever
// happens: no verb outlives its deadline; an output that is handed out is the one of this tick's
// inputs, bit for bit; no run is made twice; when the faults are over the link works again; what
// was made is gone at the end. OUTRIDER_SIM_SCENARIOS sets how many are run.
#include "link/sim.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "link/held.h"

namespace outrider::link::sim {
namespace {

struct Frame {
  std::vector<std::byte> picture;
  std::string prompt;
  std::vector<float> state;
};

Frame frame_of(uint64_t tick) {
  Frame f;
  f.picture.resize(SimRuntime::kPictureBytes);
  for (size_t i = 0; i < f.picture.size(); ++i) f.picture[i] = std::byte(tick * 31 + i * 7);
  f.prompt = "move " + std::to_string(tick % 10);
  f.state = {static_cast<float>(tick), 2, 3};
  return f;
}

enum class Tick { kGood, kFailed, kWrong, kSlow };

class Loop {
 public:
  explicit Loop(World& world, DeviceConfig config = {}) : world_(world), config_(config) {
    config_.deadline_ns = 40 * kMs;
  }

  bool open() {
    auto device = world_.open_device(config_);
    if (!device) {
      why = device.error().text;
      return false;
    }
    device_ = std::move(device.value());
    return true;
  }
  void close() { device_.reset(); }
  Device* device() { return device_.get(); }

  // Stages all, runs, reads; then upkeep until the next one is due.
  Tick tick() {
    const Frame f = frame_of(++n_ticks_);
    const int64_t begin = world_.now_ns;
    Tick result = device_ ? once(f) : Tick::kFailed;
    while (world_.now_ns < begin + 50 * kMs) {
      world_.run_until(std::min(begin + 50 * kMs, world_.now_ns + 10 * kMs));
      if (!device_)
        open();
      else
        device_->upkeep();
    }
    return result;
  }
  uint64_t n_ticks() const { return n_ticks_; }
  std::string why;

 private:
  template <class F>
  Code timed(F&& verb) {
    const int64_t begin = world_.now_ns;
    const Code code = verb();
    // The host's own run moves the clock in one go.
    if (world_.now_ns - begin > config_.deadline_ns + world_.run_ns + kMs) slow_ = true;
    return code;
  }

  Tick once(const Frame& f) {
    slow_ = false;
    frt_image_view view{
        sizeof view, FRT_PIXEL_RGB8, f.picture.data(), f.picture.size(), 4, 4, 0, 0, 0};
    const bool ran =
        timed([&] { return device_->set_input(0, &view, sizeof view); }) == Code::kOk &&
        timed([&] { return device_->set_input(1, f.prompt.data(), f.prompt.size()); }) ==
            Code::kOk &&
        timed([&] { return device_->set_input(2, f.state.data(), f.state.size() * 4); }) ==
            Code::kOk &&
        timed([&] { return device_->run(SimRuntime::kRef); }) == Code::kOk;
    float out[4] = {};
    uint64_t written = 0;
    const bool read = ran && timed([&] {
                               return device_->get_output(3, out, sizeof out, &written);
                             }) == Code::kOk;
    if (slow_) return Tick::kSlow;
    if (!read) {
      why = device_->last_error();
      return Tick::kFailed;
    }
    const auto want = SimRuntime::compute(f.picture, f.prompt, f.state);
    return written == 16 && std::memcmp(out, want.data(), 16) == 0 ? Tick::kGood : Tick::kWrong;
  }

  World& world_;
  DeviceConfig config_;
  std::unique_ptr<Device> device_;
  uint64_t n_ticks_ = 0;
  bool slow_ = false;
};

// No run twice: every tick has its own first state value.
void expect_no_run_twice(const World& world, uint64_t seed) {
  std::set<float> seen;
  for (const float run : world.runs)
    ASSERT_TRUE(seen.insert(run).second) << "seed " << seed << ": tick " << run << " ran twice";
}

// ---- scenarios
// -----------------------------------------------------------------------------------

void draw_weather(World& world, Weather& w) {
  w.delay_ns = 20 * kUs + static_cast<int64_t>(world.draw.below(3 * kMs));
  w.jitter_ns = static_cast<int64_t>(world.draw.below(3) * world.draw.below(2 * kMs));
  w.most_chunk = 1 + world.draw.below(1 << world.draw.below(14));
  if (world.draw.below(4) == 0) w.bytes_per_s = 200'000 + world.draw.below(10'000'000);
  if (world.draw.below(4) == 0) w.window = 300 + world.draw.below(5000);
}

void make_fault(World& world, Loop& loop, uint64_t kind) {
  Weather& w = world.weather[world.draw.below(2)];
  switch (kind) {
    case 0:
      world.break_all();
      break;
    case 1:
      w.silent = true;
      break;
    case 2:
      world.weather[0].silent = world.weather[1].silent = true;
      break;
    case 3:
      w.cut_at = w.n_bytes + world.draw.below(800);
      break;
    case 4:
      for (uint64_t i = 0; i < 1 + world.draw.below(5); ++i)
        w.corrupt_at.insert(w.n_bytes + world.draw.below(1500));
      break;
    case 5:
      world.stop_host();
      break;
    case 6:
      loop.close();
      break;
    case 7:
      world.run_ns = 45 * kMs + static_cast<int64_t>(world.draw.below(60 * kMs));
      break;
    case 8:
      world.host_clock.step_ns += static_cast<int64_t>(world.draw.below(100)) * kSecond;
      break;
    case 9:
      world.network_up = false, world.break_all();
      break;
  }
}

void end_faults(World& world) {
  for (Weather& w : world.weather) {
    if (w.silent) world.break_all();  // what was swallowed never comes
    w.silent = false;
    w.cut_at = UINT64_MAX;
    w.corrupt_at.clear();
  }
  world.network_up = true;
  world.run_ns = 2 * kMs;
  if (!world.host_up) world.start_host();
}

void run_scenario(uint64_t seed) {
  World world(seed);
  for (Weather& w : world.weather) draw_weather(world, w);
  world.weather[1].window = 1 << 20;  // the simulated host cannot wait for room
  DeviceConfig config;
  if (world.draw.below(4) == 0)
    config.name.newest_version = wire::kVersion + 1;  // a device of the future
  if (world.draw.below(4) == 0) config.name.features = 0;
  {
    Loop loop(world, config);
    ASSERT_TRUE(loop.open()) << "seed " << seed << ": " << loop.why;
    const uint64_t n_faults = 1 + world.draw.below(4);
    for (uint64_t fault = 0; fault < n_faults; ++fault) {
      for (uint64_t i = world.draw.below(4); i-- > 0;)
        ASSERT_LT(static_cast<int>(loop.tick()), static_cast<int>(Tick::kWrong)) << "seed " << seed;
      const uint64_t kind = world.draw.below(10);
      make_fault(world, loop, kind);
      for (uint64_t i = 1 + world.draw.below(6); i-- > 0;) {
        const Tick tick = loop.tick();
        ASSERT_NE(tick, Tick::kWrong) << "seed " << seed << " fault " << kind;
        ASSERT_NE(tick, Tick::kSlow) << "seed " << seed << " fault " << kind;
      }
      end_faults(world);
    }
    // Heartbeat, backoff and a redial fit into four seconds; then every tick is good again.
    int good = 0;
    for (int i = 0; i < 100 && good < 3; ++i) {
      const Tick tick = loop.tick();
      ASSERT_LT(static_cast<int>(tick), static_cast<int>(Tick::kWrong)) << "seed " << seed;
      good = tick == Tick::kGood ? good + 1 : 0;
    }
    ASSERT_EQ(good, 3) << "seed " << seed << ": the link does not come back: " << loop.why;
    expect_no_run_twice(world, seed);
  }
  world.run_until(world.now_ns + kSecond);
  world.stop_host();
  ASSERT_EQ(world.n_runtimes, 0) << "seed " << seed;
  ASSERT_EQ(world.n_transports, 0) << "seed " << seed;
  ASSERT_EQ(world.counters.peers.load(), 0) << "seed " << seed;
}

TEST(LinkSim, survives_seeded_scenarios) {
  const char* wanted = std::getenv("OUTRIDER_SIM_SCENARIOS");
  const uint64_t n = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 400;
  for (uint64_t seed = 0; seed < n; ++seed) {
    run_scenario(seed);
    if (HasFatalFailure()) return;
  }
}

// ---- every byte
// ----------------------------------------------------------------------------------

// Bytes of each direction in a session of three ticks without a fault.
std::array<uint64_t, 2> bytes_of_a_session() {
  World world(1);
  Loop loop(world);
  EXPECT_TRUE(loop.open());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(loop.tick(), Tick::kGood);
  return {world.weather[0].n_bytes, world.weather[1].n_bytes};
}

void three_ticks_and_recovery(World& world, const char* what, uint64_t at) {
  Loop loop(world);
  loop.open();  // may fail: the fault may lie in the hello
  for (int i = 0; i < 4; ++i) {
    const Tick tick = loop.tick();
    ASSERT_NE(tick, Tick::kWrong) << what << " at byte " << at;
    ASSERT_NE(tick, Tick::kSlow) << what << " at byte " << at;
  }
  Tick last = Tick::kFailed;
  for (int i = 0; i < 60 && last != Tick::kGood; ++i) last = loop.tick();
  ASSERT_EQ(last, Tick::kGood) << what << " at byte " << at << ": " << loop.why;
  expect_no_run_twice(world, at);
}

TEST(LinkSim, FC36_a_cut_at_every_byte_of_every_message_is_survived) {
  const auto n = bytes_of_a_session();
  for (int direction : {0, 1})
    for (uint64_t at = 0; at < n[static_cast<size_t>(direction)]; ++at) {
      World world(1);
      world.weather[direction].cut_at = at;
      three_ticks_and_recovery(world, direction == 0 ? "cut to the host" : "cut to the device", at);
      if (HasFatalFailure()) return;
    }
}

TEST(LinkSim, a_flipped_bit_at_every_byte_is_found_and_never_delivered) {
  const auto n = bytes_of_a_session();
  for (int direction : {0, 1})
    for (uint64_t at = 0; at < n[static_cast<size_t>(direction)]; at += direction == 0 ? 1 : 3) {
      World world(1);
      world.weather[direction].corrupt_at = {at};
      three_ticks_and_recovery(world, direction == 0 ? "flip to the host" : "flip to the device",
                               at);
      if (HasFatalFailure()) return;
    }
}

TEST(LinkSim, bytes_may_come_one_by_one) {
  World world(1);
  for (Weather& w : world.weather) w.most_chunk = 1;
  Loop loop(world);
  ASSERT_TRUE(loop.open()) << loop.why;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(loop.tick(), Tick::kGood) << loop.why;
}

// ---- single situations
// ---------------------------------------------------------------------------

// FC-40: late replies, replies of another epoch, newest only.
TEST(LinkSim, FC40_a_late_answer_is_dropped_and_counted) {
  World world(1);
  Loop loop(world);
  ASSERT_TRUE(loop.open());
  ASSERT_EQ(loop.tick(), Tick::kGood);
  world.run_ns = 60 * kMs;
  EXPECT_EQ(loop.tick(), Tick::kFailed);
  EXPECT_NE(loop.why.find("deadline"), std::string::npos) << loop.why;
  world.run_ns = 2 * kMs;
  EXPECT_EQ(loop.tick(), Tick::kGood) << loop.why;
  EXPECT_GE(loop.device()->counters().stale_answers.load(), 1);
  EXPECT_GE(loop.device()->counters().late_answers.load(), 1);
  EXPECT_EQ(loop.device()->counters().reconnects.load(), 0) << "the connection was kept";
}

// What upkeep finds on its thread is told by the next verb; the reason of a former one stays whole.
TEST(LinkSim, a_loss_that_upkeep_finds_leaves_the_last_reason_of_a_verb_alone) {
  World world(3);
  Loop loop(world);
  ASSERT_TRUE(loop.open());
  ASSERT_EQ(loop.tick(), Tick::kGood);
  Device& d = *loop.device();
  ASSERT_EQ(d.receive_step(), Code::kNotReady);
  const std::string reason = d.last_error();
  world.stop_host();
  const auto n_lost = [&] {
    int64_t n = 0;
    for (const auto& of_cause : d.counters().lost) n += of_cause;
    return n;
  };
  for (int i = 0; i < 400 && n_lost() == 0; ++i) {
    world.run_until(world.now_ns + 10 * kMs);
    d.upkeep();
  }
  ASSERT_EQ(n_lost(), 1);
  EXPECT_EQ(std::string(d.last_error()), reason);
  EXPECT_EQ(d.run(SimRuntime::kRef), Code::kDevice);
  EXPECT_NE(std::string(d.last_error()).find("looking for the host again"), std::string::npos)
      << d.last_error();
}

TEST(LinkSim, FC40_the_first_input_is_always_processed_and_none_is_asked_for_twice) {
  World world(1);
  Loop loop(world);
  ASSERT_TRUE(loop.open());
  EXPECT_EQ(loop.tick(), Tick::kGood);
  ASSERT_EQ(world.runs.size(), 1u);
  EXPECT_EQ(world.runs[0], 1.0f);
}

// Of inputs that wait at the host only the newest of each port is handed to the runtime.
TEST(LinkSim, FC40_a_newer_input_replaces_the_older_one_that_waits_at_the_host) {
  World world(1);
  Loop loop(world);
  ASSERT_TRUE(loop.open());
  ASSERT_EQ(loop.tick(), Tick::kGood);
  Device& d = *loop.device();
  const Frame f = frame_of(2);
  frt_image_view view{
      sizeof view, FRT_PIXEL_RGB8, f.picture.data(), f.picture.size(), 4, 4, 0, 0, 0};
  world.staged.clear();
  for (int i = 0; i < 5; ++i) {  // none of them is waited for: they arrive together
    std::vector<float> state = {100.0f + static_cast<float>(i), 2, 3};
    ASSERT_EQ(d.set_input(2, state.data(), state.size() * 4), Code::kOk);
    ASSERT_EQ(d.set_input(0, &view, sizeof view), Code::kOk);
  }
  ASSERT_EQ(d.run(SimRuntime::kRef), Code::kOk) << d.last_error();
  EXPECT_EQ(world.staged, std::vector<float>{104});
  EXPECT_EQ(world.runs.back(), 104.0f);
  EXPECT_EQ(d.counters().replaced_inputs.load(), 8);
  EXPECT_EQ(world.counters.replaced_inputs.load(), 8);
  float out[4] = {};
  uint64_t written = 0;
  ASSERT_EQ(d.get_output(3, out, sizeof out, &written), Code::kOk);
  const auto want = SimRuntime::compute(f.picture, "move 1", {104, 2, 3});
  EXPECT_EQ(std::memcmp(out, want.data(), 16), 0);
  // Inputs of a run that was asked for are its own: what comes after it does not take their place.
  ASSERT_EQ(loop.tick(), Tick::kGood) << loop.why;
  EXPECT_EQ(d.counters().replaced_inputs.load(), 8);
}

// A device that looks and measures while it drives: its answers are on their way in one piece at
// most when a frame comes.
TEST(LinkSim, telemetry_never_delays_a_frame_by_more_than_one_piece) {
  for (const uint16_t newest : {uint16_t{1}, wire::kVersion}) {
    World world(1);
    world.weather[0].jitter_ns = world.weather[1].jitter_ns = 0;
    world.weather[1].bytes_per_s = 2'000'000;  // 64 KiB: 33 ms; what is measured: 1 s
    world.weather[1].window = 4 << 20;
    DeviceName name;
    name.client_id = 5;
    name.newest_version = newest;
    LinkError why;
    Dialer& dialer = world;
    auto c = outrider::link::Connection::make(dialer, world.device_clock, name,
                                              world.now_ns + kSecond, why);
    ASSERT_TRUE(c) << why.error.text;
    const auto due = [&] { return world.now_ns + 3 * kSecond; };
    wire::Channel& channel = c->channel();
    wire::Incoming in;
    wire::Open open;
    open.model.assign("default");
    uint64_t id = c->next_request();
    channel.send(open, {id, 0, 0, 0}, {}, due());
    ASSERT_EQ(c->wait(id, in, nullptr, nullptr, due()), wire::Got::kMessage);
    constexpr uint32_t kProbed = 2'000'000;
    wire::Probe probe;
    probe.return_bytes = kProbed;
    const uint64_t probe_id = c->next_request(), status_id = c->next_request();
    channel.send(probe, {probe_id, 0, 0, 0}, {}, due());
    channel.send(wire::Status(), {status_id, 0, 0, 0}, {}, due());
    uint32_t probed = 0;
    int n_status = 0, n_faults = 0;
    struct Count final : outrider::link::Connection::Others {
      std::function<void(const wire::Incoming&)> f;
      void other(const wire::Incoming& m) override { f(m); }
    } others;
    others.f = [&](const wire::Incoming& m) {
      if (m.header.request_id == probe_id && m.header.type == wire::type_of<wire::ProbeReply>())
        probed += m.header.payload_bytes;
      if (m.header.request_id == status_id) ++n_status;
      if (m.header.type == wire::type_of<wire::Fault>()) ++n_faults;
    };
    for (int i = 0; i < 6; ++i) {
      world.run_until(world.now_ns + 30 * kMs);
      wire::Run run;
      run.kind = 1;
      const int64_t begin = world.now_ns;
      id = c->next_request();
      channel.send(run, {id, 1, 0, 0}, {}, due());
      ASSERT_EQ(c->wait(id, in, nullptr, &others, due()), wire::Got::kMessage);
      EXPECT_LE(world.now_ns - begin, 33 * kMs + 3 * kMs) << "frame " << i;
    }
    const int64_t until = world.now_ns + 10 * kSecond;  // the rest comes where no frame does
    while (world.now_ns < until && (n_status == 0 || (newest > 1 && probed < kProbed)))
      if (channel.receive(in, nullptr, world.now_ns + kSecond) == wire::Got::kMessage) others.f(in);
    EXPECT_EQ(n_status, 1);
    EXPECT_EQ(probed, newest > 1 ? kProbed : 0u);
    EXPECT_EQ(n_faults, newest > 1 ? 0 : 1) << "an old device is refused in words";
  }
}

TEST(LinkSim, a_silent_host_is_noticed_and_named) {
  World world(1);
  Loop loop(world);
  ASSERT_TRUE(loop.open());
  ASSERT_EQ(loop.tick(), Tick::kGood);
  world.weather[1].silent = true;  // half open: what we send still arrives
  for (int i = 0; i < 50; ++i) EXPECT_EQ(loop.tick(), Tick::kFailed);
  EXPECT_FALSE(loop.device()->connected());
  EXPECT_GE(loop.device()->counters().lost[static_cast<size_t>(wire::Cause::kDeadline)].load(), 1);
  world.weather[1].silent = false;
  Tick last = Tick::kFailed;
  for (int i = 0; i < 80 && last != Tick::kGood; ++i) last = loop.tick();
  EXPECT_EQ(last, Tick::kGood) << loop.why;
}

TEST(LinkSim, losses_are_told_apart) {
  World world(1);
  Loop loop(world);
  ASSERT_TRUE(loop.open());
  ASSERT_EQ(loop.tick(), Tick::kGood);
  const auto lost = [&](wire::Cause cause) {
    return loop.device()->counters().lost[static_cast<size_t>(cause)].load();
  };
  world.stop_host();
  EXPECT_EQ(loop.tick(), Tick::kFailed);
  EXPECT_NE(loop.why.find("host gone"), std::string::npos) << loop.why;
  EXPECT_EQ(lost(wire::Cause::kHost), 1);
  EXPECT_EQ(loop.tick(), Tick::kFailed);
  world.start_host();
  Tick last = Tick::kFailed;
  for (int i = 0; i < 60 && last != Tick::kGood; ++i) last = loop.tick();
  EXPECT_EQ(last, Tick::kGood) << loop.why;
  EXPECT_EQ(loop.device()->counters().reconnects.load(), 1);
}

TEST(LinkSim, one_owner_at_a_time_and_the_silent_one_loses) {
  World world(1);
  Loop first(world), second(world);
  ASSERT_TRUE(first.open());
  ASSERT_EQ(first.tick(), Tick::kGood);
  EXPECT_FALSE(second.open());
  EXPECT_NE(second.why.find("host busy"), std::string::npos) << second.why;
  // The first device falls silent without a word.
  world.run_until(world.now_ns + 2 * kSecond);
  ASSERT_TRUE(second.open()) << second.why;
  EXPECT_EQ(second.tick(), Tick::kGood);
  EXPECT_EQ(first.tick(), Tick::kFailed) << "an older epoch drives nothing";
  EXPECT_EQ(second.tick(), Tick::kGood);
}

TEST(LinkSim, a_new_owner_finds_nothing_of_the_former_one) {
  World world(1);
  {
    Loop first(world);
    ASSERT_TRUE(first.open());
    ASSERT_EQ(first.tick(), Tick::kGood);
  }
  world.run_until(world.now_ns + 100 * kMs);
  auto second = world.open_device();
  ASSERT_TRUE(second) << second.error().text;
  float out[4];
  uint64_t written = 9;
  EXPECT_EQ(second.value()->get_output(3, out, sizeof out, &written), Code::kNotReady);
  EXPECT_EQ(second.value()->run(SimRuntime::kRef), Code::kInvalid);
  EXPECT_STREQ(second.value()->last_error(), "picture is not staged");
}

TEST(LinkSim, versions_are_negotiated_or_refused_in_words) {
  World world(1);
  DeviceConfig config;
  config.name.newest_version = 7;
  auto newer = world.open_device(config);
  EXPECT_TRUE(newer) << newer.error().text;
  config.name.client_id = 0;
  config.name.oldest_version = config.name.newest_version = 7;
  auto only_new = world.open_device(config);
  ASSERT_FALSE(only_new);
  EXPECT_EQ(only_new.code(), Code::kDevice);
  EXPECT_NE(only_new.error().message().find("the device speaks 7 to 7, this host 1 to 3"),
            std::string_view::npos)
      << only_new.error().text;
}

TEST(LinkSim, an_unknown_model_is_refused_with_the_names_there_are) {
  World world(1);
  DeviceConfig config;
  config.model = "nothing";
  auto device = world.open_device(config);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.code(), Code::kNotFound);
  EXPECT_NE(device.error().message().find("there are: default"), std::string_view::npos);
}

TEST(LinkSim, a_refusal_comes_from_set_input_with_the_runtimes_own_code) {
  World world(1);
  auto device = world.open_device();
  ASSERT_TRUE(device);
  Device& d = *device.value();
  EXPECT_EQ(d.set_input(1, "", 0), Code::kInvalid);
  EXPECT_STREQ(d.last_error(), "prompt: 1 to 64 bytes");
  EXPECT_EQ(d.set_input(1, "go", 2), Code::kOk);
  EXPECT_EQ(d.set_input(1, "no", 2), Code::kOk);  // of a kind that was taken: not waited for
  EXPECT_EQ(d.set_input(2, "abc", 3), Code::kShape);
  EXPECT_EQ(d.set_input(99, "abc", 3), Code::kInvalid);
  EXPECT_EQ(d.set_input(1, nullptr, 12), Code::kInvalid);
  frt_image_view view{sizeof view, 0, nullptr, 48, 4, 4, 0, 0, 0};
  EXPECT_EQ(d.set_input(0, &view, sizeof view), Code::kInvalid);
  EXPECT_EQ(d.counters().inputs_sent.load(), 1);
}

// ---- lent inputs
// --------------------------------------------------------------------------------

// A device whose picture does not go out at once: the system takes the head of the message and a
// few bytes.
struct Lender {
  World world{1};
  Loop loop{world};
  Frame frame = frame_of(2);
  uint64_t loan = 0;
  static constexpr size_t kRoom = 170;

  Device& device() { return *loop.device(); }
  void begin() {
    ASSERT_TRUE(loop.open());
    ASSERT_EQ(loop.tick(), Tick::kGood) << loop.why;
    ASSERT_EQ(device().set_input(1, frame.prompt.data(), frame.prompt.size()), Code::kOk);
    ASSERT_EQ(device().set_input(2, frame.state.data(), frame.state.size() * 4), Code::kOk);
    world.run_until(world.now_ns + kMs);
    world.weather[0].window = kRoom;
    frt_image_view view{
        sizeof view, FRT_PIXEL_RGB8, frame.picture.data(), frame.picture.size(), 4, 4, 0, 0, 0};
    const int64_t before = world.now_ns;
    ASSERT_EQ(device().lend_input(0, &view, sizeof view, &loan), Code::kOk);
    ASSERT_NE(loan, 0u);
    EXPECT_EQ(world.now_ns, before) << "it waits for nothing";
    EXPECT_FALSE(device().is_free(loan));
    EXPECT_TRUE(device().is_free(0) && device().is_free(loan + 1));
  }
  void expect_answer() {
    ASSERT_EQ(device().run(SimRuntime::kRef), Code::kOk) << device().last_error();
    float out[4] = {};
    uint64_t written = 0;
    ASSERT_EQ(device().get_output(3, out, sizeof out, &written), Code::kOk);
    const auto want = SimRuntime::compute(frame.picture, frame.prompt, frame.state);
    EXPECT_EQ(std::memcmp(out, want.data(), 16), 0);
  }
};

TEST(LinkSim, a_lent_input_is_sent_from_where_it_lies_and_given_back) {
  Lender lender;
  lender.begin();
  EXPECT_EQ(lender.device().wait_free(lender.loan, 10 * kMs), Code::kOk);
  EXPECT_TRUE(lender.device().is_free(lender.loan));
  const auto sent = lender.frame.picture;
  std::ranges::fill(lender.frame.picture, std::byte{0xEE});  // ours again
  ASSERT_EQ(lender.device().run(SimRuntime::kRef), Code::kOk) << lender.device().last_error();
  float out[4] = {};
  uint64_t written = 0;
  ASSERT_EQ(lender.device().get_output(3, out, sizeof out, &written), Code::kOk);
  const auto want = SimRuntime::compute(sent, lender.frame.prompt, lender.frame.state);
  EXPECT_EQ(std::memcmp(out, want.data(), 16), 0);
  EXPECT_EQ(lender.device().snapshot().channel.copied_bytes, 0u);
  EXPECT_EQ(lender.device().counters().inputs_lent.load(), 1);
}

TEST(LinkSim, a_verb_sends_a_lent_input_on_before_its_own_message) {
  Lender lender;
  lender.begin();
  lender.expect_answer();
  EXPECT_TRUE(lender.device().is_free(lender.loan));
}

TEST(LinkSim, a_lent_buffer_that_is_reused_too_early_is_found_and_never_computed_on) {
  Lender lender;
  lender.begin();
  lender.frame.picture.back() ^= std::byte{1};
  EXPECT_EQ(lender.device().run(SimRuntime::kRef), Code::kDevice);
  EXPECT_NE(std::strstr(lender.device().last_error(), "corrupted"), nullptr)
      << lender.device().last_error();
  EXPECT_EQ(lender.world.runs.size(), 1u) << "it was not run";
  lender.world.weather[0].window = 1 << 20;
  EXPECT_EQ(lender.loop.tick(), Tick::kGood) << lender.loop.why;
  EXPECT_EQ(lender.device().counters().connects.load(), 1) << "the connection was kept";
}

TEST(LinkSim, a_lent_buffer_is_free_when_the_link_is_lost_and_is_not_read_again) {
  for (const bool reset : {false, true}) {
    Lender lender;
    lender.begin();
    reset ? lender.world.break_all() : lender.world.stop_host();
    EXPECT_TRUE(lender.device().is_free(lender.loan));
    EXPECT_FALSE(lender.device().connected());
    lender.frame.picture = {};  // the sanitizers watch
    if (!reset) lender.world.start_host();
    lender.world.weather[0].window = 1 << 20;
    Tick last = Tick::kFailed;
    for (int i = 0; i < 60 && last != Tick::kGood; ++i) last = lender.loop.tick();
    EXPECT_EQ(last, Tick::kGood) << lender.loop.why;
    EXPECT_TRUE(lender.device().is_free(lender.loan));
  }
}

TEST(LinkSim, a_loan_that_does_not_end_costs_the_time_that_was_given_to_it) {
  Lender lender;
  lender.begin();
  lender.world.weather[0].window = 0;  // nothing more is taken
  const int64_t before = lender.world.now_ns;
  EXPECT_EQ(lender.device().wait_free(lender.loan, 7 * kMs), Code::kNotReady);
  EXPECT_EQ(lender.world.now_ns - before, 7 * kMs);
  EXPECT_FALSE(lender.device().is_free(lender.loan));
  EXPECT_EQ(lender.device().run(SimRuntime::kRef), Code::kDevice) << "a verb keeps its deadline";
  lender.loop.close();  // the release ends the loan; the picture goes after it
}

TEST(LinkSim, the_clock_offset_is_found_and_follows_a_step) {
  World world(1);
  Loop loop(world);
  ASSERT_TRUE(loop.open());
  for (int i = 0; i < 5; ++i) ASSERT_EQ(loop.tick(), Tick::kGood);
  const auto offset = [&] { return loop.device()->snapshot().offset_ns; };
  EXPECT_NEAR(static_cast<double>(offset()), static_cast<double>(world.host_clock.step_ns), 1e6);
  world.host_clock.step_ns += 5 * kSecond;
  for (int i = 0; i < 6; ++i) ASSERT_EQ(loop.tick(), Tick::kGood) << loop.why;
  EXPECT_NEAR(static_cast<double>(offset()), static_cast<double>(world.host_clock.step_ns), 1e6);
  EXPECT_GE(loop.device()->snapshot().clock_steps, 1);
}

// 24 hours at 20 Hz in simulated time take half a minute; the short form runs every time. Memory is
// looked at ten times: what the first tenth took is all there ever is.
TEST(LinkSim, soak_keeps_every_frame_and_no_memory) {
  World world(1);
  Loop loop(world);
  ASSERT_TRUE(loop.open());
  const char* wanted = std::getenv("OUTRIDER_SIM_SOAK_TICKS");
  const uint64_t n = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 4000;
  int64_t base_kb = 0, most_kb = 0;
  for (uint64_t i = 0; i < n; ++i) {
    ASSERT_EQ(loop.tick(), Tick::kGood) << "tick " << i << ": " << loop.why;
    world.runs.clear();
    world.staged.clear();
    if ((i + 1) % (n / 10) != 0) continue;
    const int64_t now_kb = here::held_by(0).anonymous_kb;
    if (base_kb == 0) base_kb = now_kb;
    most_kb = std::max(most_kb, now_kb);
  }
  constexpr int64_t kMoreKb = here::kSlackKb > 1024 ? here::kSlackKb : 128;
  EXPECT_LE(most_kb, base_kb + kMoreKb);
  std::printf("%llu ticks, memory %lld KB, %+lld KB at most\n", static_cast<unsigned long long>(n),
              static_cast<long long>(base_kb), static_cast<long long>(most_kb - base_kb));
  EXPECT_EQ(loop.device()->counters().connects.load(), 1);
  EXPECT_EQ(loop.device()->counters().late_answers.load(), 0);
  const auto snapshot = loop.device()->snapshot();
  EXPECT_EQ(snapshot.channel.gaps, 0u);
  EXPECT_EQ(snapshot.channel.resyncs, 0u);
  EXPECT_EQ(snapshot.channel.copied_bytes, 0u);
}

}  // namespace
}  // namespace outrider::link::sim
