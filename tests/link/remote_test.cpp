// provider_link.so in front of a server with the fake provider, over real sockets: the same answers
// as the fake in this process, verb for verb and byte for byte; and what threads do to each other.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/rng.h"
#include "hot_counter.h"
#include "link/client/connection.h"
#include "link/host_here.h"
#include "link/transport/tcp.h"
#include "link/wire/codec.h"
#include "outrider/ext/borrow.h"
#include "support/own_time.h"

namespace outrider::link {
namespace {

using here::counter, here::Host, here::kMs, here::kSecond, here::open, here::provider;
const Clock& kClock = here::clock_here();

// ---- mirroring
// -----------------------------------------------------------------------------------

struct Verbs {  // one random sequence, applied to two runtimes
  wire::Draw draw;
  std::vector<uint8_t> pixels = std::vector<uint8_t>(4 * 6 * 4 * 2 + 64);
  explicit Verbs(uint64_t seed) : draw(seed) {
    for (uint8_t& p : pixels) p = static_cast<uint8_t>(draw.bits());
  }
  struct Answer {
    int code = 0;
    uint64_t written = 77;
    std::vector<std::byte> out;
    std::string text;
    bool operator==(const Answer&) const = default;
  };
  struct Act {
    int kind = 0;
    uint32_t port = 0, ref = 0;
    std::string bytes;
    frt_image_view view{};
    uint64_t capacity = 0;
    bool null_out = false, null_written = false;
  };

  Act next() {
    static constexpr uint32_t kRefs[] = {4, 91, 37, 5, 4, 91};
    Act act;
    act.kind = static_cast<int>(draw.below(8));
    act.ref = kRefs[draw.below(6)];
    act.port = static_cast<uint32_t>(draw.below(12) == 0 ? 99 : draw.below(6));
    if (act.kind < 3) act.port = static_cast<uint32_t>(act.kind);  // mostly what is right
    if (draw.below(10) == 0) act.port = static_cast<uint32_t>(draw.below(7));
    const uint64_t length = draw.below(8) == 0 ? 0 : 4 * (1 + draw.below(6)) + (draw.below(9) == 0);
    for (uint64_t i = 0; i < length; ++i) act.bytes += static_cast<char>('a' + draw.below(26));
    const bool four = draw.below(3) == 0;
    act.view = {sizeof(frt_image_view),
                four ? uint32_t{FRT_PIXEL_RGBA8} : static_cast<uint32_t>(draw.below(2)),
                pixels.data(),
                pixels.size(),
                draw.below(12) == 0 ? 5 : 6,
                4,
                draw.below(3) == 0 ? (four ? 6 * 4 + 3 : 6 * 3 + 5) : 0,
                0,
                0};
    if (draw.below(15) == 0) act.view.data = nullptr;
    if (draw.below(15) == 0) act.view.bytes = 20;
    if (draw.below(15) == 0) act.view.stride_bytes = -1;
    act.capacity = draw.below(5) == 0 ? draw.below(50) : 4096;
    act.null_out = draw.below(20) == 0;
    act.null_written = draw.below(20) == 0;
    return act;
  }

  static Answer apply(Runtime& runtime, const Act& act) {
    Answer answer;
    switch (act.kind) {
      case 0:
        answer.code = act.port == 0
                          ? runtime.set_input(0, &act.view, sizeof act.view)
                          : runtime.set_input(act.port, act.bytes.data(), act.bytes.size());
        break;
      case 1:
      case 2:
        answer.code = runtime.set_input(act.port, act.bytes.data(), act.bytes.size());
        break;
      case 3:
        answer.code = runtime.run(act.ref);
        break;
      case 4:
        answer.code = runtime.step();
        break;
      case 5:
        answer.code = runtime.prepare(0, act.capacity);
        break;
      default: {
        std::vector<std::byte> room(act.capacity);
        answer.code =
            runtime.get_output(act.port, act.null_out ? nullptr : room.data(), act.capacity,
                               act.null_written ? nullptr : &answer.written);
        if (answer.code == 0 && !act.null_out && !act.null_written) {
          room.resize(answer.written);
          answer.out = room;
        }
        break;
      }
    }
    if (answer.code != 0) answer.text = runtime.last_error();
    return answer;
  }
};

class Mirror : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Plans, Mirror, ::testing::Values("infer", "split", "diamond", "step"));

TEST_P(Mirror, every_verb_answers_as_the_runtime_itself_does) {
  const std::string config =
      "{\"model_family\":\"fake\",\"plan\":\"" + std::string(GetParam()) + "\",\"fail_at\":7}";
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Host host(config);
    auto local = open(provider("fake"), config), remote = open(provider("link"), host.remote());
    ASSERT_TRUE(local && remote);
    Verbs verbs(seed);
    for (int i = 0; i < 150; ++i) {
      const Verbs::Act act = verbs.next();
      const Verbs::Answer want = Verbs::apply(*local, act), got = Verbs::apply(*remote, act);
      ASSERT_EQ(got.code, want.code)
          << "seed " << seed << " verb " << i << " kind " << act.kind << " port " << act.port
          << ": " << remote->last_error() << " / " << local->last_error();
      ASSERT_EQ(got.written, want.written) << "seed " << seed << " verb " << i;
      ASSERT_TRUE(got.out == want.out) << "seed " << seed << " verb " << i;
      if (act.kind >= 3 && !want.text.empty()) {
        ASSERT_EQ(got.text, want.text) << "seed " << seed << " verb " << i;
      }
    }
  }
}

TEST_P(Mirror, ports_plan_and_identity_are_the_hosts) {
  const std::string config =
      "{\"model_family\":\"fake\",\"plan\":\"" + std::string(GetParam()) + "\"}";
  Host host(config);
  auto local = open(provider("fake"), config), remote = open(provider("link"), host.remote());
  ASSERT_TRUE(local && remote);
  const auto &a = local->face(), &b = remote->face();
  EXPECT_STREQ(a.exp->identity, b.exp->identity);
  EXPECT_EQ(a.exp->fingerprint, b.exp->fingerprint);
  ASSERT_EQ(a.n_ports, b.n_ports);
  for (uint64_t i = 0; i < a.n_ports; ++i) {
    EXPECT_STREQ(a.ports[i].name, b.ports[i].name);
    EXPECT_EQ(a.ports[i].required, b.ports[i].required);
    EXPECT_TRUE(std::equal(a.ports[i].shape, a.ports[i].shape + a.ports[i].rank, b.ports[i].shape,
                           b.ports[i].shape + b.ports[i].rank));
  }
  EXPECT_EQ(local->has_step(), remote->has_step());
}

// ---- ticks
// ---------------------------------------------------------------------------------------

struct Request {
  std::vector<uint8_t> pixels;
  frt_image_view views[2];
  std::string prompt = "pick up the cup";
  std::vector<float> state = {1, 2, 3, 4};
  explicit Request(int height = 4, int width = 6, int n_views = 1) {
    const size_t bytes = static_cast<size_t>(height) * static_cast<size_t>(width) * 3;
    pixels.resize(bytes * 2);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 7);
    for (int v = 0; v < 2; ++v)
      views[v] = {sizeof(frt_image_view),
                  FRT_PIXEL_RGB8,
                  pixels.data() + static_cast<size_t>(v) * bytes,
                  bytes,
                  width,
                  height,
                  0,
                  0,
                  0};
    n = n_views;
  }
  int n;
  int stage(Runtime& r) const {
    if (const int code = r.set_input(0, views, static_cast<uint64_t>(n) * sizeof views[0]))
      return code;
    if (const int code = r.set_input(1, prompt.data(), prompt.size())) return code;
    return r.set_input(2, state.data(), state.size() * sizeof(float));
  }
  int tick(Runtime& r, std::vector<float>& out) const {
    if (const int code = stage(r)) return code;
    if (const int code = r.step()) return code;
    out.resize(4096);
    uint64_t written = 0;
    const int code = r.get_output(3, out.data(), out.size() * sizeof(float), &written);
    out.resize(written / sizeof(float));
    return code;
  }
};

TEST(Remote, outputs_are_the_local_ones_byte_for_byte_with_large_pictures) {
  const std::string config =
      "{\"model_family\":\"fake\",\"n_views\":2,\"image_height\":224,\"image_width\":224,"
      "\"action_steps\":50,\"action_dim\":32}";
  for (const char* listen : {"tcp://127.0.0.1:0", "loopback:remote_test"}) {
    Host host(config, listen);
    auto local = open(provider("fake"), config), remote = open(provider("link"), host.remote());
    ASSERT_TRUE(local && remote);
    Request request(224, 224, 2);
    for (int i = 0; i < 20; ++i) {
      request.state[0] = static_cast<float>(i);
      request.pixels[static_cast<size_t>(i) * 1000] ^= 0x55;
      std::vector<float> want, got;
      ASSERT_EQ(request.tick(*local, want), 0);
      ASSERT_EQ(request.tick(*remote, got), 0) << remote->last_error();
      ASSERT_EQ(want.size(), 1600u);
      ASSERT_TRUE(want == got) << i;
    }
    EXPECT_EQ(counter(*remote, "copied_input_bytes"), 0);
    EXPECT_EQ(counter(*remote, "pushed_outputs"), 19);
    EXPECT_GT(counter(*remote, "ns_run"), 0);
    EXPECT_GT(counter(*remote, "ns_total"), counter(*remote, "ns_run"));
  }
}

const outrider_borrow_v1* borrow_of(const Runtime& runtime) {
  const void* table = nullptr;
  const frt_model_runtime_v1& face = runtime.face();
  return face.query_extension(&face, OUTRIDER_EXT_BORROW, 1, &table) == 0
             ? static_cast<const outrider_borrow_v1*>(table)
             : nullptr;
}

// 18 MB a frame, far more than a socket takes, while the host's own thread is at work.
TEST(Remote, a_lent_input_returns_at_once_and_is_whole_when_its_token_says_so) {
  const std::string config =
      "{\"model_family\":\"fake\",\"n_views\":2,\"image_height\":1730,\"image_width\":1730,"
      "\"sleep_ms\":60}";
  Host host(config);
  auto local = open(provider("fake"), config),
       remote =
           open(provider("link"), host.remote(",\"deadline_ms\":5000,\"plan\":\"send_receive\""));
  ASSERT_TRUE(local && remote);
  ASSERT_EQ(borrow_of(*local), nullptr) << "what is in this process reads nothing later";
  const outrider_borrow_v1* borrow = borrow_of(*remote);
  ASSERT_NE(borrow, nullptr);
  Request request(1730, 1730, 2);
  std::vector<float> want, got;
  ASSERT_EQ(request.tick(*remote, got), 0) << remote->last_error();
  int n_lent = 0;
  for (int i = 0; i < 5; ++i) {
    request.pixels[static_cast<size_t>(i) * 3'000'000] ^= 0x5A;
    ASSERT_EQ(remote->run(remote->plan()->stages[0].executor_ref), 0) << remote->last_error();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    uint64_t token = 99;
    ASSERT_EQ(borrow->set_input(borrow->self, 0, request.views, sizeof request.views, &token), 0)
        << remote->last_error();
    n_lent += token != 0;
    EXPECT_EQ(borrow->wait(borrow->self, token, uint64_t{5} * kSecond), 0);
    EXPECT_EQ(borrow->is_free(borrow->self, token), 1);
    ASSERT_EQ(remote->step(), 0) << remote->last_error();
    uint64_t written = 0;
    got.assign(4096, 0);
    ASSERT_EQ(remote->get_output(3, got.data(), got.size() * sizeof(float), &written), 0);
    got.resize(written / sizeof(float));
    ASSERT_EQ(request.tick(*local, want), 0);
    EXPECT_TRUE(want == got) << i;
  }
  EXPECT_GE(n_lent, 1);
  EXPECT_EQ(counter(*remote, "inputs_lent"), n_lent);
  EXPECT_EQ(counter(*remote, "copied_input_bytes"), 0);
  uint64_t token = 99;
  EXPECT_EQ(borrow->set_input(borrow->self, 99, "x", 1, &token), FRT_ERR_INVALID);
  EXPECT_EQ(token, 0u);
  EXPECT_EQ(borrow->set_input(borrow->self, 1, "x", 1, nullptr), FRT_ERR_INVALID);
  EXPECT_EQ(borrow->is_free(borrow->self, 12345), 1);
}

TEST(Remote, a_tick_allocates_nothing_on_the_device) {
  if (!test::hot_counter::available()) GTEST_SKIP() << "not under a sanitizer";
  // The host lives in this process too: its thread is counted with the device's, so it is measured
  // with the tick of the host left out, by asking only for what the device does alone.
  const std::string config = "{\"model_family\":\"fake\",\"plan\":\"split\"}";
  Host host(config);
  auto remote = open(provider("link"), host.remote());
  ASSERT_TRUE(remote);
  const Request request;
  std::vector<float> out;
  for (int i = 0; i < 5; ++i) ASSERT_EQ(request.tick(*remote, out), 0) << remote->last_error();
  out.reserve(4096);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  test::hot_counter::arm();
  int code = 0;
  for (int i = 0; i < 20 && code == 0; ++i) {
    uint64_t written = 0;
    code = request.stage(*remote);
    if (code == 0) code = remote->step();
    if (code == 0) code = remote->get_output(3, out.data(), 4096 * sizeof(float), &written);
  }
  const test::HotCounts counts = test::hot_counter::disarm();
  ASSERT_EQ(code, 0) << remote->last_error();
  EXPECT_EQ(counts.allocations + counts.frees, 0u) << test::hot_counter::describe(counts);
}

TEST(Remote, send_and_receive_are_two_stages_and_step_is_both) {
  const std::string config = "{\"model_family\":\"fake\",\"sleep_ms\":30}";
  Host host(config);
  auto local = open(provider("fake"), config);
  auto remote = open(provider("link"), host.remote(",\"plan\":\"send_receive\""));
  ASSERT_TRUE(local && remote && remote->plan() != nullptr);
  ASSERT_EQ(remote->plan()->n_stages, 2u);
  EXPECT_STREQ(remote->plan()->stages[0].name, "send");
  EXPECT_STREQ(remote->plan()->stages[1].name, "receive");
  const uint32_t send = remote->plan()->stages[0].executor_ref,
                 receive = remote->plan()->stages[1].executor_ref;
  const Request request;
  EXPECT_EQ(remote->run(receive), FRT_ERR_NOT_READY);
  ASSERT_EQ(request.stage(*remote), 0);
  test::OwnTime own;
  const int64_t begin = kClock.now_ns();
  ASSERT_EQ(remote->run(send), 0);
  EXPECT_LT(own.ns(), 20 * kMs) << "the host's own work overlaps";
  ASSERT_EQ(remote->run(receive), 0) << remote->last_error();
  EXPECT_GE(kClock.now_ns() - begin, 29 * kMs);
  std::vector<float> want, got(12);
  uint64_t written = 0;
  ASSERT_EQ(request.tick(*local, want), 0);
  ASSERT_EQ(remote->get_output(3, got.data(), 48, &written), 0);
  EXPECT_TRUE(want == got);
  ASSERT_EQ(request.tick(*remote, got), 0) << remote->last_error();
  EXPECT_TRUE(want == got);
}

// While the host runs, frames come that it has no time for: only the newest of them is ever used.
TEST(Remote, FC40_frames_that_wait_behind_a_run_are_replaced_by_the_newest) {
  const std::string config = "{\"model_family\":\"fake\",\"sleep_ms\":250}";
  Host host(config);
  auto local = open(provider("fake"), "{\"model_family\":\"fake\"}");
  auto remote =
      open(provider("link"), host.remote(",\"plan\":\"send_receive\",\"deadline_ms\":3000"));
  ASSERT_TRUE(local && remote);
  Request request;
  std::vector<float> want, got(12);
  ASSERT_EQ(request.tick(*remote, got), 0) << remote->last_error();
  ASSERT_EQ(request.stage(*remote), 0) << remote->last_error();
  const int64_t before = host.server->counters().replaced_inputs;
  ASSERT_EQ(remote->run(remote->plan()->stages[0].executor_ref), 0) << remote->last_error();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // it is at work
  constexpr int kFrames = 6;
  for (int i = 0; i < kFrames; ++i) {
    request.pixels[0] = static_cast<uint8_t>(50 + i);
    request.state[0] = static_cast<float>(50 + i);
    ASSERT_EQ(request.stage(*remote), 0) << remote->last_error();
  }
  ASSERT_EQ(remote->step(), 0) << remote->last_error();
  EXPECT_EQ(host.server->counters().replaced_inputs - before, 3 * (kFrames - 1));
  EXPECT_EQ(counter(*remote, "replaced_inputs"), 3 * (kFrames - 1));
  uint64_t written = 0;
  ASSERT_EQ(remote->get_output(3, got.data(), 48, &written), 0);
  ASSERT_EQ(request.tick(*local, want), 0);
  EXPECT_TRUE(want == got) << "the newest frame was run";
}

// ---- faults
// --------------------------------------------------------------------------------------

// FC-36: the host vanishes in a run; nothing hangs, the cause is named, it comes back by itself.
TEST(Remote, FC36_the_host_goes_away_in_a_run_and_comes_back) {
  const std::string config = "{\"model_family\":\"fake\",\"sleep_ms\":50}";
  auto host = std::make_unique<Host>(config);
  const std::string endpoint = host->endpoint;
  auto remote = open(provider("link"), host->remote());
  ASSERT_TRUE(remote);
  const Request request;
  std::vector<float> out;
  ASSERT_EQ(request.tick(*remote, out), 0) << remote->last_error();
  ASSERT_EQ(request.stage(*remote), 0);
  std::thread kill([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    host.reset();
  });
  test::OwnTime own;
  const int code = remote->step();
  EXPECT_LT(own.ns(), 400 * kMs);
  kill.join();
  if (code != 0) {
    EXPECT_NE(std::strstr(remote->last_error(), "link: "), nullptr);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_EQ(request.tick(*remote, out), FRT_ERR_BACKEND);
  EXPECT_NE(std::strstr(remote->last_error(), "host gone"), nullptr) << remote->last_error();
  host = std::make_unique<Host>(config, endpoint.c_str());
  int last = -1;
  for (int i = 0; i < 100 && last != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    last = request.tick(*remote, out);
  }
  EXPECT_EQ(last, 0) << remote->last_error();
  EXPECT_GE(counter(*remote, "reconnects"), 1);
  EXPECT_GE(counter(*remote, "lost_host") + counter(*remote, "lost_stopped"), 1);
}

// FC-37: a peer that accepts and says nothing, or stops in the middle, costs its deadline, no more,
// and no processor.
TEST(Remote, FC37_a_peer_that_accepts_and_is_silent_costs_the_deadline_and_no_processor) {
  auto listener = listen_transport(parse_endpoint("tcp://127.0.0.1:0").value());
  ASSERT_TRUE(listener);
  const std::string config = "{\"model_family\":\"remote\",\"endpoint\":\"" +
                             listener.value()->endpoint() +
                             "\",\"model\":\"default\",\"connect_ms\":400}";
  timespec cpu{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  test::OwnTime own;
  const int64_t begin = kClock.now_ns(), cpu_begin = cpu.tv_sec * kSecond + cpu.tv_nsec;
  auto opened = ProviderSource(provider("link"), config).open();
  const int64_t took = kClock.now_ns() - begin, own_ns = own.ns();
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.code(), Code::kDevice);
  EXPECT_GE(took, 390 * kMs);
  EXPECT_LT(own_ns, 1500 * kMs);
  EXPECT_LT(cpu.tv_sec * kSecond + cpu.tv_nsec - cpu_begin, took / 5);
}

// FC-38: heartbeats are answered while a long run is at work, a second device is served or told
// busy at once, the long run is not killed.
TEST(Remote, FC38_a_busy_host_answers_heartbeats_and_newcomers) {
  const std::string config = "{\"model_family\":\"fake\",\"sleep_ms\":2500}";
  ServerOptions options;
  options.models.max_instances = 1;
  Host host(config, "tcp://127.0.0.1:0", options);
  auto remote = open(provider("link"), host.remote(",\"deadline_ms\":10000"));
  ASSERT_TRUE(remote);
  const Request request;
  ASSERT_EQ(request.stage(*remote), 0);
  std::vector<float> out;
  int code = -99;
  std::thread run([&] { code = request.tick(*remote, out); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  // A second device: told at once.
  test::OwnTime own;
  auto second = ProviderSource(provider("link"), host.remote()).open();
  EXPECT_FALSE(second);
  EXPECT_NE(second.error().message().find("host busy"), std::string_view::npos)
      << second.error().text;
  EXPECT_LT(own.ns(), kSecond);
  run.join();
  EXPECT_EQ(code, 0) << remote->last_error();
}

TEST(Remote, a_ping_is_answered_during_a_run_and_status_waits_behind_frames) {
  Host host("{\"model_family\":\"fake\",\"sleep_ms\":300,\"require_inputs\":0}");
  class Dial final : public Dialer {
   public:
    explicit Dial(std::string e) : endpoint(std::move(e)) {}
    Result<std::unique_ptr<Transport>> dial(int64_t deadline_ns) override {
      return connect_transport(parse_endpoint(endpoint).value(), deadline_ns);
    }
    std::string endpoint;
  } dialer(host.endpoint);
  LinkError why;
  DeviceName name;
  name.client_id = 5;
  auto c = Connection::make(dialer, kClock, name, kClock.now_ns() + kSecond, why);
  ASSERT_TRUE(c) << why.error.text;
  wire::Channel& channel = c->channel();
  const auto due = [] { return kClock.now_ns() + 2 * kSecond; };
  wire::Open open;
  open.model.assign("default");
  wire::Incoming in;
  uint64_t id = c->next_request();
  channel.send(open, {id, 0, 0, 0}, {}, due());
  ASSERT_EQ(c->wait(id, in, nullptr, nullptr, due()), wire::Got::kMessage);
  wire::OpenReply reply;
  ASSERT_TRUE(wire::decode(in.body, reply));
  ASSERT_EQ(reply.code, 0);
  // RUN, STATUS, PING in one go: the ping comes back during the run, the status after its reply.
  wire::Run run;
  run.kind = 1;
  test::OwnTime own;
  channel.send(run, {c->next_request(), reply.epoch, 0, 0}, {}, due());
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  channel.send(wire::Status(), {c->next_request(), reply.epoch, 0, 0}, {}, due());
  channel.send(wire::Ping(), {c->next_request(), reply.epoch, 0, 0}, {}, due());
  std::vector<uint16_t> order;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(channel.receive(in, nullptr, due()), wire::Got::kMessage);
    order.push_back(in.header.type);
    if (i == 0) {
      EXPECT_LT(own.ns(), 250 * kMs);
      wire::Pong pong;
      ASSERT_TRUE(wire::decode(in.body, pong));
      EXPECT_GE(pong.busy_ms, 20u);
    }
  }
  EXPECT_EQ(order,
            (std::vector<uint16_t>{wire::type_of<wire::Pong>(), wire::type_of<wire::RunReply>(),
                                   wire::type_of<wire::StatusReply>()}));
}

// Four megabytes are asked for and not read: the answer of a run stands behind one piece of them,
// in the system's buffers, and the host does not wait for its peer.
TEST(Remote, telemetry_stands_before_a_frame_in_one_piece_at_most) {
  Host host("{\"model_family\":\"fake\",\"require_inputs\":0}");
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int room = 64 << 10;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(parse_endpoint(host.endpoint).value().port);
  ASSERT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  auto stream = adopt_tcp_stream(std::move(fd));
  ASSERT_TRUE(stream);
  wire::Channel channel(std::move(stream.value()), kClock);
  const auto due = [] { return kClock.now_ns() + 5 * kSecond; };
  wire::Incoming in;
  channel.send(wire::Hello(), {1, 0, 0, 0}, {}, due());
  ASSERT_EQ(channel.receive(in, nullptr, due()), wire::Got::kMessage);
  channel.set_version(wire::kVersion);
  wire::Open open;
  open.model.assign("default");
  channel.send(open, {2, 0, 0, 0}, {}, due());
  ASSERT_EQ(channel.receive(in, nullptr, due()), wire::Got::kMessage);
  wire::Probe probe;
  probe.return_bytes = wire::Probe::kMaxBytes;
  channel.send(probe, {3, 0, 0, 0}, {}, due());
  channel.send(wire::Status(), {4, 0, 0, 0}, {}, due());
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // whatever fits is under way
  wire::Run run;
  run.kind = 1;
  channel.send(run, {5, 1, 0, 0}, {}, due());
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  uint64_t before = 0, after = 0;
  bool answered = false, looked = false;
  while (after + before < wire::Probe::kMaxBytes || !looked) {
    ASSERT_EQ(channel.receive(in, nullptr, due()), wire::Got::kMessage) << before << " " << after;
    if (in.header.request_id == 5) answered = true;
    if (in.header.request_id == 4) looked = true;
    if (in.header.request_id == 3) (answered ? after : before) += in.header.payload_bytes;
    ASSERT_LE(in.header.payload_bytes, wire::Channel::kTelemetryPieceBytes);
  }
  EXPECT_TRUE(answered);
  // The receive buffer of this end, which the system may double and more, and one piece.
  EXPECT_LE(before, uint64_t{512} << 10) << "of four megabytes";
  EXPECT_EQ(before + after, wire::Probe::kMaxBytes);
}

TEST(Remote, a_peer_that_never_reads_disturbs_nobody_else) {
  Host host("{\"model_family\":\"fake\",\"action_steps\":4000,\"action_dim\":64}");
  auto stuck = connect_transport(parse_endpoint(host.endpoint).value(), kClock.now_ns() + kSecond);
  ASSERT_TRUE(stuck);
  wire::Channel channel(std::move(stuck.value()), kClock);
  wire::Hello hello;
  channel.send(hello, {1, 0, 0, 0}, {}, kClock.now_ns() + kSecond);
  wire::Probe probe;
  probe.return_bytes = wire::Probe::kMaxBytes;
  for (int i = 0; i < 8; ++i)
    channel.send(probe, {static_cast<uint64_t>(2 + i), 0, 0, 0}, {}, kClock.now_ns() + 50 * kMs);
  auto remote = open(provider("link"), host.remote());
  ASSERT_TRUE(remote);
  const Request request;
  std::vector<float> out(4000 * 64);
  for (int i = 0; i < 20; ++i) {
    test::OwnTime own;
    ASSERT_EQ(request.stage(*remote), 0) << remote->last_error();
    ASSERT_EQ(remote->step(), 0) << remote->last_error();
    EXPECT_LT(own.ns(), 190 * kMs);
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
  }
  EXPECT_GE(host.server->counters().slow_peers.load(), 1) << "it was dropped";
}

// FC-46: hostile bytes on the wire: the connection ends, memory stays, others are served.
TEST(Remote, FC46_hostile_bytes_end_their_connection_and_nothing_else) {
  Host host("{\"model_family\":\"fake\"}");
  auto remote = open(provider("link"), host.remote());
  ASSERT_TRUE(remote);
  wire::Draw draw(3);
  for (int kind = 0; kind < 40; ++kind) {
    auto raw = connect_transport(parse_endpoint(host.endpoint).value(), kClock.now_ns() + kSecond);
    ASSERT_TRUE(raw) << raw.error().text << " " << kind;
    std::vector<std::byte> bytes(kind % 4 == 0 ? 200000 : 4096);
    for (std::byte& b : bytes) b = std::byte(draw.bits());
    if (kind % 4 != 0) {  // true headers that promise too much
      wire::Header header;
      header.type = static_cast<uint16_t>(draw.below(24));
      header.body_bytes =
          static_cast<uint32_t>(kind % 4 == 1 ? draw.bits() : draw.below(wire::kMaxBodyBytes));
      header.payload_bytes = static_cast<uint32_t>(kind % 4 == 2 ? draw.bits() : draw.below(1000));
      wire::encode_header(header, bytes);
    }
    const Piece piece = bytes;
    raw.value()->send({&piece, 1}, kClock.now_ns() + 200 * kMs);
    Request request;
    std::vector<float> out;
    ASSERT_EQ(request.tick(*remote, out), 0) << remote->last_error();
  }
  EXPECT_EQ(counter(*remote, "connects"), 1);
}

// FC-45: who listens for other machines needs a key or says so.
TEST(Remote, FC45_nothing_is_open_to_the_network_by_default) {
  const auto start = [](const char* listen, bool plaintext) {
    ServerOptions options;
    options.listen = {listen};
    options.plaintext = plaintext;
    return Server::start(options, std::make_unique<Models>(ModelsLimits(), kClock), kClock);
  };
  for (const char* open : {"tcp://0.0.0.0:0", "tcp://[::]:0"}) {
    auto refused = start(open, false);
    ASSERT_FALSE(refused) << open;
    EXPECT_EQ(refused.code(), Code::kInvalid);
    EXPECT_NE(refused.error().message().find("--plaintext"), std::string_view::npos);
    EXPECT_TRUE(start(open, true)) << open;
  }
  for (const char* local : {"tcp://127.0.0.1:0", "tcp://[::1]:0", "loopback:fc45"}) {
    auto started = start(local, false);
    ASSERT_TRUE(started) << local << started.error().text;
  }
  EXPECT_STREQ(kDefaultListen, "tcp://127.0.0.1:5610");
}

// FC-45: a page in a browser can make it send a request to this machine, with whatever body.
// Nothing of it is a message, not even what is one.
TEST(Remote, FC45_what_a_browser_sends_is_no_message_whatever_is_in_its_body) {
  Host host("{\"model_family\":\"fake\"}");
  for (const char* front : {"POST / HTTP/1.1\r\nOrigin: http://other.example\r\n\r\n", "x"}) {
    auto raw = connect_transport(parse_endpoint(host.endpoint).value(), kClock.now_ns() + kSecond);
    ASSERT_TRUE(raw);
    const Piece noise = std::as_bytes(std::span(front, std::strlen(front)));
    ASSERT_EQ(raw.value()->send({&noise, 1}, kClock.now_ns() + kSecond).io, Io::kDone);
    wire::Channel page(std::move(raw.value()), kClock);
    page.send(wire::Hello(), {1, 0, 0, 0}, {}, kClock.now_ns() + kSecond);
    wire::Incoming in;
    wire::Got got = wire::Got::kMessage;
    for (int i = 0; i < 8 && got == wire::Got::kMessage; ++i) {
      got = page.receive(in, nullptr, kClock.now_ns() + 5 * kSecond);
      if (got != wire::Got::kMessage) break;
      EXPECT_EQ(in.header.type, wire::type_of<wire::Bye>()) << "told to go, not answered";
    }
    EXPECT_EQ(got, wire::Got::kLost) << "the connection ends";
  }
  auto remote = open(provider("link"), host.remote());
  ASSERT_TRUE(remote);
}

TEST(Remote, leaves_no_descriptor_and_no_thread_behind) {
  const auto count = [](const char* path) {
    size_t n = 0;
    DIR* dir = opendir(path);
    while (readdir(dir) != nullptr) ++n;
    closedir(dir);
    return n;
  };
  const auto round = [] {
    Host host("{\"model_family\":\"fake\"}");
    auto remote = open(provider("link"), host.remote());
    const Request request;
    std::vector<float> out;
    ASSERT_EQ(request.tick(*remote, out), 0);
  };
  round();
  const size_t fds = count("/proc/self/fd"), threads = count("/proc/self/task");
  for (int i = 0; i < 5; ++i) round();
  EXPECT_EQ(count("/proc/self/fd"), fds);
  EXPECT_EQ(count("/proc/self/task"), threads);
}

TEST(Remote, open_refuses_what_its_configuration_may_not_say) {
  const std::pair<const char*, const char*> bad[] = {
      {R"({"model_family":"remote","model":"m"})", "\"endpoint\" is missing"},
      {R"({"model_family":"remote","endpoint":"tcp://h:1"})", "\"model\" is missing"},
      {R"({"model_family":"remote","endpoint":"h:1","model":"m"})", "tcp://HOST:PORT"},
      {R"({"model_family":"remote","endpoint":"tcp://h:1","model":"m","deadline_ms":0})",
       "deadline_ms"},
      {R"({"model_family":"remote","endpoint":"tcp://h:1","model":"m","deadline_ms":"5"})",
       "deadline_ms"},
      {R"({"model_family":"remote","endpoint":"tcp://h:1","model":"m","plan":"x"})",
       "send_receive"},
      {R"({"model_family":"remote","endpoint":"tcp://h:1","model":"m","wait_ms":1})",
       "unknown key"},
      {R"({"model_family":"pi0","endpoint":"tcp://h:1","model":"m"})", "this provider has"},
  };
  for (const auto& [config, says] : bad) {
    auto opened = ProviderSource(provider("link"), config).open();
    ASSERT_FALSE(opened) << config;
    EXPECT_NE(opened.error().message().find(says), std::string_view::npos) << opened.error().text;
  }
}

}  // namespace
}  // namespace outrider::link
