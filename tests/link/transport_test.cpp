// Streams as the system makes them: TCP over the loopback interface, and the in-process loopback.
#include "link/transport/transport.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <fstream>
#include <thread>

#include "link/transport/loopback.h"
#include "link/transport/tcp.h"
#include "support/own_time.h"

namespace outrider::link {
namespace {

constexpr int64_t kMs = 1'000'000, kSecond = 1000 * kMs;

std::vector<std::byte> pattern(size_t n, uint32_t seed = 1) {
  std::vector<std::byte> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = std::byte((i * 2654435761u + seed) >> 13);
  return out;
}

struct Ends {
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Transport> a, b;
};

Ends connect_ends(const char* listen_at) {
  Ends ends;
  auto listener = listen_transport(parse_endpoint(listen_at).value());
  EXPECT_TRUE(listener) << listener.error().text;
  ends.listener = std::move(listener.value());
  const auto there = parse_endpoint(ends.listener->endpoint());
  EXPECT_TRUE(there) << there.error().text;
  auto a = connect_transport(there.value(), steady_now_ns() + kSecond);
  EXPECT_TRUE(a) << a.error().text;
  auto b = ends.listener->accept(steady_now_ns() + kSecond);
  EXPECT_TRUE(b) << b.error().text;
  ends.a = std::move(a.value());
  ends.b = std::move(b.value());
  return ends;
}

size_t receive_all(Transport& from, std::span<std::byte> into) {
  size_t n = 0;
  while (n < into.size()) {
    const Moved m = from.receive(into.subspan(n), steady_now_ns() + 5 * kSecond);
    n += m.bytes;
    if (m.io != Io::kDone) break;
  }
  return n;
}

size_t n_descriptors() {
  size_t n = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++n;
  closedir(dir);
  return n;
}

class TransportKinds : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, TransportKinds,
                         ::testing::Values("tcp://127.0.0.1:0", "tcp://[::1]:0", "loopback:t1"));

TEST_P(TransportKinds, carries_many_pieces_as_one_stream) {
  Ends ends = connect_ends(GetParam());
  // More pieces than one system call takes, empty ones among them.
  const auto whole = pattern(300'000);
  std::vector<Piece> pieces;
  for (size_t at = 0; at < whole.size(); at += 100) {
    pieces.push_back(std::span(whole).subspan(at, 100));
    if (at % 700 == 0) pieces.emplace_back();
  }
  std::thread sender([&] {
    const Moved m = ends.a->send(pieces, steady_now_ns() + 5 * kSecond);
    EXPECT_EQ(m.io, Io::kDone);
    EXPECT_EQ(m.bytes, whole.size());
  });
  std::vector<std::byte> got(whole.size());
  EXPECT_EQ(receive_all(*ends.b, got), whole.size());
  sender.join();
  EXPECT_TRUE(got == whole);
}

// FC-39: a stream has no packets; every size goes through whole and in order, both ways.
TEST_P(TransportKinds, FC39_exact_multiples_of_a_packet_need_no_care) {
  Ends ends = connect_ends(GetParam());
  for (size_t n : {1, 511, 512, 513, 1023, 1024, 1025, 16384, 1 << 20, (1 << 20) + 1}) {
    for (bool forth : {true, false}) {
      Transport &from = forth ? *ends.a : *ends.b, &to = forth ? *ends.b : *ends.a;
      const auto sent = pattern(n, static_cast<uint32_t>(n));
      const Piece piece = sent;
      std::thread sender([&] { from.send({&piece, 1}, steady_now_ns() + 5 * kSecond); });
      std::vector<std::byte> got(n);
      EXPECT_EQ(receive_all(to, got), n);
      sender.join();
      EXPECT_TRUE(got == sent) << n;
    }
  }
}

TEST_P(TransportKinds, a_deadline_is_kept_and_loses_nothing) {
  Ends ends = connect_ends(GetParam());
  std::byte one[1];
  test::OwnTime own;
  const int64_t begin = steady_now_ns();
  EXPECT_EQ(ends.b->receive(one, begin + 20 * kMs).io, Io::kLate);
  const int64_t took = steady_now_ns() - begin;
  EXPECT_GE(took, 19 * kMs);
  EXPECT_LT(own.ns(), 500 * kMs);
  EXPECT_EQ(ends.b->receive(one, 0).io, Io::kLate);  // one attempt that does not wait
  const auto sent = pattern(3);
  const Piece piece = sent;
  ends.a->send({&piece, 1}, 0);
  std::byte got[8];
  const Moved m = ends.b->receive(got, steady_now_ns() + kSecond);
  EXPECT_EQ(m.io, Io::kDone);
  EXPECT_EQ(m.bytes, 3u);
}

TEST_P(TransportKinds, a_reader_that_never_reads_makes_the_sender_late_and_the_count_is_true) {
  Ends ends = connect_ends(GetParam());
  const auto sent = pattern(64 << 20);
  const Piece piece = sent;
  const Moved m = ends.a->send({&piece, 1}, steady_now_ns() + 50 * kMs);
  EXPECT_EQ(m.io, Io::kLate);
  EXPECT_GT(m.bytes, 0u);
  EXPECT_LT(m.bytes, sent.size());
  std::vector<std::byte> got(m.bytes);
  EXPECT_EQ(receive_all(*ends.b, got), m.bytes);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), sent.begin()));
  std::byte one[1];
  EXPECT_EQ(ends.b->receive(one, steady_now_ns() + 20 * kMs).io, Io::kLate) << "not a byte more";
}

TEST_P(TransportKinds, shut_wakes_who_waits_and_the_peer_reads_the_rest) {
  Ends ends = connect_ends(GetParam());
  std::thread waiting([&] {
    std::byte one[1];
    EXPECT_EQ(ends.a->receive(one, kForever).io, Io::kShut);
  });
  const auto sent = pattern(5);
  const Piece piece = sent;
  EXPECT_EQ(ends.a->send({&piece, 1}, steady_now_ns() + kSecond).io, Io::kDone);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ends.a->shut();
  ends.a->shut();
  waiting.join();
  EXPECT_EQ(ends.a->send({&piece, 1}, steady_now_ns() + kSecond).io, Io::kShut);
  std::byte got[5];
  EXPECT_EQ(receive_all(*ends.b, got), 5u);
  EXPECT_EQ(ends.b->receive(got, steady_now_ns() + kSecond).io, Io::kClosed);
}

TEST_P(TransportKinds, a_peer_that_left_is_an_end_and_not_a_signal) {
  Ends ends = connect_ends(GetParam());
  ends.b.reset();
  const auto sent = pattern(1000);
  const Piece piece = sent;
  Io io = Io::kDone;
  for (int i = 0; i < 100 && io == Io::kDone; ++i) {
    io = ends.a->send({&piece, 1}, steady_now_ns() + kSecond).io;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(io, Io::kReset);
}

TEST_P(TransportKinds, leaves_no_descriptor_behind) {
  { Ends warm = connect_ends(GetParam()); }
  const size_t before = n_descriptors();
  for (int i = 0; i < 20; ++i) Ends ends = connect_ends(GetParam());
  EXPECT_EQ(n_descriptors(), before);
}

// ---- what the system was told
// --------------------------------------------------------------------

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t n = sizeof value;
  return ::getsockopt(fd, level, name, &value, &n) == 0 ? value : -1;
}

// The descriptor of this process whose peer is `port` on this machine.
int fd_to(uint16_t port) {
  for (int fd = 3; fd < 256; ++fd) {
    sockaddr_in peer{};
    socklen_t n = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &n) == 0 &&
        peer.sin_family == AF_INET && ntohs(peer.sin_port) == port)
      return fd;
  }
  return -1;
}

TEST(Tcp, both_ends_have_their_options_and_their_urgency) {
  auto listener = listen_transport(parse_endpoint("tcp://127.0.0.1:0").value());
  ASSERT_TRUE(listener);
  const Endpoint endpoint = parse_endpoint(listener.value()->endpoint()).value();
  auto device = connect_transport(endpoint, steady_now_ns() + kSecond);
  auto host = listener.value()->accept(steady_now_ns() + kSecond);
  ASSERT_TRUE(device && host);
  int most = 0;
  std::ifstream("/proc/sys/net/core/wmem_max") >> most;
  const int device_fd = fd_to(endpoint.port);
  ASSERT_GE(device_fd, 0);
  sockaddr_in here{};
  socklen_t n = sizeof here;
  ASSERT_EQ(::getsockname(device_fd, reinterpret_cast<sockaddr*>(&here), &n), 0);
  const int host_fd = fd_to(ntohs(here.sin_port));
  ASSERT_GE(host_fd, 0);
  for (const auto& [fd, stream] :
       {std::pair(device_fd, device.value().get()), std::pair(host_fd, host.value().get())}) {
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), kTcpKeepIdleS);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), kTcpKeepIntervalS);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_KEEPCNT), kTcpKeepProbes);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), kTcpUserTimeoutMs);
    // The system doubles what it is asked for, for its own use.
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_SNDBUF), 2 * std::min(kTcpSendBufferBytes, most));
    EXPECT_NE(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    constexpr int kLowDelay = 0x10, kThroughput = 0x08;
    stream->set_urgency(Urgency::kBulk);
    EXPECT_EQ(option(fd, IPPROTO_IP, IP_TOS), kThroughput);
    const int bulk = option(fd, SOL_SOCKET, SO_PRIORITY);
    stream->set_urgency(Urgency::kUrgent);
    EXPECT_EQ(option(fd, IPPROTO_IP, IP_TOS), kLowDelay);
    EXPECT_GT(option(fd, SOL_SOCKET, SO_PRIORITY), bulk);
  }
}

TEST_P(TransportKinds, what_was_sent_and_not_taken_is_known) {
  const Ends ends = connect_ends(GetParam());
  EXPECT_EQ(ends.a->unsent_bytes(), 0u);
  const auto bytes = pattern(16 << 20);  // beyond what the reader's system takes by itself
  const Piece piece = bytes;
  const Moved sent = ends.a->send({&piece, 1}, steady_now_ns() + 100 * kMs);
  EXPECT_GT(ends.a->unsent_bytes(), 0u);
  std::vector<std::byte> into(sent.bytes);
  ASSERT_EQ(receive_all(*ends.b, into), sent.bytes);
  for (int i = 0; i < 200 && ends.a->unsent_bytes() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(ends.a->unsent_bytes(), 0u);
}

// A hall of devices that come back at once, while the thread that accepts them has no processor.
TEST_P(TransportKinds, connections_that_come_at_once_wait_their_turn) {
  auto listener = listen_transport(parse_endpoint(GetParam()).value());
  ASSERT_TRUE(listener) << listener.error().text;
  const Endpoint there = parse_endpoint(listener.value()->endpoint()).value();
  std::vector<std::unique_ptr<Transport>> devices;
  for (int i = 0; i < 100; ++i) {
    auto device = connect_transport(there, steady_now_ns() + 500 * kMs);
    ASSERT_TRUE(device) << i << ": " << device.error().text;
    devices.push_back(std::move(device.value()));
  }
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(listener.value()->accept(steady_now_ns() + 500 * kMs)) << i;
}

TEST(Listener, ends_a_wait_by_deadline_and_by_shut) {
  auto listener = listen_transport(parse_endpoint("tcp://127.0.0.1:0").value());
  ASSERT_TRUE(listener);
  EXPECT_EQ(listener.value()->accept(steady_now_ns() + 10 * kMs).code(), Code::kNotReady);
  std::thread waiting(
      [&] { EXPECT_EQ(listener.value()->accept(kForever).code(), Code::kInvalid); });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  listener.value()->shut();
  waiting.join();
}

TEST(Listener, says_when_the_address_is_taken_and_when_it_is_open_to_others) {
  auto first = listen_transport(parse_endpoint("tcp://127.0.0.1:0").value());
  ASSERT_TRUE(first);
  EXPECT_TRUE(first.value()->local_only());
  auto second = listen_transport(parse_endpoint(first.value()->endpoint()).value());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.code(), Code::kInvalid);
  EXPECT_NE(second.error().message().find("in use"), std::string_view::npos);
  auto open = listen_transport(parse_endpoint("tcp://0.0.0.0:0").value());
  ASSERT_TRUE(open);
  EXPECT_FALSE(open.value()->local_only());
}

TEST(Connect, tells_nobody_there_from_no_answer) {
  // A port that was free a moment ago.
  std::string free_port;
  {
    auto listener = listen_transport(parse_endpoint("tcp://127.0.0.1:0").value());
    free_port = listener.value()->endpoint();
  }
  auto refused = connect_transport(parse_endpoint(free_port).value(), steady_now_ns() + kSecond);
  EXPECT_EQ(refused.code(), Code::kNotFound);
  EXPECT_NE(refused.error().message().find(free_port), std::string_view::npos);
  auto none = connect_transport(parse_endpoint("loopback:nobody").value(), 0);
  EXPECT_EQ(none.code(), Code::kNotFound);
  auto usb = connect_transport(parse_endpoint("usb:").value(), 0);
  EXPECT_NE(usb.code(), Code::kOk);
  // A listener whose queue is full answers nothing.
  auto listener = listen_transport(parse_endpoint("tcp://127.0.0.1:0").value());
  std::vector<std::unique_ptr<Transport>> queued;
  Code last = Code::kOk;
  for (int i = 0; i < 400 && last == Code::kOk; ++i) {
    auto t = connect_transport(parse_endpoint(listener.value()->endpoint()).value(),
                               steady_now_ns() + 100 * kMs);
    last = t.code();
    if (t) queued.push_back(std::move(t.value()));
  }
  EXPECT_EQ(last, Code::kNotReady);
}

TEST(Endpoints, are_read_and_written_back) {
  for (const char* text : {"tcp://127.0.0.1:5610", "tcp://[::1]:1", "tcp://host-a.example:65535",
                           "tcp://0.0.0.0:0", "usb:0123ABCD", "usb:", "loopback:bench_1.x"}) {
    auto endpoint = parse_endpoint(text);
    ASSERT_TRUE(endpoint) << text << endpoint.error().text;
    EXPECT_EQ(endpoint.value().text(), text);
  }
}

TEST(Endpoints, are_refused_with_the_three_forms) {
  for (const char* text :
       {"", "127.0.0.1:5610", "tcp://", "tcp://:1", "tcp://h", "tcp://h:", "tcp://h:65536",
        "tcp://h:1x", "tcp://h:-1", "tcp://a b:1", "tcp://[h]:1", "tcp://::1:5", "http://h:1",
        "loopback:", "loopback:a/b", "usb:a\nb", "TCP://h:1"}) {
    auto endpoint = parse_endpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.code(), Code::kInvalid);
    EXPECT_NE(endpoint.error().message().find("tcp://HOST:PORT"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace outrider::link
