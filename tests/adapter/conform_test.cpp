// The conformance check itself: it passes what keeps the contract and names what breaks it.
#include "adapter/conform.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "adapter/fence.h"
#include "adapter/support.h"
#include "outrider/frt_v1.h"

namespace outrider::adapter::test {
namespace {

// Names of the failed checks with their reasons.
std::string failures(const outrider_adapter_v1& adapter) {
  std::string all;
  for (const Check& check : conform(&adapter))
    if (!check.passed) all += check.name + ": " + check.detail + "\n";
  return all;
}

TEST(AdapterConform, an_empty_adapter_and_one_in_c_conform) {
  EXPECT_EQ(failures(empty_adapter()), "");
  outrider_adapter_v1 c;
  c11_adapter(&c);
  EXPECT_EQ(failures(c), "");
  EXPECT_EQ(outrider_adapter_conform(&c, nullptr, nullptr), 0);
  int n_lines = 0;
  outrider_adapter_conform(
      &c,
      [](void* user, const char*, int passed, const char*) { *static_cast<int*>(user) += passed; },
      &n_lines);
  EXPECT_GE(n_lines, 4);  // version, size, keys, and what it sets
  EXPECT_EQ(outrider_adapter_conform(nullptr, nullptr, nullptr), 1);
}

TEST(AdapterConform, R31_what_an_adapter_overrides_is_exactly_what_it_sets) {
  outrider_adapter_v1 c;
  c11_adapter(&c);
  const std::vector<std::string> wanted = {"keys",       "model_root",    "in_control",
                                           "model_warp", "coherent_warp", "history_reset"};
  EXPECT_EQ(overridden(c), wanted);
  EXPECT_TRUE(overridden(empty_adapter()).empty());
}

// What is not overridden is the stock behaviour, value for value.
TEST(AdapterConform, R31_everything_else_is_stock) {
  outrider_adapter_v1 c;
  c11_adapter(&c);
  const outrider_adapter_v1 none = empty_adapter();
  auto theirs = Fence::make(&c), stock = Fence::make(&none);
  ASSERT_TRUE(theirs && stock);
  Fence &a = theirs.value(), &b = stock.value();
  EXPECT_EQ(a.params_dir(), b.params_dir());
  EXPECT_EQ(a.accelerator_present(), b.accelerator_present());
  const auto camera = a.camera(), stock_camera = b.camera();
  ASSERT_TRUE(camera && stock_camera);
  EXPECT_EQ(std::memcmp(&*camera, &*stock_camera, sizeof *camera), 0);
  EXPECT_EQ(a.warp_path(*camera), b.warp_path(*camera));
  ASSERT_TRUE(a.model_face() && b.model_face());
  EXPECT_EQ(a.model_face()->frame_bytes, b.model_face()->frame_bytes);
  EXPECT_EQ(a.model_face()->desire_len, 8u);
  EXPECT_EQ(a.frame_drop_ratio(), b.frame_drop_ratio());
  EXPECT_EQ(a.request_shutdown("x"), b.request_shutdown("x"));
  EXPECT_EQ(a.shutdown_pending(), b.shutdown_pending());
  EXPECT_EQ(a.status(), b.status());
  EXPECT_EQ(a.reason(), b.reason());
}

// The hold point and every other limit come from the tandem's one table; an adapter cannot say
// another one, and nothing else in the runtime writes one.
TEST(AdapterConform, R30_an_adapter_has_no_setting_of_hold_points) {
  const auto text_of = [](const std::filesystem::path& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  };
  const std::filesystem::path root(OUTRIDER_SOURCE_DIR);
  const std::string header = text_of(root / "include/outrider/adapter.h");
  ASSERT_GT(header.size(), 1000u);
  for (const char* word : {"hold", "deadline", "limit", "proving", "settling", "period"})
    EXPECT_EQ(header.find(word), std::string::npos) << word;
  for (const char* folder : {"src/adapter", "src/owner", "src/record", "src/tandem/memory"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file()) {
        EXPECT_EQ(text_of(entry.path()).find("hold_ns"), std::string::npos) << entry.path();
      }
  // One number, at one place.
  int places = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "src"))
    if (entry.path().extension() == ".cpp" &&
        text_of(entry.path()).find("\"hold_ms\"") != std::string::npos)
      ++places;
  EXPECT_EQ(places, 1) << "the table in tandem/limits.cpp";
}

TEST(AdapterConform, another_version_or_size_fails_and_nothing_is_called) {
  outrider_adapter_v1 a = empty_adapter();
  a.camera = [](void*, outrider_camera_v1*) -> int {
    ADD_FAILURE() << "called";
    return 0;
  };
  a.version = 2;
  EXPECT_EQ(conform(&a).size(), 1u);
  EXPECT_NE(failures(a).find("2, this build speaks 1"), std::string::npos);
  a.version = 1;
  a.struct_size += 8;
  EXPECT_NE(failures(a).find("struct_size"), std::string::npos);
}

struct Broken {
  const char* hook;
  void (*breaks)(outrider_adapter_v1&);
};
const outrider_adapter_keys kTwice = {"A", "B", "A", "", "", "", "", "", "C", "", ""};
const outrider_adapter_keys kNoMode = {"", "B", "", "", "", "", "", "", "C", "", ""};
const outrider_adapter_keys kPath = {"../A", "B", "", "", "", "", "", "", "C", "", ""};
const outrider_adapter_keys kNull = {};

// A rule that forgets one sign.
template <uint8_t outrider_engagement_v1::*kField>
int forgets(void*, const outrider_engagement_v1* now) {
  outrider_engagement_v1 seen = *now;
  if (seen.*kField != OUTRIDER_NO) seen.*kField = OUTRIDER_NO;
  return outrider_stock_in_control(&seen);
}

TEST(AdapterConform, every_broken_hook_is_found_by_name) {
  using A = outrider_adapter_v1;
  const Broken all[] = {
      {"keys", [](A& a) { a.keys = &kTwice; }},
      {"keys", [](A& a) { a.keys = &kNoMode; }},
      {"keys", [](A& a) { a.keys = &kPath; }},
      {"keys", [](A& a) { a.keys = &kNull; }},
      {"params_dir",
       [](A& a) {
         a.params_dir = [](void*, char* out, size_t) -> int {
           std::strcpy(out, "/p");
           return 0;
         };
       }},
      {"params_dir",
       [](A& a) {
         a.params_dir = [](void*, char* out, size_t n) -> int {
           if (n < 2) return FRT_ERR_STORAGE;
           std::strcpy(out, "p");
           return 0;
         };
       }},
      {"params_dir",
       [](A& a) { a.params_dir = [](void*, char*, size_t) -> int { return FRT_ERR_FAILED; }; }},
      {"params_dir", [](A& a) { a.params_dir = [](void*, char*, size_t) -> int { throw 1; }; }},
      {"get",
       [](A& a) {
         a.get = [](void*, const char*, char*, size_t, size_t* w) -> int {
           *w = 0;
           return 0;
         };
       }},
      {"get",
       [](A& a) { a.get = [](void*, const char*, char*, size_t, size_t*) -> int { throw 1; }; }},
      {"get",
       [](A& a) {
         a.get = [](void*, const char*, char* out, size_t n, size_t*) -> int {
           out[n] = 0;
           return FRT_ERR_NOT_FOUND;
         };
       }},
      {"accelerator_present", [](A& a) { a.accelerator_present = [](void*) -> int { return 2; }; }},
      {"camera", [](A& a) { a.camera = [](void*, outrider_camera_v1*) -> int { return 0; }; }},
      {"camera",
       [](A& a) {
         a.camera = [](void*, outrider_camera_v1* c) -> int {
           static uint32_t w;
           *c = {sizeof *c, ++w, 8, 8, 8};
           return 0;
         };
       }},
      {"warp_path",
       [](A& a) {
         a.warp_path = [](void*, const outrider_camera_v1*, char* out, size_t n) -> int {
           if (n > 0) out[0] = 'x';
           return 0;
         };
       }},
      {"model_root",
       [](A& a) { a.model_root = [](void*, char*, size_t) -> int { return FRT_ERR_NOT_FOUND; }; }},
      {"model_face",
       [](A& a) {
         a.model_face = [](void*, outrider_model_face_v1* f) -> int {
           f->desire_len = 8;
           f->frame_bytes = 1;
           f->lateral_smooth_s = NAN;
           f->longitudinal_smooth_s = 0;
           return 0;
         };
       }},
      {"in_control",
       [](A& a) { a.in_control = [](void*, const outrider_engagement_v1*) -> int { return 1; }; }},
      {"in_control",
       [](A& a) { a.in_control = [](void*, const outrider_engagement_v1*) -> int { return 0; }; }},
      {"in_control", [](A& a) { a.in_control = forgets<&outrider_engagement_v1::enabled>; }},
      {"in_control", [](A& a) { a.in_control = forgets<&outrider_engagement_v1::active>; }},
      {"in_control", [](A& a) { a.in_control = forgets<&outrider_engagement_v1::lateral_active>; }},
      {"in_control",
       [](A& a) { a.in_control = forgets<&outrider_engagement_v1::longitudinal_active>; }},
      {"frame_drop_ratio",
       [](A& a) {
         a.frame_drop_ratio = [](void*, double* out) -> int {
           *out = 1.5;
           return 0;
         };
       }},
      {"frame_drop_ratio",
       [](A& a) { a.frame_drop_ratio = [](void*, double*) -> int { return 0; }; }},
      {"shutdown_pending", [](A& a) { a.shutdown_pending = [](void*) -> int { return -1; }; }},
      {"status",
       [](A& a) {
         a.status = [](void*, char* out, size_t n) -> int {
           out[n] = 1;
           return 0;
         };
       }},
      {"reason",
       [](A& a) { a.reason = [](void*, char*, size_t) -> int { throw std::bad_alloc(); }; }},
  };
  for (const Broken& broken : all) {
    outrider_adapter_v1 a = empty_adapter();
    broken.breaks(a);
    EXPECT_EQ(failures(a).rfind(std::string(broken.hook) + ": ", 0), 0u)
        << broken.hook << ": " << failures(a);
  }
}

}  // namespace
}  // namespace outrider::adapter::test
