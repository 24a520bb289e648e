// The fence: stock behaviour where a hook is NULL, the safe default where one fails, one line each.
#include "adapter/fence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "adapter/params.h"
#include "adapter/support.h"
#include "outrider/frt_v1.h"

namespace outrider::adapter::test {
namespace {

Fence fence_of(const outrider_adapter_v1& adapter, StockSide stock = {}) {
  auto made = Fence::make(&adapter, std::move(stock));
  EXPECT_TRUE(made) << made.error().text;
  return std::move(made.value());
}

TEST(AdapterFence, another_version_counts_as_no_adapter) {
  for (const uint32_t version : {0u, 2u, 3u, UINT32_MAX}) {
    outrider_adapter_v1 adapter = empty_adapter();
    adapter.version = version;
    const auto made = Fence::make(&adapter);
    ASSERT_FALSE(made);
    EXPECT_NE(std::string(made.error().text).find(std::to_string(version)), std::string::npos);
  }
  outrider_adapter_v1 adapter = empty_adapter();
  adapter.struct_size -= 8;
  EXPECT_FALSE(Fence::make(&adapter));
  EXPECT_FALSE(Fence::make(nullptr));
}

TEST(AdapterFence, R25_R29_an_adapter_without_hooks_is_the_stock_one_and_says_nothing) {
  LogLines log;
  auto fence = fence_of(empty_adapter());
  void* warp = &fence;
  EXPECT_TRUE(fence.model_warp(&warp));
  EXPECT_EQ(warp, nullptr);  // the stock warp
  EXPECT_EQ(fence.coherent_warp().move, nullptr);
  EXPECT_FALSE(fence.accelerator_present());
  EXPECT_EQ(fence.camera()->camera_width, 1928u);
  EXPECT_EQ(fence.model_face()->desire_len, 8u);
  EXPECT_EQ(fence.model_face()->frame_bytes, 4804608u);
  EXPECT_FALSE(fence.warp_path(stock_camera()));
  EXPECT_EQ(fence.frame_drop_ratio(), 0.0);
  EXPECT_TRUE(fence.history_reset());
  EXPECT_FALSE(fence.request_shutdown("low battery"));
  EXPECT_FALSE(fence.shutdown_pending());
  EXPECT_FALSE(fence.status());
  EXPECT_FALSE(fence.in_control(idle_car()));
  outrider_engagement_v1 engaged = idle_car();
  engaged.enabled = OUTRIDER_YES;
  EXPECT_TRUE(fence.in_control(engaged));
  fence.tell_hot();
  EXPECT_EQ(log.count(""), 0u) << log.text();
}

// Every hook fails in three ways: a code, an exception, an answer that makes no sense.
TEST(AdapterFence, every_failing_hook_gives_its_safe_default_and_one_line) {
  for (const int way : {0, 1, 2}) {
    LogLines log;
    outrider_adapter_v1 a = empty_adapter();
    static int mode;
    mode = way;
    static const auto fail = [](int nonsense) -> int {
      if (mode == 0) return FRT_ERR_BACKEND;
      if (mode == 1) throw std::runtime_error("no\nparams");
      return nonsense;
    };
    a.params_dir = [](void*, char* out, size_t n) -> int {
      std::memset(out, 'x', n);
      return fail(0);
    };
    a.get = [](void*, const char*, char*, size_t n, size_t* w) -> int {
      *w = n + 1;
      return fail(0);
    };
    a.accelerator_present = [](void*) -> int { return fail(7); };
    a.camera = [](void*, outrider_camera_v1* c) -> int {
      c->camera_width = 1;
      return fail(0);
    };
    a.warp_path = [](void*, const outrider_camera_v1*, char* out, size_t n) -> int {
      std::memset(out, 'x', n);
      return fail(0);
    };
    a.model_root = [](void*, char* out, size_t) -> int {
      std::strcpy(out, "relative");
      return fail(0);
    };
    a.model_face = [](void*, outrider_model_face_v1* f) -> int {
      f->lateral_smooth_s = NAN;
      return fail(0);
    };
    a.in_control = [](void*, const outrider_engagement_v1*) -> int { return fail(2); };
    a.frame_drop_ratio = [](void*, double* out) -> int {
      *out = NAN;
      return fail(0);
    };
    a.model_warp = [](void* self, void** out) -> int {
      *out = self;
      return fail(3);
    };
    a.coherent_warp = [](void*, outrider_move_output_fn* move, void**) -> int {
      *move = [](void*, void**, uint64_t) -> int { return 0; };
      return fail(5);
    };
    a.history_reset = [](void*) -> int { return fail(1); };
    a.request_shutdown = [](void*, const char*) -> int { return fail(9); };
    a.shutdown_pending = [](void*) -> int { return fail(9); };
    a.status = [](void*, char* out, size_t n) -> int {
      std::memset(out, 'x', n);
      return fail(0);
    };
    a.reason = a.status;
    auto fence = fence_of(a, {[](const char*) { return true; }, [] { return true; }, {}, {}});
    for (int round = 0; round < 3; ++round) {
      void* warp = nullptr;
      EXPECT_EQ(fence.params_dir(), "") << way;
      EXPECT_FALSE(fence.get("JetlinkMode")) << way;
      EXPECT_TRUE(fence.accelerator_present()) << way;
      EXPECT_FALSE(fence.camera()) << way;
      EXPECT_FALSE(fence.warp_path(stock_camera())) << way;
      EXPECT_FALSE(fence.model_folder()) << way;
      EXPECT_FALSE(fence.model_face()) << way;
      EXPECT_TRUE(fence.in_control(idle_car())) << way;
      EXPECT_EQ(fence.frame_drop_ratio(), 1.0) << way;
      EXPECT_FALSE(fence.model_warp(&warp)) << way;
      EXPECT_EQ(warp, nullptr) << way;
      EXPECT_EQ(fence.coherent_warp().move, nullptr) << way;
      EXPECT_FALSE(fence.history_reset()) << way;
      EXPECT_FALSE(fence.request_shutdown("x")) << way;
      EXPECT_FALSE(fence.shutdown_pending()) << way;
      EXPECT_FALSE(fence.status()) << way;
      EXPECT_FALSE(fence.reason()) << way;
    }
    fence.tell_hot();
    for (size_t i = 0; i < kHookCount; ++i) {
      const auto hook = static_cast<Hook>(i);
      if (fence.failures(hook) == 0) continue;
      const std::string start = std::string("adapter: ") + hook_name(hook) + " failed";
      EXPECT_EQ(log.count(start), 1u) << start << ", way " << way;
    }
    EXPECT_GE(fence.failures(Hook::kInControl), 3u);
    EXPECT_EQ(log.count("\n"), 0u) << log.text();
  }
}

TEST(AdapterFence, R23_a_failing_model_warp_is_told_once_in_total) {
  LogLines log;
  outrider_adapter_v1 a = empty_adapter();
  a.model_warp = [](void*, void**) -> int { throw std::runtime_error("stale output"); };
  auto fence = fence_of(a);
  void* warp = nullptr;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(fence.model_warp(&warp));
  EXPECT_EQ(log.count(""), 1u);
  EXPECT_EQ(log.count("stale output"), 1u) << log.text();
}

TEST(AdapterFence, a_failure_is_told_again_after_a_success_or_when_it_is_another) {
  LogLines log;
  static int answer;
  outrider_adapter_v1 a = empty_adapter();
  a.accelerator_present = [](void*) -> int { return answer; };
  a.in_control = [](void*, const outrider_engagement_v1*) -> int { return answer; };
  auto fence = fence_of(a);
  const auto ask = [&](int code, size_t n_lines) {
    answer = code;
    fence.accelerator_present();
    fence.accelerator_present();
    EXPECT_EQ(log.count("accelerator_present failed"), n_lines) << code;
  };
  ask(FRT_ERR_FAILED, 1);
  ask(FRT_ERR_BACKEND, 2);
  ask(0, 2);
  ask(FRT_ERR_BACKEND, 3);
  const auto hot = [&](int code, size_t n_lines) {
    answer = code;
    fence.in_control(idle_car());
    fence.in_control(idle_car());
    fence.tell_hot();
    EXPECT_EQ(log.count("in_control failed"), n_lines) << code;
  };
  hot(FRT_ERR_FAILED, 1);
  hot(FRT_ERR_FAILED, 1);
  hot(0, 1);
  hot(FRT_ERR_FAILED, 2);
}

TEST(AdapterFence, R32_the_names_of_an_adapter_are_used_and_an_unknown_key_reads_as_none) {
  Folder folder;
  static std::string dir;
  dir = folder.path();
  outrider_adapter_v1 a;
  c11_adapter(&a);
  a.params_dir = [](void*, char* out, size_t n) -> int {
    if (n <= dir.size()) return FRT_ERR_STORAGE;
    std::strcpy(out, dir.c_str());
    return 0;
  };
  auto fence = fence_of(a);
  EXPECT_STREQ(fence.keys().mode, "JetlinkMode");
  EXPECT_STREQ(fence.keys().parked, "IsOffroad");
  EXPECT_STREQ(fence.keys().progress, "JetlinkProgress");
  EXPECT_STREQ(fence.keys().spec, "JetlinkSpec");
  EXPECT_STREQ(fence.keys().pointers, "JetlinkPointers");
  EXPECT_STREQ(fence.keys().charge_phone, "JetlinkChargePhone");
  EXPECT_STREQ(fence.keys().big_model, "");
  EXPECT_STREQ(fence.keys().catalog, "");
  EXPECT_STREQ(fence.keys().shutdown, "DoShutdown");
  EXPECT_STREQ(fence.keys().reboot, "DoReboot");
  EXPECT_STREQ(fence.keys().uninstall, "DoUninstall");
  EXPECT_FALSE(fence.get("JetlinkMode"));
  EXPECT_FALSE(fence.get("NeverHeardOf"));
  EXPECT_FALSE(fence.get("../IsOffroad"));
  EXPECT_FALSE(fence.get(""));
  EXPECT_FALSE(fence.get(fence.keys().catalog));
  EXPECT_TRUE(fence.put("JetlinkMode", "1", true));
  EXPECT_EQ(fence.get("JetlinkMode"), "1");
  EXPECT_TRUE(fence.remove("JetlinkMode"));
  EXPECT_TRUE(fence.remove("JetlinkMode"));
  EXPECT_FALSE(fence.get("JetlinkMode"));
  EXPECT_FALSE(fence.put("../escape", "1", true));
  EXPECT_FALSE(fence.put("", "1", true));
}

TEST(AdapterFence, R34_everything_of_ours_lies_in_one_folder_below_the_model_root) {
  Folder folder;
  outrider_adapter_v1 a;
  c11_adapter(&a);
  EXPECT_EQ(fence_of(a).model_folder(), "/data/models/outrider");
  EXPECT_EQ(fence_of(empty_adapter()).model_folder(), std::string(kStockModelRoot) + "/outrider");
  // A cache clear removes unknown files in the root and leaves folders.
  static std::string root;
  root = folder.path();
  a.model_root = [](void*, char* out, size_t) -> int {
    std::strcpy(out, root.c_str());
    return 0;
  };
  // Nothing that an adapter can be asked writes into the root.
  {
    auto fence = fence_of(a);
    (void)fence.camera();
    (void)fence.model_face();
    void* warp = nullptr;
    (void)fence.model_warp(&warp);
    (void)fence.coherent_warp();
    (void)fence.history_reset();
    fence.event("x", "{}");
    (void)fence.status();
    (void)fence.model_folder();
  }
  EXPECT_TRUE(std::filesystem::is_empty(root)) << "written beside our folder";
  const std::string ours = *fence_of(a).model_folder();
  std::filesystem::create_directories(ours);
  std::ofstream(ours + "/lead.gguf") << "weights";
  std::ofstream(root + "/unknown.bin") << "junk";
  for (const auto& entry : std::filesystem::directory_iterator(root))
    if (entry.is_regular_file()) std::filesystem::remove(entry.path());
  EXPECT_TRUE(std::filesystem::exists(ours + "/lead.gguf"));
}

TEST(AdapterFence, a_value_larger_than_the_first_buffer_is_read_whole) {
  outrider_adapter_v1 a = empty_adapter();
  a.get = [](void*, const char*, char* out, size_t n, size_t* written) -> int {
    constexpr size_t kBytes = 100000;
    if (n < kBytes) return FRT_ERR_STORAGE;
    std::memset(out, 'v', kBytes);
    *written = kBytes;
    return 0;
  };
  EXPECT_EQ(fence_of(a).get("Big"), std::string(100000, 'v'));
}

}  // namespace
}  // namespace outrider::adapter::test
