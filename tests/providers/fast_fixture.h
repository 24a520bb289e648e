// PI0-FAST folders and runtimes over them: for tests.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "outrider/ext/taps.h"
#include "outrider/host.h"
#include "policy/checkpoint.h"
#include "policy/convert.h"
#include "providers/policy_fixture.h"
#include "support/fast_folder.h"

namespace outrider::test {

class FastFolder {
 public:
  explicit FastFolder(const FastSpec& spec = {}) : spec_(spec) {
    const PiPair& pair = tiny_pair(PiFamily::kPi05);
    write_fast_folder(dir_.path(), pair.policy, pair.vision, spec);
  }
  const std::string& path() const { return dir_.path(); }
  std::string config(const std::string& more = "", const std::string& threads = "1") const {
    return R"({"model_family":"pi0","policy_dir":")" + path() +
           R"(","backend":"cpu","n_threads":)" + threads +
           (more.find("precision") == std::string::npos ? R"(,"precision":"f32")" : "") + more +
           "}";
  }
  const FastSpec& spec() const { return spec_; }

 private:
  TempDir dir_;
  FastSpec spec_;
};

inline const PiPair& pair() {
  return tiny_pair(PiFamily::kPi05);
}

inline std::vector<float> tap(const PiProvider& provider, const std::string& name) {
  const void* table = nullptr;
  EXPECT_EQ(provider->query_extension(provider.get(), OUTRIDER_EXT_TAPS, 1, &table), 0);
  const auto* taps = static_cast<const outrider_taps_v1*>(table);
  uint64_t n = 0;
  int64_t shape[4];
  uint32_t rank = 0;
  taps->read(taps->self, name.c_str(), nullptr, 0, &n, shape, &rank);
  std::vector<float> out(n);
  EXPECT_EQ(taps->read(taps->self, name.c_str(), out.data(), n, &n, shape, &rank), 0) << name;
  return out;
}
inline void taps_on(const PiProvider& provider) {
  const void* table = nullptr;
  ASSERT_EQ(provider->query_extension(provider.get(), OUTRIDER_EXT_TAPS, 1, &table), 0);
  const auto* taps = static_cast<const outrider_taps_v1*>(table);
  ASSERT_EQ(taps->enable(taps->self, 1), 0);
}

// `outrider convert`.
inline std::string converted(const FastFolder& folder, const std::string& name,
                             std::optional<DType> type = {}) {
  const auto opened = open_policy_checkpoint(folder.path());
  EXPECT_TRUE(opened) << opened.error().text;
  const std::string path = folder.path() + "/" + name;
  const auto done = convert_checkpoint(opened.value(), type, path);
  EXPECT_TRUE(done) << done.error().text;
  return path;
}
inline std::string by_file(const std::string& path, const std::string& more = "") {
  return R"({"model_family":"pi0","model_path":")" + path + R"(","backend":"cpu","n_threads":1)" +
         (more.find("precision") == std::string::npos ? R"(,"precision":"f32")" : "") + more + "}";
}

// The one line an open is refused with.
inline std::string refused(const std::string& config) {
  outrider_session* session = nullptr;
  char text[512] = {};
  EXPECT_LT(outrider_open(provider_path().c_str(), config.c_str(), &session, text, sizeof text), 0);
  outrider_close(session);
  return text;
}

}  // namespace outrider::test
