// The device's end against a far end that is played by hand, and against the real server.
#include "link/jetlink/client/client.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "link/jetlink/client/device.h"
#include "link/jetlink/datagram.h"
#include "link/jetlink/scripted.h"
#include "link/transport/loopback.h"
#include "support/own_time.h"

namespace outrider::link::jetlink {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// A client with a host that answers what the test says.
struct Pair {
  Pair() : model(3) {
    auto made = loopback_pair();
    client = std::make_unique<Client>(std::move(made.value().first), ClientOptions{}, clock);
    host = std::make_unique<Stream>(std::move(made.value().second), 0);
    spec = tiny_queued();
    spec.id = model.id;
    frame.resize(sizes_of(spec).value().warped_bytes);
    packed.resize(12);
  }
  void answer(Type type, uint32_t seq, const std::string& body) {
    const Piece pieces[] = {std::as_bytes(std::span(body))};
    EXPECT_EQ(host->send(type, seq, pieces, kForever), Io::kDone);
  }
  Message heard() {
    Message message;
    EXPECT_EQ(host->read(message, steady_now_ns() + 2 * kSecond), Got::kMessage);
    return message;
  }
  // The model is ready at once.
  void ready() {
    EngineResp resp;
    resp.state = EngineState::kReady;
    resp.sha256 = model.id.sha256;
    resp.spec = spec;
    answer(Type::kEngineResp, 1, to_json(resp));
    auto done = client->make_ready(model.id, "", {});
    ASSERT_TRUE(done) << done.error().text;
    heard();
  }
  uint32_t send(uint32_t id, uint32_t flags = 0) {
    return client->begin({id, flags}, frame, packed, kForever);
  }
  static std::string reply(uint32_t id, uint32_t status = 0, size_t n = 16, float value = 0) {
    std::string out(kReplyHeadBytes, '\0');
    encode(ReplyHead{id, status, 1, 2, 3}, std::as_writable_bytes(std::span(out)));
    const std::vector<float> floats(n, value == 0 ? static_cast<float>(id) : value);
    return out.append(reinterpret_cast<const char*>(floats.data()), n * 4);
  }
  int64_t in_ms(int64_t ms) const { return clock.now_ns() + ms * 1'000'000; }

  MonotonicClock clock;
  TestModel model;
  ModelSpec spec;
  std::unique_ptr<Client> client;
  std::unique_ptr<Stream> host;
  std::vector<std::byte> frame;
  std::vector<float> packed;
};

// A host that reports progress without a pause: whenever somebody reads, the next report is there.
// After three seconds it hangs up.
class Talker final : public Transport {
 public:
  Talker() {
    const std::string text = to_json(Progress{"build", 0.5, ""});
    Header header{3, static_cast<uint16_t>(Type::kProgress), 0, 0,
                  static_cast<uint32_t>(text.size())};
    report_.resize(kHeaderBytes + text.size() + add_pad(header, 1));
    encode_header(header, report_);
    std::memcpy(report_.data() + kHeaderBytes, text.data(), text.size());
  }
  Moved send(std::span<const Piece> pieces, int64_t) noexcept override {
    Moved moved;
    for (const Piece& piece : pieces) moved.bytes += piece.size();
    return moved;
  }
  Moved receive(std::span<std::byte> into, int64_t) noexcept override {
    if (steady_now_ns() > end_ns_) return {Io::kClosed, 0};
    const size_t n = std::min(into.size(), report_.size() - at_);
    std::memcpy(into.data(), report_.data() + at_, n);
    at_ = (at_ + n) % report_.size();
    return {Io::kDone, n};
  }
  void shut() noexcept override {}
  const TransportFacts& facts() const noexcept override { return facts_; }

 private:
  std::vector<std::byte> report_;
  size_t at_ = 0;
  int64_t end_ns_ = steady_now_ns() + 3 * kSecond;
  TransportFacts facts_;
};

TEST(JetlinkClient, I21_deadlines_are_absolute_and_talk_extends_none) {
  const MonotonicClock clock;
  Client client(std::make_unique<Talker>(), ClientOptions{}, clock);
  test::OwnTime own;
  const int64_t begin_ns = clock.now_ns();
  EXPECT_FALSE(client.hello(200'000'000));
  EXPECT_GE(clock.now_ns() - begin_ns, 200'000'000);
  EXPECT_LT(own.ns(), kSecond);
  EXPECT_EQ(client.loss(), Loss::kDeadline) << client.reason();
}

TEST(JetlinkClient, I21_a_late_reply_is_read_quietly_by_a_later_call) {
  Pair p;
  p.ready();
  const uint32_t first = p.send(1);
  EXPECT_EQ(p.client->end(first, p.in_ms(10), true), Client::Ended::kHeld);
  EXPECT_FALSE(p.client->dead()) << "a hold is no failure";
  EXPECT_GT(p.client->waiting_ns(), 0);
  p.answer(Type::kInferResp, first, Pair::reply(1));
  const uint32_t second = p.send(2);
  p.answer(Type::kInferResp, second, Pair::reply(2));
  EXPECT_EQ(p.client->end(second, p.in_ms(1000), false), Client::Ended::kReply);
  EXPECT_EQ(p.client->outputs()[0], 2);
  EXPECT_EQ(p.client->n_in_flight(), 0u);
  EXPECT_EQ(p.client->frames_lost(), 0u);
}

TEST(JetlinkClient, I21_dead_is_final) {
  Pair p;
  p.ready();
  const uint32_t seq = p.send(1);
  EXPECT_EQ(p.client->end(seq, p.in_ms(10), false), Client::Ended::kDead);
  EXPECT_EQ(p.client->loss(), Loss::kDeadline);
  p.answer(Type::kInferResp, seq, Pair::reply(1));
  EXPECT_EQ(p.send(2), 0u);
  EXPECT_FALSE(p.client->drain());
  EXPECT_FALSE(p.client->hello());
  EXPECT_FALSE(p.client->ping());
}

TEST(JetlinkClient, a_reply_to_a_later_frame_retires_the_earlier_ones) {
  Pair p;
  p.ready();
  p.send(1);
  p.send(2);
  const uint32_t third = p.send(3);
  p.answer(Type::kInferResp, third, Pair::reply(3));
  EXPECT_EQ(p.client->end(third, p.in_ms(1000), false), Client::Ended::kReply);
  EXPECT_EQ(p.client->frames_lost(), 2u);
  EXPECT_EQ(p.client->n_in_flight(), 0u);
}

TEST(JetlinkClient, a_drain_takes_what_is_there_and_waits_for_nothing) {
  Pair p;
  p.ready();
  const int64_t begin_ns = p.clock.now_ns();
  EXPECT_TRUE(p.client->drain());
  const uint32_t first = p.send(1), second = p.send(2);
  EXPECT_TRUE(p.client->drain());
  EXPECT_LT(p.clock.now_ns() - begin_ns, kSecond / 2);
  p.answer(Type::kInferResp, first, Pair::reply(1));
  p.answer(Type::kInferResp, second, Pair::reply(2));
  for (int i = 0; i < 100 && p.client->n_in_flight() > 0; ++i) EXPECT_TRUE(p.client->drain());
  EXPECT_EQ(p.client->outputs()[0], 2);
}

TEST(JetlinkClient, takes_no_more_frames_than_it_keeps) {
  Pair p;
  p.ready();
  for (uint32_t i = 0; i < kMaxInFlight; ++i) EXPECT_NE(p.send(i), 0u);
  EXPECT_EQ(p.send(99), 0u);
  EXPECT_FALSE(p.client->dead());
}

TEST(JetlinkClient, dies_of_every_reply_that_is_not_the_one_it_sent_for) {
  const std::string whole = Pair::reply(1);
  const std::pair<std::string, Loss> replies[] = {
      {Pair::reply(1, 1), Loss::kStatus},
      {Pair::reply(1, 3, 0), Loss::kStatus},
      {Pair::reply(1, 4), Loss::kStatus},
      {Pair::reply(1, 77), Loss::kStatus},
      {Pair::reply(2), Loss::kProtocol},
      {"", Loss::kProtocol},
      {whole.substr(0, 19), Loss::kProtocol},
      {whole.substr(0, 20), Loss::kProtocol},
      {whole.substr(0, whole.size() - 1), Loss::kProtocol},
      {whole + "{}", Loss::kProtocol},            // nobody asked for telemetry
      {Pair::reply(1, 0, 20), Loss::kProtocol}};  // the hidden state left in
  for (const auto& [bytes, loss] : replies) {
    Pair p;
    p.ready();
    const uint32_t seq = p.send(1);
    p.answer(Type::kInferResp, seq, bytes);
    EXPECT_EQ(p.client->end(seq, p.in_ms(1000), false), Client::Ended::kDead);
    EXPECT_EQ(p.client->loss(), loss) << bytes.size();
    EXPECT_STRNE(p.client->reason(), "");
  }
}

TEST(JetlinkClient, takes_telemetry_when_it_asked_and_nothing_else_there) {
  for (const bool good : {true, false}) {
    Pair p;
    p.ready();
    const uint32_t seq = p.send(1, kWantState);
    p.answer(Type::kInferResp, seq, Pair::reply(1) + (good ? "{\"temp_c\":50}" : "junk"));
    EXPECT_EQ(p.client->end(seq, p.in_ms(1000), false),
              good ? Client::Ended::kReply : Client::Ended::kDead);
    if (good) {
      EXPECT_EQ(p.client->telemetry(), "{\"temp_c\":50}");
    }
  }
}

TEST(JetlinkClient, puts_zeros_where_the_host_keeps_the_hidden_state) {
  Pair p;
  p.ready();
  const uint32_t seq = p.send(1);
  p.answer(Type::kInferResp, seq, Pair::reply(1, 0, 16, 7));
  ASSERT_EQ(p.client->end(seq, p.in_ms(1000), false), Client::Ended::kReply);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(p.client->outputs()[i], i >= 12 && i < 16 ? 0 : 7) << i;
}

TEST(JetlinkClient, swallows_the_error_an_older_host_answers_a_leave_with_and_no_other) {
  Pair p;
  p.client->leave(reason_json("stopped"));
  const Message leave = p.heard();
  EXPECT_EQ(leave.type(), Type::kLeave);
  p.answer(Type::kError, leave.header.seq, to_json(ErrorResp{"unknown_message", "type 19"}));
  p.answer(Type::kPong, leave.header.seq + 1, "");
  EXPECT_TRUE(p.client->ping());
  p.answer(Type::kError, 999, to_json(ErrorResp{"no_hello", ""}));
  EXPECT_FALSE(p.client->ping());
  EXPECT_NE(std::string(p.client->reason()).find("no_hello"), std::string::npos);
}

TEST(JetlinkClient, ignores_what_a_host_says_of_another_model) {
  Pair p;
  EngineResp other;
  other.state = EngineState::kFailed;
  other.sha256 = std::string(64, 'e');
  EngineResp ours;
  ours.state = EngineState::kBuilding;
  ours.sha256 = p.model.id.sha256;
  p.answer(Type::kEngineResp, 1, to_json(ours));
  p.answer(Type::kEngineResp, 0, to_json(other));
  ours.state = EngineState::kReady;
  ours.spec = p.spec;
  p.answer(Type::kEngineResp, 0, to_json(ours));
  auto done = p.client->make_ready(p.model.id, "", {});
  EXPECT_TRUE(done) << done.error().text;
}

TEST(JetlinkClient, refuses_a_record_of_another_model_than_it_asked_for) {
  Pair p;
  EngineResp resp;
  resp.state = EngineState::kReady;
  resp.sha256 = p.model.id.sha256;
  resp.spec = tiny_queued();
  p.answer(Type::kEngineResp, 1, to_json(resp));
  EXPECT_FALSE(p.client->make_ready(p.model.id, "", {}));
  EXPECT_EQ(p.client->loss(), Loss::kProtocol);
}

TEST(JetlinkClient, says_that_the_host_has_no_such_model_when_it_has_no_file) {
  Pair p;
  EngineResp resp;
  resp.state = EngineState::kNeedUpload;
  p.answer(Type::kEngineResp, 1, to_json(resp));
  auto done = p.client->make_ready(p.model.id, "", {});
  EXPECT_EQ(done.code(), Code::kNotFound);
  EXPECT_FALSE(p.client->dead());
}

TEST(JetlinkClient, stops_waiting_when_it_is_told_to) {
  Pair p;
  EngineResp resp;
  resp.state = EngineState::kBuilding;
  p.answer(Type::kEngineResp, 1, to_json(resp));
  ReadyWait wait;
  wait.stop = [] { return true; };
  EXPECT_EQ(p.client->make_ready(p.model.id, "", wait).code(), Code::kNotReady);
  Pair late;
  late.answer(Type::kEngineResp, 1, to_json(resp));
  ReadyWait brief;
  brief.ready_ns = 50'000'000;
  EXPECT_EQ(late.client->make_ready(late.model.id, "", brief).code(), Code::kNotReady);
}

TEST(JetlinkClient, of_all_messages_only_a_hello_that_is_an_object_or_empty_is_one) {
  for (uint16_t type = 0; type < 24; ++type) {
    for (const std::string& body : {std::string(), std::string("{"), std::string("[]"),
                                    std::string("{\"state\":7}"), std::string(100, '\xFF')}) {
      Pair p;
      p.answer(static_cast<Type>(type), 1, body);
      p.answer(static_cast<Type>(type), 0, body);
      const bool good = static_cast<Type>(type) == Type::kHelloResp &&
                        (body.empty() || body == "{\"state\":7}");  // every key may be left out
      // What is no hello is refused at once or waited behind.
      const auto hello = p.client->hello(good ? kSecond : 4'000'000);
      EXPECT_EQ(static_cast<bool>(hello), good) << type << " " << body;
      EXPECT_EQ(p.client->dead(), !good) << type << " " << body;
      EXPECT_EQ(std::string(p.client->reason()).empty(), good) << type << " " << body;
    }
  }
}

// ---- device and server ------------------------------------------------------------------------

class JetlinkDevice : public JetlinkServer {
 protected:
  DeviceConfig config;
  Result<std::unique_ptr<Device>> open(const std::string& of, int64_t deadline_ms = 1000) {
    config.model = of;
    config.deadline_ns = deadline_ms * 1'000'000;
    config.connect_ns = 2 * kSecond;
    config.ready_ns = 5 * kSecond;
    config.pulse = true;
    const std::string endpoint = server->endpoint();
    return Device::open(
        config,
        [endpoint](int64_t deadline_ns) {
          return connect_transport(parse_endpoint(endpoint).value(), deadline_ns);
        },
        clock);
  }
  std::string file_of(const TestModel& of) {
    const std::string path = (root / "model.bin").string();
    std::ofstream(path, std::ios::binary) << of.bytes;
    return path;
  }
  static void stage(Device& device, float desire0 = 0) {
    for (uint32_t i = 0; i < 4; ++i) {
      std::string bytes(device.ports()[i].n_bytes, '\0');
      if (i == 1) std::memcpy(bytes.data(), &desire0, sizeof desire0);
      ASSERT_EQ(device.set_input(i, bytes.data(), bytes.size()), Code::kOk) << device.last_error();
    }
  }
  static std::vector<float> outputs(Device& device) {
    std::vector<float> out(20);
    uint64_t written = 0;
    EXPECT_EQ(device.get_output(4, out.data(), 80, &written), Code::kOk) << device.last_error();
    return out;
  }
};

TEST_F(JetlinkDevice, uploads_a_file_and_runs_its_frames) {
  auto opened = open(file_of(model));
  ASSERT_TRUE(opened) << opened.error().text;
  Device& device = *opened.value();
  EXPECT_EQ(device.spec().id.sha256, model.id.sha256);
  stage(device, 5);
  for (int i = 1; i < 4; ++i) {
    ASSERT_EQ(device.infer(), Code::kOk) << device.last_error();
    EXPECT_EQ(outputs(device)[0], static_cast<float>(i));
    EXPECT_EQ(outputs(device)[2], 5);
  }
  device.reset();
  ASSERT_EQ(device.infer(), Code::kOk);
  EXPECT_EQ(outputs(device)[0], 1);
  EXPECT_EQ(backend.n_builds, 1);
}

TEST_F(JetlinkDevice, takes_what_the_host_has_loaded_by_default) {
  EXPECT_EQ(open("default").code(), Code::kNotFound);
  ready();
  auto opened = open("default");
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_EQ(opened.value()->spec().id.sha256, model.id.sha256);
  EXPECT_EQ(open(other.id.sha256).code(), Code::kNotFound);
  EXPECT_EQ(open("/no/such/file").code(), Code::kNotFound);
}

TEST_F(JetlinkDevice, finds_a_host_of_version_2) {
  stop();
  options.version = kVersion2;
  start();
  auto opened = open(file_of(model));
  ASSERT_TRUE(opened) << opened.error().text;
  Device& device = *opened.value();
  EXPECT_EQ(device.version(), 2);
  stage(device);
  ASSERT_EQ(device.infer(), Code::kOk) << device.last_error();
  ASSERT_EQ(device.infer(), Code::kOk) << device.last_error();
  EXPECT_EQ(outputs(device)[1], 1) << "the hidden state of the frame before went back";
}

TEST_F(JetlinkDevice, is_told_of_a_host_that_went_and_finds_it_again) {
  auto opened = open(file_of(model));
  ASSERT_TRUE(opened) << opened.error().text;
  Device& device = *opened.value();
  stage(device);
  ASSERT_EQ(device.infer(), Code::kOk);
  ASSERT_EQ(device.infer(), Code::kOk);
  options.listen = parse_endpoint(server->endpoint()).value();
  stop();
  EXPECT_EQ(device.infer(), Code::kDevice);
  EXPECT_FALSE(device.connected());
  EXPECT_NE(std::string(device.last_error()).find("host"), std::string::npos)
      << device.last_error();
  device.upkeep();
  EXPECT_FALSE(device.connected());
  start();
  for (int i = 0; i < 200 && !device.connected(); ++i) {
    device.upkeep();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_TRUE(device.connected());
  stage(device);
  ASSERT_EQ(device.infer(), Code::kOk) << device.last_error();
  EXPECT_EQ(outputs(device)[0], 1) << "the first frame of a connection resets the history";
  EXPECT_EQ(device.counters().reconnects, 1);
}

TEST_F(JetlinkDevice, loses_the_link_when_a_frame_is_not_answered_in_time) {
  // A host that answers everything but frames.
  auto listener = listen_transport(parse_endpoint("tcp://127.0.0.1:0").value());
  const std::string endpoint = listener.value()->endpoint();
  std::thread silent([&] {
    auto peer = listener.value()->accept(steady_now_ns() + 5 * kSecond);
    if (!peer) return;
    Stream stream(std::move(peer.value()), 0);
    Message message;
    while (stream.read(message, steady_now_ns() + 3 * kSecond) == Got::kMessage) {
      std::string body;
      if (message.type() == Type::kHelloReq) body = to_json(HelloResp{});
      if (message.type() == Type::kEngineReq) {
        EngineResp resp;
        resp.state = EngineState::kReady;
        resp.spec = tiny_queued();
        body = to_json(resp);
      }
      if (body.empty()) continue;
      const Piece pieces[] = {std::as_bytes(std::span(body))};
      stream.send(message.type() == Type::kHelloReq ? Type::kHelloResp : Type::kEngineResp,
                  message.header.seq, pieces, kForever);
    }
  });
  config.model = tiny_queued().id.sha256;
  config.deadline_ns = 50'000'000;
  auto opened = Device::open(
      config,
      [endpoint](int64_t deadline_ns) {
        return connect_transport(parse_endpoint(endpoint).value(), deadline_ns);
      },
      clock);
  ASSERT_TRUE(opened) << opened.error().text;
  stage(*opened.value());
  test::OwnTime own;
  EXPECT_EQ(opened.value()->infer(), Code::kDevice);
  EXPECT_LT(own.ns(), kSecond / 2);
  EXPECT_NE(std::string(opened.value()->last_error()).find("deadline"), std::string::npos);
  EXPECT_EQ(opened.value()->counters().lost[static_cast<size_t>(Loss::kDeadline)], 1);
  silent.join();
}

// ---- frames as datagrams ------------------------------------------------------------------------

// A host played by hand over TCP, with a UDP socket that gets the frames it offered to take.
struct Cable {
  Cable() : model(3), udp(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    auto listener = listen_transport(parse_endpoint("tcp://127.0.0.1:0").value());
    auto there = connect_transport(parse_endpoint(listener.value()->endpoint()).value(),
                                   steady_now_ns() + 5 * kSecond);
    auto here = listener.value()->accept(steady_now_ns() + 5 * kSecond);
    client = std::make_unique<Client>(std::move(there.value()), ClientOptions{}, clock);
    host = std::make_unique<Stream>(std::move(here.value()), 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof at;
    EXPECT_EQ(::bind(udp.get(), reinterpret_cast<sockaddr*>(&at), n), 0);
    EXPECT_EQ(::getsockname(udp.get(), reinterpret_cast<sockaddr*>(&at), &n), 0);
    port = ntohs(at.sin_port);
    spec = tiny_queued();
    spec.id = model.id;
    sizes = sizes_of(spec).value();
    frame.resize(sizes.warped_bytes);
    for (size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<std::byte>(i * 7);
    packed.assign(sizes.packed(), 0.5f);
    assembler.begin(kToken);
  }
  void answer(Type type, uint32_t to, const std::string& body) {
    const Piece pieces[] = {std::as_bytes(std::span(body))};
    EXPECT_EQ(host->send(type, to, pieces, kForever), Io::kDone);
  }
  // The client says hello; the offer is in the answer, or not.
  void hello(bool offers) {
    HelloResp resp;
    if (offers) {
      resp.frame_port = port;
      resp.frame_token = kToken;
    }
    answer(Type::kHelloResp, ++seq, to_json(resp));
    const auto heard = client->hello(2 * kSecond);
    ASSERT_TRUE(heard) << heard.error().text;
    ASSERT_EQ(by_stream(2000).type(), Type::kHelloReq);
  }
  void ready() {
    EngineResp resp;
    resp.state = EngineState::kReady;
    resp.sha256 = model.id.sha256;
    resp.spec = spec;
    answer(Type::kEngineResp, ++seq, to_json(resp));
    const auto done = client->make_ready(model.id, "", {});
    ASSERT_TRUE(done) << done.error().text;
    ASSERT_EQ(by_stream(2000).type(), Type::kEngineReq);
  }
  uint32_t send(uint32_t id, bool may_be_lost) {
    return seq = client->begin({id, 0}, frame, packed, kForever, may_be_lost);
  }
  // Type 0: nothing came.
  Message by_stream(int64_t wait_ms) {
    Message message;
    if (host->read(message, steady_now_ns() + wait_ms * 1'000'000) != Got::kMessage) return {};
    return message;
  }
  // One message of the UDP socket: header and payload; empty: none came.
  std::vector<std::byte> by_datagram(int64_t wait_ms) {
    std::vector<std::byte> datagram(65536);
    for (;;) {
      pollfd ready = {udp.get(), POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(wait_ms)) <= 0) return {};
      const ssize_t n = ::recv(udp.get(), datagram.data(), datagram.size(), 0);
      if (n <= 0) return {};
      if (!assembler.take(std::span(datagram).first(static_cast<size_t>(n)))) continue;
      const auto message = assembler.message();
      return {message.begin(), message.end()};
    }
  }
  int64_t in_ms(int64_t ms) const { return clock.now_ns() + ms * 1'000'000; }

  static constexpr uint32_t kToken = 77;
  MonotonicClock clock;
  TestModel model;
  ModelSpec spec;
  Sizes sizes;
  std::unique_ptr<Client> client;
  std::unique_ptr<Stream> host;
  Fd udp;
  uint16_t port = 0;
  uint32_t seq = 0;
  Assembler assembler;
  std::vector<std::byte> frame;
  std::vector<float> packed;
};

TEST(JetlinkCable, I19_frames_that_may_be_lost_go_as_datagrams_and_carry_what_the_stream_would) {
  Cable c;
  ASSERT_NO_FATAL_FAILURE(c.hello(true));
  ASSERT_NO_FATAL_FAILURE(c.ready());
  ASSERT_TRUE(c.client->has_datagrams());
  ASSERT_NE(c.send(1, false), 0u);
  const Message first = c.by_stream(2000);
  ASSERT_EQ(first.type(), Type::kInferReq) << "it may not be lost";
  const std::vector<std::byte> body(first.payload.begin(), first.payload.end());
  c.answer(Type::kInferResp, c.seq, Pair::reply(1));
  ASSERT_EQ(c.client->end(c.seq, c.in_ms(2000), true), Client::Ended::kReply);

  ASSERT_NE(c.send(2, true), 0u);
  const auto message = c.by_datagram(2000);
  Header header;
  ASSERT_GE(message.size(), kHeaderBytes + body.size());
  ASSERT_EQ(decode_header(message, header), HeaderState::kGood);
  EXPECT_EQ(header.version, kVersion3);
  EXPECT_EQ(header.type, static_cast<uint16_t>(Type::kInferReq));
  EXPECT_EQ(header.seq, c.seq);
  ASSERT_EQ(header.length, body.size());
  EXPECT_EQ(std::memcmp(message.data() + kHeaderBytes + 4, body.data() + 4, body.size() - 4), 0)
      << "but for the number of the frame the same bytes";
  EXPECT_EQ(c.by_stream(50).header.type, 0) << "nothing else went by the stream";
  c.answer(Type::kInferResp, c.seq, Pair::reply(2));
  EXPECT_EQ(c.client->end(c.seq, c.in_ms(2000), true), Client::Ended::kReply);
  EXPECT_EQ(c.client->outputs()[0], 2);
}

TEST(JetlinkCable, I19_a_frame_that_is_lost_costs_that_frame) {
  Cable c;
  ASSERT_NO_FATAL_FAILURE(c.hello(true));
  ASSERT_NO_FATAL_FAILURE(c.ready());
  ASSERT_NE(c.send(1, true), 0u);
  ASSERT_FALSE(c.by_datagram(2000).empty());  // and nobody answers
  EXPECT_EQ(c.client->end(c.seq, c.in_ms(20), true), Client::Ended::kHeld);
  EXPECT_FALSE(c.client->dead());
  EXPECT_EQ(c.client->frames_lost(), 0u) << "it may be late";
  ASSERT_NE(c.send(2, true), 0u);
  ASSERT_FALSE(c.by_datagram(2000).empty());
  c.answer(Type::kInferResp, c.seq, Pair::reply(2));
  EXPECT_EQ(c.client->end(c.seq, c.in_ms(2000), true), Client::Ended::kReply);
  EXPECT_EQ(c.client->outputs()[0], 2);
  EXPECT_EQ(c.client->frames_lost(), 1u) << "a later one was answered";
  EXPECT_EQ(c.client->n_in_flight(), 0u);
  // The last frame before a pause: whoever answers a ping has answered what it got.
  ASSERT_NE(c.send(3, true), 0u);
  EXPECT_EQ(c.client->end(c.seq, c.in_ms(20), true), Client::Ended::kHeld);
  c.answer(Type::kPong, ++c.seq, "");
  EXPECT_TRUE(c.client->ping(2 * kSecond));
  EXPECT_EQ(c.client->frames_lost(), 2u);
  EXPECT_EQ(c.client->waiting_ns(), 0) << "nothing is waited for any more";
}

TEST(JetlinkCable, a_hello_without_an_offer_turns_datagrams_off) {
  Cable c;
  ASSERT_NO_FATAL_FAILURE(c.hello(true));
  ASSERT_NO_FATAL_FAILURE(c.hello(false));
  ASSERT_NO_FATAL_FAILURE(c.ready());
  EXPECT_FALSE(c.client->has_datagrams());
  ASSERT_NE(c.send(1, true), 0u);
  EXPECT_EQ(c.by_stream(2000).type(), Type::kInferReq);
}

TEST(JetlinkCable, a_port_where_nobody_listens_ends_the_link) {
  Cable c;
  ASSERT_NO_FATAL_FAILURE(c.hello(true));
  ASSERT_NO_FATAL_FAILURE(c.ready());
  c.udp = Fd();
  for (uint32_t i = 1; i < 8 && !c.client->dead(); ++i) {
    if (c.send(i, true) == 0) break;
    c.client->end(c.seq, c.in_ms(20), true);
  }
  EXPECT_TRUE(c.client->dead());
  EXPECT_EQ(c.client->loss(), Loss::kHost) << c.client->reason();
}

TEST_F(JetlinkDevice, sends_frames_as_datagrams_but_those_that_begin_a_history) {
  stop();
  options.datagrams_everywhere = true;
  start();
  for (const bool datagrams : {true, false}) {
    config.datagrams = datagrams;
    config.hold_ns = 2 * kSecond;
    auto opened = open(file_of(model));
    ASSERT_TRUE(opened) << opened.error().text;
    Device& device = *opened.value();
    stage(device, 5);
    for (int i = 1; i < 5; ++i) {
      ASSERT_EQ(device.infer(), Code::kOk) << device.last_error();
      EXPECT_EQ(outputs(device)[0], static_cast<float>(i));
      EXPECT_EQ(outputs(device)[2], 5);
    }
    EXPECT_EQ(device.counters().frames_by_datagram, datagrams ? 3 : 0);
    device.reset();
    ASSERT_EQ(device.infer(), Code::kOk);
    EXPECT_EQ(outputs(device)[0], 1);
    EXPECT_EQ(device.counters().frames_by_datagram, datagrams ? 3 : 0);
    EXPECT_EQ(device.counters().frames_lost, 0);
    EXPECT_EQ(device.counters().failed_frames, 0);
  }
}

TEST_F(JetlinkDevice, refuses_inputs_as_a_local_graph_does) {
  auto opened = open(file_of(model));
  ASSERT_TRUE(opened) << opened.error().text;
  Device& device = *opened.value();
  EXPECT_EQ(device.infer(), Code::kInvalid) << "nothing is staged";
  const float infinite[8] = {0, INFINITY};
  EXPECT_EQ(device.set_input(1, infinite, sizeof infinite), Code::kInvalid);
  EXPECT_EQ(device.set_input(1, infinite, 31), Code::kInvalid);
  EXPECT_EQ(device.set_input(1, nullptr, 32), Code::kInvalid);
  EXPECT_EQ(device.set_input(4, infinite, 32), Code::kInvalid);
  EXPECT_EQ(device.set_input(5, infinite, 32), Code::kInvalid);
  uint64_t written = 9;
  EXPECT_EQ(device.get_output(4, nullptr, 0, &written), Code::kNoMemory);
  EXPECT_EQ(written, 80u);
  float out[20];
  EXPECT_EQ(device.get_output(4, out, sizeof out, &written), Code::kNotReady);
  EXPECT_TRUE(device.connected()) << "none of it cost the link";
}

}  // namespace
}  // namespace outrider::link::jetlink
