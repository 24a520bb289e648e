// Lending over a real socket: one borrower at a time, and a lease that ends with its connection,
// however that ends.
#include "owner/borrow/lease.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "link/transport/tcp.h"
#include "owner/rig.h"
#include "support/own_time.h"

namespace outrider::owner::test {
namespace {

using link::Io;
using link::steady_now_ns;

int64_t soon(int64_t n_ns) {
  return steady_now_ns() + n_ns;
}

// A lender that serves from a thread.
class Served {
 public:
  explicit Served(Holder& holder)
      : lender_(holder, [this](const Borrower& asker) {
          Reply verdict = verdict_;
          last_asker = asker;
          return verdict;
        }) {
    verdict_.ok = true;
    path = system_.at("/owner.sock");
    auto opened = lender_.open(path, 0600);
    EXPECT_TRUE(opened) << opened.error().text;
    thread_ = std::thread([this] {
      while (!stop_) {
        {
          std::lock_guard lock(mutex);
          lender_.serve(steady_now_ns());
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  ~Served() {
    stop_ = true;
    thread_.join();
  }
  std::optional<Borrower> borrower() {
    std::lock_guard lock(mutex);
    return lender_.borrower();
  }
  // Waits until nobody, or somebody, holds it.
  bool becomes_lent(bool lent) {
    for (int i = 0; i < 3000 && borrower().has_value() != lent; ++i) ::usleep(1000);
    return borrower().has_value() == lent;
  }
  void verdict(bool ok, const char* detail, bool retry) {
    std::lock_guard lock(mutex);
    verdict_ = {};
    verdict_.ok = ok;
    verdict_.detail = detail;
    verdict_.retry = retry;
  }
  ServerFacts server() {
    std::lock_guard lock(mutex);
    return lender_.server();
  }
  std::string path;
  Borrower last_asker;
  std::mutex mutex;

 private:
  FakeSystem system_;
  Lender lender_;
  Reply verdict_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// A raw connection, for what no borrower of ours would say.
Fd dial(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return Fd();
  const timeval patience{5, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}

void say(const Fd& fd, const std::string& text) {
  (void)!::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

// One answer; "" when the owner hung up.
std::string hear(const Fd& fd) {
  std::string text;
  char c = 0;
  while (::recv(fd.get(), &c, 1, 0) == 1 && c != '\n') text += c;
  return text;
}

TEST(OwnerLease, a_borrower_gets_the_owners_descriptor_and_returns_it_by_closing) {
  FakeHolder holder;
  holder.is_open = true;
  Served owner(holder);
  {
    auto lease = Lease::borrow(owner.path, "model", soon(2 * kSec));
    ASSERT_TRUE(lease) << lease.error().text;
    EXPECT_EQ(lease.value().facts().medium, Medium::kTcp);
    EXPECT_TRUE(lease.value().alive());
    EXPECT_EQ(owner.borrower()->name, "model");
    EXPECT_EQ(owner.borrower()->pid, ::getpid());
    EXPECT_TRUE(lease.value().bounce());
    EXPECT_EQ(holder.n_bounces, 1);
    const ServerFacts facts{3, 120, "orin", "trt", "outrider 0.1.0"};
    EXPECT_TRUE(lease.value().tell_server(facts));
    EXPECT_EQ(owner.server(), facts);
  }
  EXPECT_TRUE(owner.becomes_lent(false));
  EXPECT_EQ(holder.n_taken_back, 1);
}

// Borrows in a process of its own, writes through what was lent, and is killed.
TEST(OwnerLease, a_borrower_killed_by_SIGKILL_returns_what_it_had) {
  FakeHolder holder;
  Served owner(holder);
  for (int round = 0; round < 3; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      const Fd socket = dial(owner.path);
      say(socket, "{\"op\":\"borrow\",\"name\":\"child\"}\n");
      std::string text;
      std::vector<Fd> taken;
      while (text.find('\n') == std::string::npos) {
        if (receive_some(socket.get(), text, taken, kMaxDescriptors) == 0) ::_exit(2);
        ::usleep(500);
      }
      if (taken.size() != 1 || ::write(taken[0].get(), "lent", 4) != 4) ::_exit(3);
      for (;;) ::pause();
    }
    ASSERT_TRUE(owner.becomes_lent(true));
    EXPECT_EQ(owner.borrower()->pid, child);
    char word[8] = {};
    ssize_t got = 0;
    for (int i = 0; i < 3000 && (got = ::read(holder.reading.get(), word, 8)) != 4; ++i)
      ::usleep(1000);
    EXPECT_EQ(std::string(word), "lent");
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    EXPECT_TRUE(owner.becomes_lent(false));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    auto next = Lease::borrow(owner.path, "next", soon(2 * kSec));
    ASSERT_TRUE(next) << next.error().text;
    next = make_error(Code::kFailed, "returned");
    EXPECT_TRUE(owner.becomes_lent(false));
  }
  EXPECT_EQ(holder.n_taken_back, 6);
}

TEST(OwnerLease, a_borrower_that_did_nothing_says_so_and_costs_nobody_the_bus) {
  FakeHolder holder;
  Served owner(holder);
  {
    auto lease = Lease::borrow(owner.path, "model", soon(2 * kSec));
    ASSERT_TRUE(lease);
    lease.value().return_unused(true, false, 7);
  }
  EXPECT_TRUE(owner.becomes_lent(false));
  EXPECT_EQ(holder.n_taken_back, 0);
  EXPECT_EQ(holder.n_unused, 1);
  EXPECT_TRUE(holder.seen.enabled);
  EXPECT_FALSE(holder.seen.opened);
  EXPECT_EQ(holder.seen.n_sessions, 7);
  // Said by somebody who has nothing it changes nothing.
  auto lease = Lease::borrow(owner.path, "model", soon(2 * kSec));
  ASSERT_TRUE(lease);
  const Fd stranger = dial(owner.path);
  say(stranger, "{\"op\":\"return\"}\n");
  EXPECT_EQ(hear(stranger).rfind("{\"ok\":false", 0), 0u);
  EXPECT_TRUE(owner.borrower().has_value());
}

TEST(OwnerLease, one_borrower_at_a_time_and_the_second_waits_for_its_turn) {
  FakeHolder holder;
  Served owner(holder);
  auto first = Lease::borrow(owner.path, "model", soon(2 * kSec));
  ASSERT_TRUE(first);
  outrider::test::OwnTime own;
  auto refused = Lease::borrow(owner.path, "other", soon(600 * kMs));
  EXPECT_EQ(refused.code(), Code::kNotReady);
  EXPECT_NE(std::string(refused.error().text).find("lent to model"), std::string::npos);
  EXPECT_LT(own.ns(), 2 * kSec);
  std::thread returning([&] {
    ::usleep(300'000);
    first = make_error(Code::kFailed, "returned");
  });
  auto second = Lease::borrow(owner.path, "other", soon(5 * kSec));
  returning.join();
  ASSERT_TRUE(second) << second.error().text;
  EXPECT_EQ(owner.borrower()->name, "other");
}

TEST(OwnerLease, a_refusal_for_good_is_told_at_once_and_one_for_now_is_asked_again) {
  FakeHolder holder;
  Served owner(holder);
  owner.verdict(false, "the link is off", false);
  outrider::test::OwnTime own;
  auto refused = Lease::borrow(owner.path, "model", soon(5 * kSec));
  EXPECT_EQ(refused.code(), Code::kDevice);
  EXPECT_STREQ(refused.error().text, "owner: the link is off");
  EXPECT_LT(own.ns(), kSec);
  owner.verdict(false, "not yet", true);
  std::thread later([&] {
    ::usleep(400'000);
    owner.verdict(true, "", false);
  });
  auto lease = Lease::borrow(owner.path, "model", soon(5 * kSec));
  later.join();
  EXPECT_TRUE(lease) << lease.error().text;
}

TEST(OwnerLease, no_owner_and_impossible_names_are_told_apart) {
  EXPECT_EQ(Lease::borrow("/nowhere/owner.sock", "m", soon(kSec)).code(), Code::kNotFound);
  EXPECT_EQ(Lease::borrow("", "m", soon(kSec)).code(), Code::kInvalid);
  EXPECT_EQ(Lease::borrow(std::string(108, 'x'), "m", soon(kSec)).code(), Code::kInvalid);
  for (const std::string& name : {std::string(), std::string(65, 'a'), std::string("a b"),
                                  std::string("a\n"), std::string("\xff")})
    EXPECT_EQ(Lease::borrow("/x", name, soon(kSec)).code(), Code::kInvalid) << name;
}

TEST(OwnerLease, hostile_askers_get_a_line_or_are_hung_up_on_and_the_borrower_feels_nothing) {
  FakeHolder holder;
  Served owner(holder);
  auto lease = Lease::borrow(owner.path, "model", soon(2 * kSec));
  ASSERT_TRUE(lease);
  for (const char* line :
       {"", "x", "[]", "{}", "{\"op\":7}", "{\"op\":\"reboot\"}", "{\"op\":\"borrow\"}",
        "{\"op\":\"borrow\",\"name\":\"a b\"}", "{\"op\":\"bounce\"}", "{\"op\":\"server\"}",
        "{\"op\":\"borrow\",\"name\":\"a\",\"name\":\"b\"}"}) {
    const Fd fd = dial(owner.path);
    say(fd, std::string(line) + "\n");
    EXPECT_EQ(hear(fd).rfind("{\"ok\":false", 0), 0u) << line;
  }
  {  // a line without end
    const Fd fd = dial(owner.path);
    say(fd, std::string(kMaxLineBytes + 2, 'a'));
    EXPECT_EQ(hear(fd), "");
  }
  {  // exactly the longest line is read, and refused for what it says
    const Fd fd = dial(owner.path);
    say(fd, std::string(kMaxLineBytes, 'a') + "\n");
    EXPECT_EQ(hear(fd).rfind("{\"ok\":false", 0), 0u);
  }
  {  // byte by byte, with a pause
    const Fd fd = dial(owner.path);
    for (const char c : std::string("{\"op\":\"bounce\"}\n")) {
      say(fd, std::string(1, c));
      ::usleep(1000);
    }
    EXPECT_EQ(hear(fd).rfind("{\"ok\":false", 0), 0u);
  }
  {  // descriptors that nobody asked for do not stay
    const Fd fd = dial(owner.path);
    const auto n_open = [] {
      return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                           std::filesystem::directory_iterator());
    };
    const int zero = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
    say(fd, "{\"op\":\"bounce\"}\n");
    // The owner's end is open once it has answered; those of former askers may close yet.
    EXPECT_NE(hear(fd), "");
    const auto before = n_open();
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(send_line(fd.get(), "{\"op\":\"bounce\"}\n", std::span(&zero, 1)), 0);
    for (int i = 0; i < 20; ++i) EXPECT_NE(hear(fd), "");
    EXPECT_LE(n_open(), before);
    ::close(zero);
  }
  {  // more askers than there is room for: the rest are hung up on
    std::vector<Fd> many;
    for (size_t i = 0; i < 3 * kMaxAskers; ++i) many.push_back(dial(owner.path));
    EXPECT_EQ(hear(many.back()), "");
  }
  ::usleep(20'000);
  const Fd again = dial(owner.path);  // and room is there again once they left
  say(again, "{\"op\":\"bounce\"}\n");
  EXPECT_NE(hear(again), "");
  EXPECT_TRUE(lease.value().alive());
  EXPECT_TRUE(lease.value().bounce());
  EXPECT_EQ(holder.n_taken_back, 0);
  EXPECT_EQ(holder.n_bounces, 1);
}

TEST(OwnerLease, a_peer_that_asks_and_never_reads_is_hung_up_on) {
  FakeHolder holder;
  Served owner(holder);
  owner.verdict(false, std::string(200, 'x').c_str(), true);
  const Fd fd = dial(owner.path);
  const std::string ask = "{\"op\":\"borrow\",\"name\":\"deaf\"}\n";
  bool hung_up = false;
  for (int i = 0; i < 20'000 && !hung_up; ++i)
    hung_up = ::send(fd.get(), ask.data(), ask.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
              errno != EAGAIN;
  for (int i = 0; i < 3000 && !hung_up; ++i) {
    ::usleep(1000);
    hung_up = ::send(fd.get(), "", 0, MSG_NOSIGNAL) < 0 ||
              ::send(fd.get(), "\n", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0;
  }
  EXPECT_TRUE(hung_up);
}

TEST(OwnerLease, who_has_nothing_and_asks_for_nothing_is_hung_up_on_who_has_it_never) {
  FakeSystem system;
  FakeHolder holder;
  Reply yes;
  yes.ok = true;
  Lender lender(holder, [&](const Borrower&) { return yes; });
  ASSERT_TRUE(lender.open(system.at("/owner.sock"), 0600));
  const Fd idle = dial(system.at("/owner.sock")), having = dial(system.at("/owner.sock"));
  say(having, "{\"op\":\"borrow\",\"name\":\"model\"}\n");
  lender.serve(0);
  lender.serve(kIdleAskerNs);
  char byte = 0;
  EXPECT_LT(::recv(idle.get(), &byte, 1, MSG_DONTWAIT), 0);  // still open
  lender.serve(kIdleAskerNs + 1);
  EXPECT_EQ(::recv(idle.get(), &byte, 1, 0), 0);
  lender.serve(3600 * kSec);
  EXPECT_TRUE(lender.borrower().has_value());
}

TEST(OwnerLease, a_socket_of_a_dead_owner_is_replaced_and_nothing_else_is) {
  FakeSystem system;
  FakeHolder holder;
  const auto policy = [](const Borrower&) { return Reply(); };
  const std::string path = system.at("/owner.sock");
  {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    const Fd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  Lender first(holder, policy);
  ASSERT_TRUE(first.open(path, 0600));
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  Lender second(holder, policy);
  EXPECT_EQ(second.open(path, 0600).code(), Code::kDevice);
  EXPECT_TRUE(dial(path));
  system.put("/file.sock", "precious");
  EXPECT_FALSE(second.open(system.at("/file.sock"), 0600));
  EXPECT_EQ(system.get("/file.sock"), "precious");
  EXPECT_FALSE(second.open(system.at("/") + std::string(120, 'x'), 0600));
  EXPECT_FALSE(second.open(system.at("/none/owner.sock"), 0600));
}

// A lent listening socket: the far end dials the owner's port, the borrower talks to it.
TEST(OwnerLease, a_lent_listener_gives_a_stream_and_the_newest_dial_is_taken) {
  TcpHolder holder(link::parse_endpoint("tcp://127.0.0.1:0").value());
  ASSERT_TRUE(holder.open());
  Served owner(holder);
  const auto endpoint = link::parse_endpoint(holder.endpoint()).value();
  EXPECT_FALSE(holder.presence().here);
  for (int round = 0; round < 2; ++round) {
    auto old = link::connect_tcp(endpoint, soon(kSec));
    auto far_end = link::connect_tcp(endpoint, soon(kSec));
    ASSERT_TRUE(old);
    ASSERT_TRUE(far_end);
    if (round > 0) {  // held by the owner, else still in the kernel's queue
      std::lock_guard lock(owner.mutex);
      holder.step(0, false);
      EXPECT_TRUE(holder.presence().here);
    }
    auto lease = Lease::borrow(owner.path, "model", soon(2 * kSec));
    ASSERT_TRUE(lease) << lease.error().text;
    auto stream = Lease::connect(std::move(lease.value()), soon(2 * kSec));
    ASSERT_TRUE(stream) << stream.error().text;
    EXPECT_EQ(stream.value()->facts().kind, link::TransportKind::kTcp);
    const std::byte word[3] = {std::byte{1}, std::byte{2}, std::byte{3}};
    const link::Piece piece(word);
    EXPECT_EQ(far_end.value()->send(std::span(&piece, 1), soon(kSec)).io, Io::kDone);
    std::byte got[8];
    const auto moved = stream.value()->receive(got, soon(2 * kSec));
    EXPECT_EQ(moved.bytes, 3u);
    EXPECT_EQ(got[2], std::byte{3});
    EXPECT_TRUE(owner.borrower().has_value());
    {
      std::lock_guard lock(owner.mutex);
      holder.step(0, true);
    }
    stream = make_error(Code::kFailed, "ended");
    EXPECT_TRUE(owner.becomes_lent(false));
    EXPECT_EQ(far_end.value()->receive(got, soon(2 * kSec)).bytes, 0u);
  }
  auto nobody = Lease::borrow(owner.path, "model", soon(2 * kSec));
  ASSERT_TRUE(nobody);
  EXPECT_EQ(Lease::connect(std::move(nobody.value()), soon(100 * kMs)).code(), Code::kNotReady);
  EXPECT_TRUE(owner.becomes_lent(false));
}

TEST(OwnerTcpHolder, R43_a_far_end_that_left_is_not_there_any_more) {
  TcpHolder holder(link::parse_endpoint("tcp://127.0.0.1:0").value());
  ASSERT_TRUE(holder.open());
  const auto endpoint = link::parse_endpoint(holder.endpoint()).value();
  const auto becomes = [&](bool here) {
    for (int i = 0; i < 2000; ++i, ::usleep(1000)) {
      holder.step(0, false);
      if (holder.presence().here == here) return true;
    }
    return false;
  };
  EXPECT_TRUE(becomes(false));
  auto first = link::connect_tcp(endpoint, soon(kSec));
  ASSERT_TRUE(first);
  EXPECT_TRUE(becomes(true));
  EXPECT_EQ(holder.lend().value().n_descriptors, 2u);
  // A newer dial takes the place of the older one, which is told.
  auto second = link::connect_tcp(endpoint, soon(kSec));
  ASSERT_TRUE(second);
  ::usleep(20'000);
  EXPECT_TRUE(becomes(true));
  std::byte byte;
  EXPECT_NE(first.value()->receive(std::span(&byte, 1), soon(2 * kSec)).io, Io::kLate);
  EXPECT_EQ(second.value()->receive(std::span(&byte, 1), 0).io, Io::kLate);
  // It leaves: gone, and the owner's socket still listens.
  second = make_error(Code::kFailed, "left");
  EXPECT_TRUE(becomes(false));
  EXPECT_EQ(holder.lend().value().n_descriptors, 1u);
  auto third = link::connect_tcp(endpoint, soon(kSec));
  EXPECT_TRUE(becomes(true));
  holder.close();
  EXPECT_FALSE(holder.presence().here);
  EXPECT_EQ(third.value()->receive(std::span(&byte, 1), soon(2 * kSec)).bytes, 0u);
}

// Endpoint "usb:" of every program on the device.
TEST(OwnerLease, endpoint_usb_is_what_the_owner_lends_where_there_is_one) {
  TcpHolder holder(link::parse_endpoint("tcp://127.0.0.1:0").value());
  ASSERT_TRUE(holder.open());
  Served owner(holder);
  register_owned_usb(owner.path);
  auto far_end = link::connect_tcp(link::parse_endpoint(holder.endpoint()).value(), soon(kSec));
  ASSERT_TRUE(far_end);
  auto stream = link::connect_transport(link::parse_endpoint("usb:").value(), soon(2 * kSec));
  ASSERT_TRUE(stream) << stream.error().text;
  EXPECT_EQ(owner.borrower()->name, "link");
  stream = make_error(Code::kFailed, "ended");
  EXPECT_TRUE(owner.becomes_lent(false));
  // Without an owner the process makes a gadget itself, and says why it cannot.
  register_owned_usb("/nowhere/owner.sock");
  auto own = link::connect_transport(link::parse_endpoint("usb:TEST").value(), soon(100 * kMs));
  ASSERT_FALSE(own);
  EXPECT_NE(std::string(own.error().text).find("usb"), std::string::npos);
}

}  // namespace
}  // namespace outrider::owner::test
