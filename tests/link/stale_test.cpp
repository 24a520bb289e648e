// FC-40: which answer belongs to which request. The host here is a script that answers as no sound
// one would: twice, of another epoch, too late, to requests that nobody made.
#include <atomic>
#include <cstring>
#include <thread>

#include "link/client/device.h"
#include "link/host_here.h"
#include "link/transport/tcp.h"
#include "support/own_time.h"

namespace outrider::link {
namespace {

using here::clock_here, here::kMs, here::kSecond;

// A runtime of one text in and one float out; what a RUN is answered with is the test's.
class ScriptedHost {
 public:
  struct Asked {
    wire::Channel& channel;
    uint64_t id;
    uint32_t epoch;
    int n;             // of this RUN over all connections, from 1
    int n_connection;  // from 1
    bool* hang_up;
    // RUN_REPLY with the output 1.0f * value.
    void reply(int value, uint64_t to_id = 0, uint32_t of_epoch = 0) const {
      wire::RunReply run;
      run.outputs.add() = {1, sizeof(float)};
      const auto output = static_cast<float>(value);
      const Piece piece = std::as_bytes(std::span(&output, 1));
      channel.send(run, {to_id == 0 ? id : to_id, of_epoch == 0 ? epoch : of_epoch, 0, 0},
                   {&piece, 1}, clock_here().now_ns() + kSecond);
    }
  };
  using Script = std::function<void(const Asked&)>;

  explicit ScriptedHost(Script script) : script_(std::move(script)) {
    auto listener = listen_transport(parse_endpoint("tcp://127.0.0.1:0").value());
    EXPECT_TRUE(listener);
    listener_ = std::move(listener.value());
    thread_ = std::thread([this] { accept(); });
  }
  ~ScriptedHost() {
    stop_ = true;
    listener_->shut();
    thread_.join();
  }
  const std::string& endpoint() const { return listener_->endpoint(); }
  int n_runs() const { return n_runs_; }

 private:
  void accept() {
    while (!stop_) {
      auto transport = listener_->accept(kForever);
      if (transport) serve(std::move(transport.value()));
    }
  }
  void serve(std::unique_ptr<Transport> transport) {
    wire::Channel channel(std::move(transport), clock_here());
    const uint32_t epoch = 100 + static_cast<uint32_t>(++n_connections_);
    wire::Incoming in;
    for (bool hang_up = false; !stop_ && !hang_up;) {
      const wire::Got got = channel.receive(in, nullptr, clock_here().now_ns() + 20 * kMs);
      if (got == wire::Got::kLate) continue;
      if (got != wire::Got::kMessage) return;
      const uint64_t id = in.header.request_id;
      const auto send = [&](const auto& message) {
        channel.send(message, {id, epoch, 0, 0}, {}, clock_here().now_ns() + kSecond);
      };
      if (in.header.type == wire::type_of<wire::Hello>()) {
        wire::HelloReply hello;
        hello.version = wire::kVersion;
        hello.features = wire::kFeaturePush;
        send(hello);
        channel.set_version(hello.version);
      } else if (in.header.type == wire::type_of<wire::Open>()) {
        send(description(epoch));
      } else if (in.header.type == wire::type_of<wire::Input>()) {
        if ((in.header.flags & wire::kWantAnswer) != 0) send(wire::Answer());
      } else if (in.header.type == wire::type_of<wire::Ping>()) {
        send(wire::Pong());
      } else if (in.header.type == wire::type_of<wire::Run>()) {
        script_({channel, id, epoch, ++n_runs_, n_connections_, &hang_up});
      }
    }
  }
  static wire::OpenReply description(uint32_t epoch) {
    wire::OpenReply reply;
    reply.epoch = epoch;
    reply.has_step = 1;
    wire::Port& in = reply.ports.add();
    in.name.assign("prompt");
    in.modality = FRT_MODALITY_TEXT, in.update = FRT_UPDATE_STAGED, in.max_bytes = 1000;
    in.shape.add().size = -1;
    wire::Port& out = reply.ports.add();
    out.name.assign("value");
    out.modality = FRT_MODALITY_ACTION, out.dtype = FRT_DTYPE_F32, out.direction = FRT_PORT_OUT;
    out.update = FRT_UPDATE_STAGED, out.max_bytes = sizeof(float);
    out.shape.add().size = 1;
    return reply;
  }

  Script script_;
  std::unique_ptr<Listener> listener_;
  std::atomic<bool> stop_{false};
  std::atomic<int> n_connections_{0}, n_runs_{0};
  std::thread thread_;
};

class TcpDialer final : public Dialer {
 public:
  explicit TcpDialer(std::string to) : to_(std::move(to)) {}
  Result<std::unique_ptr<Transport>> dial(int64_t deadline_ns) override {
    return connect_transport(parse_endpoint(to_).value(), deadline_ns);
  }

 private:
  std::string to_;
};

struct Stale : ::testing::Test {
  std::unique_ptr<Device> open(const ScriptedHost& host) {
    DeviceConfig config;
    config.deadline_ns = 150 * kMs;
    config.connect_ns = 2 * kSecond;
    config.name.client_id = 4;
    auto device = Device::open(config, std::make_unique<TcpDialer>(host.endpoint()), clock_here());
    EXPECT_TRUE(device) << device.error().text;
    return device ? std::move(device.value()) : nullptr;
  }
  // The output of one tick, -1 when it failed.
  static int tick(Device& device) {
    if (device.set_input(0, "go", 2) != Code::kOk || device.step() != Code::kOk) return -1;
    float value = 0;
    uint64_t written = 0;
    if (device.get_output(1, &value, sizeof value, &written) != Code::kOk) return -1;
    return static_cast<int>(value);
  }
};

TEST_F(Stale, FC40_an_answer_that_comes_twice_is_taken_once) {
  ScriptedHost host([](const auto& run) {
    for (int i = 0; i < 3; ++i) run.reply(run.n);
  });
  auto device = open(host);
  for (int i = 1; i <= 10; ++i) EXPECT_EQ(tick(*device), i) << device->last_error();
  // The last two may still be on their way.
  EXPECT_GE(device->counters().stale_answers.load(), 18);
  EXPECT_EQ(host.n_runs(), 10);
}

TEST_F(Stale, FC40_an_answer_of_another_epoch_is_dropped_whatever_its_number) {
  ScriptedHost host([](const auto& run) {
    run.reply(777, run.id, run.epoch - 1);
    run.reply(778, run.id, run.epoch + 1);
    if (run.n != 3) run.reply(run.n);
  });
  auto device = open(host);
  EXPECT_EQ(tick(*device), 1);
  EXPECT_EQ(tick(*device), 2);
  EXPECT_EQ(tick(*device), -1) << "only answers of others came";
  EXPECT_NE(std::strstr(device->last_error(), "deadline"), nullptr) << device->last_error();
  EXPECT_EQ(tick(*device), 4);
  EXPECT_EQ(device->counters().stale_answers.load(), 8);
  EXPECT_EQ(device->counters().reconnects.load(), 0);
}

TEST_F(Stale, FC40_an_answer_that_is_lost_costs_its_tick_and_no_other) {
  ScriptedHost host([](const auto& run) {
    if (run.n % 3 != 0) run.reply(run.n);
  });
  auto device = open(host);
  for (int i = 1; i <= 9; ++i) EXPECT_EQ(tick(*device), i % 3 != 0 ? i : -1) << i;
  EXPECT_EQ(device->counters().late_answers.load(), 3);
  EXPECT_EQ(device->counters().stale_answers.load(), 0);
  EXPECT_EQ(device->counters().reconnects.load(), 0);
}

// The call gave up; the next one is on the same connection while the old answer is on its way.
TEST_F(Stale, FC40_the_late_answer_of_a_call_that_gave_up_is_not_the_next_ones) {
  uint64_t late_id = 0;
  ScriptedHost host([&](const auto& run) {
    if (run.n % 2 == 1) {
      late_id = run.id;
      return;
    }
    run.reply(777, late_id);
    run.reply(run.n);
    run.reply(779, run.id + 1000);  // and one to a request that nobody made
  });
  auto device = open(host);
  for (int i = 1; i <= 8; ++i) EXPECT_EQ(tick(*device), i % 2 == 0 ? i : -1) << i;
  EXPECT_GE(device->counters().stale_answers.load(), 7);
  EXPECT_EQ(device->counters().late_answers.load(), 4);
}

// The device is lost in flight and comes back: what the old owner was owed is none of the new.
TEST_F(Stale, FC40_after_a_reconnect_an_answer_of_the_former_epoch_is_dropped) {
  uint32_t old_epoch = 0;
  ScriptedHost host([&](const auto& run) {
    if (run.n_connection == 1 && run.n == 2) {
      old_epoch = run.epoch;
      *run.hang_up = true;
      return;
    }
    if (old_epoch != 0) run.reply(777, run.id, old_epoch);
    run.reply(run.n);
  });
  auto device = open(host);
  EXPECT_EQ(tick(*device), 1);
  EXPECT_EQ(tick(*device), -1);
  // Nothing of the former connection is used: all is staged anew.
  int value = -1;
  for (const int64_t end = clock_here().now_ns() + 5 * kSecond;
       value < 0 && clock_here().now_ns() < end;) {
    device->upkeep();
    value = tick(*device);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(value, 3) << device->last_error();
  EXPECT_EQ(tick(*device), 4);
  EXPECT_EQ(device->counters().reconnects.load(), 1);
  EXPECT_EQ(device->counters().stale_answers.load(), 2);
}

// A device that stages twice as fast as the host runs: each answer is that of the newest input that
// was there when its run began, and no older than one run and one period.
TEST(StaleHost, FC40_a_host_half_as_fast_as_the_device_answers_to_the_newest_input) {
  constexpr int kRunMs = 40, kPeriodMs = 20;
  const here::Host host("{\"model_family\":\"fake\",\"sleep_ms\":" + std::to_string(kRunMs) + "}");
  auto remote = here::open(here::provider("link"),
                           host.remote(",\"plan\":\"send_receive\",\"deadline_ms\":2000"));
  auto local = here::open(here::provider("fake"), "{\"model_family\":\"fake\"}");
  ASSERT_TRUE(remote && local);
  const std::vector<uint8_t> pixels(6 * 4 * 3, 9);
  frt_image_view view{sizeof view, FRT_PIXEL_RGB8, pixels.data(), pixels.size(), 6, 4, 0, 0, 0};
  const auto stage = [&](Runtime& runtime, float value) {
    const float state[4] = {value, 2, 3, 4};
    int code = runtime.set_input(0, &view, sizeof view);
    if (code == 0) code = runtime.set_input(1, "go", 2);
    return code == 0 ? runtime.set_input(2, state, sizeof state) : code;
  };
  const auto read = [](Runtime& runtime) {
    std::vector<float> out(4096);
    uint64_t written = 0;
    EXPECT_EQ(runtime.get_output(3, out.data(), out.size() * sizeof(float), &written), 0)
        << runtime.last_error();
    out.resize(written / sizeof(float));
    return out;
  };
  const uint32_t send = remote->plan()->stages[0].executor_ref,
                 receive = remote->plan()->stages[1].executor_ref;
  float staged = 0;
  for (int tick = 0; tick < 8; ++tick) {
    for (int i = 0; i < 2; ++i) {  // two observations a run; the first is overtaken
      ASSERT_EQ(stage(*remote, staged += 1), 0) << remote->last_error();
      std::this_thread::sleep_for(std::chrono::milliseconds(i == 0 ? kPeriodMs : 0));
    }
    test::OwnTime own;
    ASSERT_EQ(remote->run(send), 0);
    ASSERT_EQ(remote->run(receive), 0) << remote->last_error();
    EXPECT_LT(own.ns(), (kRunMs + 3 * kPeriodMs + 100) * kMs);
    ASSERT_EQ(stage(*local, staged), 0);
    ASSERT_EQ(local->step(), 0);
    EXPECT_TRUE(read(*remote) == read(*local)) << tick;
  }
}

}  // namespace
}  // namespace outrider::link
