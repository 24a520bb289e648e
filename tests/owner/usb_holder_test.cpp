// The gadget as the owner holds it, over a scripted configfs and a scripted port.
#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "link/transport/usb/limits.h"
#include "owner/rig.h"

namespace outrider::owner::test {
namespace {

using namespace link::usb;

class FakeSetup final : public SetupSystem {
 public:
  int make_dir(const std::string& path) override { return dirs.insert(path), 0; }
  int remove_dir(const std::string& path) override { return dirs.erase(path) ? 0 : -ENOENT; }
  int write(const std::string& path, std::string_view text) override {
    files[path] = text;
    return 0;
  }
  int read(const std::string& path, std::string& text) override {
    text.clear();
    if (files.count(path) == 0) return -ENOENT;
    text = files[path];
    return 0;
  }
  int make_link(const std::string&, const std::string&) override { return 0; }
  int remove_link(const std::string&) override { return 0; }
  int mount_functionfs(const std::string&, const std::string&, const std::string&) override {
    return mounted = true, 0;
  }
  int unmount(const std::string&) override { return mounted = false, 0; }
  std::vector<std::string> list(const std::string& path) override {
    if (path == "/c") return {"usb_gadget"};
    if (path == "/u") return {"udc0"};
    if (path == "/c/usb_gadget" && !holder.empty()) return {"g1"};
    return {};
  }
  std::set<std::string> dirs;
  std::map<std::string, std::string> files;
  std::string holder;
  bool mounted = false;
};

struct PortState {
  std::vector<std::string> steps;
  std::deque<HostEvent> events;
  int bind_error = 0;
  bool alive = false;
  LentGadget lent;
};

class FakePort final : public LendablePort {
 public:
  explicit FakePort(PortState& state) : s_(state) { s_.alive = true; }
  ~FakePort() override { s_.alive = false; }
  LentGadget lend() const noexcept override { return s_.lent; }
  void take_back(bool enabled, bool opened, uint32_t n_sessions) noexcept override {
    s_.lent.enabled = enabled;
    s_.lent.opened = opened;
    s_.lent.n_sessions = n_sessions;
  }
  bool configured() noexcept override { return false; }
  HostEvent next_event(int64_t) noexcept override {
    if (s_.events.empty()) return HostEvent::kNone;
    const HostEvent event = s_.events.front();
    s_.events.pop_front();
    s_.steps.push_back(host_event_name(event));
    return event;
  }
  int open_endpoints() noexcept override { return ADD_FAILURE() << "endpoints", -EIO; }
  void close_endpoints() noexcept override {}
  long read(std::span<std::byte>) noexcept override { return -EIO; }
  long submit(std::span<const link::Piece>, size_t, size_t) noexcept override { return -EIO; }
  long reap(int64_t) noexcept override { return 0; }
  uint32_t n_unfinished() const noexcept override { return 0; }
  void wake_events() noexcept override {}
  void wake_writes() noexcept override {}
  void calm_writes() noexcept override {}
  int unbind() noexcept override { return s_.steps.push_back("unbind"), 0; }
  int bind() noexcept override { return s_.steps.push_back("bind"), s_.bind_error; }

 private:
  PortState& s_;
};

struct Gadgets {
  Gadgets() {
    settings.configfs = "/c";
    settings.controllers = "/u";
    settings.mount = "/m";
    port.lent.ep0 = 0;
    port.lent.udc = 1;
    holder = std::make_unique<UsbHolder>(setup, settings, "S1", [this](const GadgetPlace&) {
      if (refuse) return Result<std::unique_ptr<LendablePort>>(make_error(Code::kDevice, "busy"));
      return Result<std::unique_ptr<LendablePort>>(std::make_unique<FakePort>(port));
    });
  }
  void host(const char* state) { setup.files["/u/udc0/state"] = state; }
  FakeSetup setup;
  GadgetSettings settings;
  PortState port;
  bool refuse = false;
  std::unique_ptr<UsbHolder> holder;
};

using Steps = std::vector<std::string>;

TEST(OwnerUsbHolder, is_bound_once_and_lent_without_leaving_the_bus) {
  Gadgets g;
  ASSERT_TRUE(g.holder->open());
  EXPECT_EQ(g.holder->lend().code(), Code::kNotReady);  // not on the bus yet
  g.holder->step(kSec, false);
  EXPECT_EQ(g.port.steps, Steps{"bind"});
  g.port.lent.enabled = g.port.lent.opened = true;
  g.port.lent.n_sessions = 3;
  auto loan = g.holder->lend();
  ASSERT_TRUE(loan) << loan.error().text;
  EXPECT_EQ(loan.value().n_descriptors, 2u);
  EXPECT_EQ(loan.value().descriptors[1], 1);
  EXPECT_EQ(loan.value().reply.serial, "S1");
  EXPECT_EQ(loan.value().reply.controller, "udc0");
  EXPECT_TRUE(loan.value().reply.opened);
  EXPECT_EQ(loan.value().reply.n_sessions, 3);
  // While it is lent its events are the borrower's.
  g.port.events = {HostEvent::kEnabled};
  for (int i = 0; i < 5; ++i) g.holder->step(2 * kSec + i, true);
  EXPECT_EQ(g.port.steps, Steps{"bind"});
}

TEST(OwnerUsbHolder, a_returned_gadget_leaves_the_bus_for_half_a_second) {
  Gadgets g;
  ASSERT_TRUE(g.holder->open());
  g.holder->step(kSec, false);
  g.holder->take_back(2 * kSec);
  g.holder->step(2 * kSec + kOffBusNs - 1, false);
  EXPECT_EQ(g.holder->lend().code(), Code::kNotReady);
  const Steps off = {"bind", "unbind"};
  EXPECT_EQ(g.port.steps, off);
  g.holder->step(2 * kSec + kOffBusNs, false);
  const Steps on = {"bind", "unbind", "bind"};
  EXPECT_EQ(g.port.steps, on);
  EXPECT_TRUE(g.holder->lend());
  ASSERT_TRUE(g.holder->bounce(9 * kSec));
  EXPECT_EQ(g.port.steps.back(), "unbind");
}

TEST(OwnerUsbHolder, a_gadget_that_was_not_used_stays_on_the_bus_with_what_the_host_did) {
  Gadgets g;
  ASSERT_TRUE(g.holder->open());
  g.holder->step(kSec, false);
  Request seen;
  seen.op = Op::kReturn;
  seen.enabled = seen.opened = true;
  seen.n_sessions = 9;
  g.holder->returned_unused(seen);
  EXPECT_EQ(g.port.steps, Steps{"bind"});
  const auto loan = g.holder->lend();
  ASSERT_TRUE(loan);
  EXPECT_TRUE(loan.value().reply.opened);
  EXPECT_EQ(loan.value().reply.n_sessions, 9);
}

TEST(OwnerUsbHolder, presence_is_what_the_controller_says_now) {
  Gadgets g;
  g.host("configured");
  EXPECT_FALSE(g.holder->presence().here);
  ASSERT_TRUE(g.holder->open());
  EXPECT_FALSE(g.holder->presence().here);  // not on the bus
  g.holder->step(kSec, false);
  EXPECT_TRUE(g.holder->presence().here);
  EXPECT_FALSE(g.holder->presence().program);
  g.port.lent.opened = true;
  EXPECT_TRUE(g.holder->presence().program);
  for (const char* state :
       {"not attached", "attached", "powered", "default", "addressed", "suspended", ""}) {
    g.host(state);
    EXPECT_FALSE(g.holder->presence().here) << state;
    EXPECT_FALSE(g.holder->presence().program) << state;
  }
}

TEST(OwnerUsbHolder, a_failure_leaves_nothing_behind_and_can_be_tried_again) {
  Gadgets g;
  g.refuse = true;
  EXPECT_EQ(g.holder->open().code(), Code::kDevice);
  EXPECT_FALSE(g.holder->opened());
  EXPECT_FALSE(g.setup.mounted);
  EXPECT_TRUE(g.setup.dirs.empty());
  g.refuse = false;
  ASSERT_TRUE(g.holder->open());
  g.holder->close();
  EXPECT_FALSE(g.port.alive);
  EXPECT_FALSE(g.setup.mounted);
  EXPECT_TRUE(g.setup.dirs.empty());
  EXPECT_EQ(g.port.steps, Steps{"unbind"});
}

TEST(OwnerUsbHolder, a_controller_of_another_gadget_is_refused_and_never_unbound) {
  Gadgets g;
  g.setup.holder = "g1";
  g.setup.files["/c/usb_gadget/g1/UDC"] = "udc0";
  const auto refused = g.holder->open();
  EXPECT_EQ(refused.code(), Code::kDevice);
  EXPECT_NE(std::string(refused.error().text).find("g1"), std::string::npos);
  EXPECT_EQ(g.setup.files["/c/usb_gadget/g1/UDC"], "udc0");
}

TEST(OwnerUsbHolder, a_bus_that_refuses_is_tried_every_2_s_and_told_once) {
  LogLines log;
  Gadgets g;
  ASSERT_TRUE(g.holder->open());
  g.port.bind_error = -EBUSY;
  for (int i = 0; i < 20; ++i) g.holder->step(i * kStepNs, false);
  EXPECT_EQ(g.port.steps.size(), 5u);
  EXPECT_EQ(log.count("cannot be put on the bus"), 1u);
  g.port.bind_error = 0;
  g.holder->step(60 * kSec, false);
  EXPECT_TRUE(g.holder->lend());
}

TEST(OwnerUsbHolder, a_dead_control_endpoint_is_made_anew) {
  Gadgets g;
  ASSERT_TRUE(g.holder->open());
  g.holder->step(kSec, false);
  g.port.events = {HostEvent::kDead};
  g.holder->step(2 * kSec, false);
  EXPECT_FALSE(g.holder->opened());
  EXPECT_TRUE(g.holder->open());
}

TEST(OwnerUsbHolder, a_storm_of_events_does_not_hold_the_owner) {
  Gadgets g;
  ASSERT_TRUE(g.holder->open());
  for (int i = 0; i < 100; ++i) g.port.events.push_back(HostEvent::kEnabled);
  g.holder->step(kSec, false);
  EXPECT_EQ(g.port.events.size(), 84u);
}

}  // namespace
}  // namespace outrider::owner::test
