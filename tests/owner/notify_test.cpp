// What a service manager hears.
#include "owner/notify.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "owner/rig.h"

namespace outrider::owner::test {
namespace {

TEST(OwnerNotify, a_manager_at_a_path_hears_every_word) {
  FakeSystem system;
  const std::string path = system.at("/notify.sock");
  const link::Fd manager(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  ASSERT_EQ(::bind(manager.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const Notify notify(path, 10'000'000, 0, 42);
  EXPECT_EQ(notify.beat_ns(), 5 * kSec);
  EXPECT_TRUE(notify.say("READY=1"));
  char heard[64] = {};
  EXPECT_EQ(::recv(manager.get(), heard, sizeof heard, 0), 7);
  EXPECT_STREQ(heard, "READY=1");
}

TEST(OwnerNotify, an_abstract_name_is_understood) {
  const std::string name = "outrider-notify-" + std::to_string(::getpid());
  const link::Fd manager(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  ASSERT_EQ(::bind(manager.get(), reinterpret_cast<sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  const Notify notify("@" + name, 0, 0, 42);
  EXPECT_TRUE(notify.say("WATCHDOG=1"));
  char heard[64] = {};
  EXPECT_EQ(::recv(manager.get(), heard, sizeof heard, 0), 10);
}

TEST(OwnerNotify, without_a_manager_nothing_is_said_and_nothing_fails) {
  EXPECT_FALSE(Notify("", 10'000'000, 0, 42).say("READY=1"));
  EXPECT_EQ(Notify("", 10'000'000, 0, 42).beat_ns(), 0);
  EXPECT_FALSE(Notify("/nowhere/x", 0, 0, 42).say("READY=1"));
  EXPECT_FALSE(Notify("relative", 0, 0, 42).say("READY=1"));
  EXPECT_FALSE(Notify("/" + std::string(200, 'x'), 0, 0, 42).say("READY=1"));
  EXPECT_EQ(Notify("/x", 10'000'000, 41, 42).beat_ns(), 0);  // watches somebody else
  EXPECT_EQ(Notify("/x", 10'000'000, 42, 42).beat_ns(), 5 * kSec);
  EXPECT_EQ(Notify("/x", INT64_MAX, 0, 42).beat_ns(), 0);
}

}  // namespace
}  // namespace outrider::owner::test
