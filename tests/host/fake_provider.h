// Paths and configurations of the scripted provider, and small helpers that the host's tests share.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "host/session.h"
#include "outrider/host.h"

namespace outrider::test {

inline std::string library_path(const char* name) {
  return std::string(OUTRIDER_BUILD_DIR "/lib/") + name;
}
inline std::string fake_path() {
  return library_path("provider_fake.so");
}

// {"model_family":"fake","trace":1, ...}: values that look like numbers go in as numbers, the rest
// as strings.
inline std::string fake_config(
    std::initializer_list<std::pair<const char*, std::string>> keys = {}) {
  std::string json = "{\"model_family\":\"fake\",\"trace\":1";
  for (const auto& [name, value] : keys) {
    const bool number =
        !value.empty() && value.find_first_not_of("-0123456789") == std::string::npos;
    json += std::string(",\"") + name + "\":" + (number ? value : "\"" + value + "\"");
  }
  return json + "}";
}

// A session of the C API that closes itself.
struct CSession {
  outrider_session* s = nullptr;
  int code = 0;
  char reason[512] = "never written";

  explicit CSession(const std::string& config, const std::string& path = fake_path()) {
    code = outrider_open(path.c_str(), config.c_str(), &s, reason, sizeof reason);
  }
  CSession(const CSession&) = delete;
  CSession& operator=(const CSession&) = delete;
  ~CSession() { outrider_close(s); }
  operator outrider_session*() const { return s; }
  std::string error() const { return outrider_session_error(s); }
};

// The fake's default inputs: one 4 x 6 RGB view, a prompt, three state values.
struct Inputs {
  std::vector<uint8_t> pixels = std::vector<uint8_t>(4 * 6 * 3, 7);
  std::string prompt = "pick up the fork";
  std::vector<float> state = {0.25f, -1.0f, 2.0f};

  frt_image_view view() const {
    frt_image_view v{};
    v.struct_size = sizeof v;
    v.pixel_format = FRT_PIXEL_RGB8;
    v.data = pixels.data();
    v.bytes = pixels.size();
    v.width = 6;
    v.height = 4;
    return v;
  }
  void stage(outrider_session* s) const {
    const frt_image_view v = view();
    ASSERT_EQ(outrider_set_input(s, 0, &v, sizeof v), 0) << outrider_session_error(s);
    ASSERT_EQ(outrider_set_input(s, 1, prompt.data(), prompt.size()), 0)
        << outrider_session_error(s);
    ASSERT_EQ(outrider_set_input(s, 2, state.data(), state.size() * sizeof(float)), 0)
        << outrider_session_error(s);
  }
};

inline bool is_loaded(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

inline std::string read_text(outrider_session* s, uint32_t port) {
  std::string text(4096, '\0');
  uint64_t written = 0;
  EXPECT_EQ(outrider_get_output(s, port, text.data(), text.size(), &written), 0)
      << outrider_session_error(s);
  text.resize(written);
  return text;
}

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << text

}  // namespace outrider::test
