// The order in which a driving stack calls. R37.
#include "adapter/lifecycle.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "adapter/support.h"
#include "outrider/frt_v1.h"

namespace outrider::adapter::test {
namespace {

using Trace = std::vector<std::string>;

struct Stack {
  Stack() {
    adapter = empty_adapter();
    adapter.self = this;
    adapter.get = [](void* self, const char* key, char* out, size_t, size_t* written) -> int {
      auto& s = *static_cast<Stack*>(self);
      s.trace.push_back(std::string("get ") + key);
      if (s.mode.empty()) return FRT_ERR_NOT_FOUND;
      std::memcpy(out, s.mode.data(), *written = s.mode.size());
      return 0;
    };
    adapter.accelerator_present = [](void* self) -> int {
      static_cast<Stack*>(self)->trace.push_back("accelerator_present");
      return static_cast<Stack*>(self)->accelerator;
    };
    adapter.in_control = [](void* self, const outrider_engagement_v1* now) -> int {
      static_cast<Stack*>(self)->trace.push_back("in_control");
      return outrider_stock_in_control(now);
    };
    adapter.frame_drop_ratio = [](void* self, double* out) -> int {
      static_cast<Stack*>(self)->trace.push_back("frame_drop_ratio");
      *out = 0.25;
      return 0;
    };
    adapter.event = [](void* self, const char* name, const char*) -> int {
      static_cast<Stack*>(self)->trace.push_back(name);
      return 0;
    };
    fence.emplace(std::move(Fence::make(&adapter).value()));
  }
  bool make_ready(const outrider_camera_v1& camera) {
    trace.push_back("ready " + std::to_string(camera.camera_width));
    return ready;
  }
  bool prepare(Lifecycle& life) {
    return life.prepare([this](const outrider_camera_v1& camera) { return make_ready(camera); });
  }
  bool attach(Lifecycle& life) {
    return life.attach([this] {
      trace.push_back("join");
      return joins;
    });
  }
  std::string mode = "1";
  int accelerator = 0;
  bool ready = true, joins = true;
  Trace trace;
  outrider_adapter_v1 adapter;
  std::optional<Fence> fence;
};

TEST(AdapterLifecycle, R37_prepare_realtime_attach_frames_close_in_this_order) {
  Stack stack;
  {
    Lifecycle life(*stack.fence, {});
    EXPECT_TRUE(stack.prepare(life));
    life.turned_realtime();
    life.camera_ready();
    life.standby_ready();
    EXPECT_TRUE(stack.attach(life));
    for (int frame = 0; frame < 2; ++frame) {
      const auto now = life.before_run(idle_car());
      EXPECT_FALSE(now.in_control);
      EXPECT_EQ(now.drop_ratio, 0.25);
      EXPECT_TRUE(now.attached);
      stack.trace.push_back("run");
    }
  }
  const Trace wanted = {"get OutriderMode",
                        "accelerator_present",
                        "ready 1928",
                        "join",
                        "in_control",
                        "frame_drop_ratio",
                        "run",
                        "in_control",
                        "frame_drop_ratio",
                        "run",
                        "outrider_closed"};
  EXPECT_EQ(stack.trace, wanted);
}

TEST(AdapterLifecycle, R37_attach_without_a_successful_prepare_does_nothing) {
  Stack stack;
  Lifecycle life(*stack.fence, {});
  life.camera_ready();
  life.standby_ready();
  EXPECT_FALSE(stack.attach(life));
  EXPECT_STREQ(life.reason(), "prepare was not called");
  stack.ready = false;
  EXPECT_FALSE(stack.prepare(life));
  EXPECT_FALSE(stack.attach(life));
  EXPECT_EQ(std::count(stack.trace.begin(), stack.trace.end(), "join"), 0);
  EXPECT_FALSE(life.before_run(idle_car()).attached);
}

TEST(AdapterLifecycle, R37_a_later_no_of_prepare_takes_an_earlier_yes_back) {
  Stack stack;
  Lifecycle life(*stack.fence, {});
  EXPECT_TRUE(stack.prepare(life));
  stack.accelerator = 1;
  EXPECT_FALSE(stack.prepare(life));
  life.camera_ready();
  life.standby_ready();
  EXPECT_FALSE(stack.attach(life));
  EXPECT_STREQ(life.reason(), "a native accelerator is fitted");
}

TEST(AdapterLifecycle, R37_prepare_after_the_process_turned_realtime_is_refused) {
  Stack stack;
  Lifecycle life(*stack.fence, {});
  life.turned_realtime();
  EXPECT_FALSE(stack.prepare(life));
  EXPECT_EQ(std::string(life.reason()).find("prepare came after"), 0u);
  EXPECT_TRUE(stack.trace.empty());
}

TEST(AdapterLifecycle, attach_waits_for_camera_and_small_model) {
  Stack stack;
  Lifecycle life(*stack.fence, {});
  ASSERT_TRUE(stack.prepare(life));
  EXPECT_FALSE(stack.attach(life));
  EXPECT_STREQ(life.reason(), "attach came before the camera");
  life.camera_ready();
  EXPECT_FALSE(stack.attach(life));
  EXPECT_STREQ(life.reason(), "attach came before the small model");
  life.standby_ready();
  EXPECT_TRUE(stack.attach(life));
  EXPECT_STREQ(life.reason(), "");
}

TEST(AdapterLifecycle, what_refuses_to_prepare) {
  struct Case {
    const char* mode;
    int accelerator;
    DeviceFacts facts;
    bool good;
  };
  const Case cases[] = {{"1", 0, {}, true},           {"2", 0, {}, true},
                        {"0", 0, {}, false},          {"", 0, {}, false},
                        {"3", 0, {}, false},          {"-1", 0, {}, false},
                        {"usb", 0, {}, false},        {"1", 1, {}, false},
                        {"1", -6, {}, false},         {"1", 0, {false, false}, false},
                        {"1", 0, {true, true}, false}};
  for (const Case& c : cases) {
    Stack stack;
    stack.mode = c.mode;
    stack.accelerator = c.accelerator;
    Lifecycle life(*stack.fence, c.facts);
    EXPECT_EQ(stack.prepare(life), c.good) << c.mode << " " << c.accelerator;
  }
}

TEST(AdapterLifecycle, exceptions_of_the_stack_end_here_and_nothing_works_after_close) {
  Stack stack;
  Lifecycle life(*stack.fence, {});
  EXPECT_FALSE(life.prepare([](const outrider_camera_v1&) -> bool { throw std::bad_alloc(); }));
  ASSERT_TRUE(stack.prepare(life));
  life.camera_ready();
  life.standby_ready();
  EXPECT_FALSE(life.attach([]() -> bool { throw std::runtime_error("x"); }));
  EXPECT_FALSE(life.attached());
  EXPECT_TRUE(stack.attach(life));
  life.close();
  life.close();
  EXPECT_EQ(std::count(stack.trace.begin(), stack.trace.end(), "outrider_closed"), 1);
  EXPECT_FALSE(life.attached());
  EXPECT_FALSE(stack.prepare(life));
  EXPECT_FALSE(stack.attach(life));
}

}  // namespace
}  // namespace outrider::adapter::test
