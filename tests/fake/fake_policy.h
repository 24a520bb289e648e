// What the fake computes: a policy-shaped echo that follows a script.
//
// Ports: images IMAGE {n_views, h, w, 3}, prompt TEXT, state STATE {-1}, actions ACTION {steps,
// dim}, echo TEXT (the prompt of the last run), pixels TENSOR U8 (its images as packed RGB), and
// with the key trace: trace TEXT (the executor refs run so far: "4 91 "). actions[i] = state[i mod
// n_state] + i + h / 1024, where h is a 10-bit hash of prompt and pixels, so every value is exact
// and every input shows.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "fake_config.h"
#include "outrider/ext/status.h"
#include "outrider/ext/taps.h"
#include "outrider/frt_v1.h"

namespace outrider::fake {

inline constexpr size_t kMaxTextBytes = 4096, kMaxStateValues = 256;

enum Port : uint32_t { kImages, kPrompt, kState, kActions, kEcho, kPixels, kTrace, kPortCount };
// The ports that a configuration asks for are the first ones.
inline uint32_t n_ports(const FakeConfig& c) {
  return c.own_ports == 0 ? kEcho : c.trace == 0 ? kTrace : kPortCount;
}
// The references that FlashRT's providers publish; `kDiamond...` are the fake's own.
enum Ref : uint32_t {
  kInfer = 37,
  kContext = 4,
  kAction = 91,
  kTop = 50,
  kLeft = 71,
  kRight = 23,
  kBottom = 64
};

class FakePolicy {
 public:
  explicit FakePolicy(const FakeConfig& config);
  ~FakePolicy();

  int set_input(uint32_t port, const void* data, uint64_t bytes);
  int get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written);
  int run(uint32_t executor_ref);
  int step();
  const char* last_error() const;

  const FakeConfig& config() const { return config_; }
  outrider_status_v1 status{};
  outrider_taps_v1 taps{};

 private:
  friend struct FakeTables;
  int fail(int code, const char* format, ...) __attribute__((format(printf, 3, 4)));
  int set_images(const void* data, uint64_t bytes);
  int copy_out(const void* data, uint64_t n_bytes, void* out, uint64_t capacity, uint64_t* written);
  int run_stage(uint32_t executor_ref, int stage_index);
  void misbehave();
  void compute();
  bool staged() const;

  FakeConfig config_;
  std::vector<uint8_t> pixels_;
  std::string prompt_, echo_, trace_;
  std::vector<float> state_, actions_;
  bool has_[3] = {};
  bool ready_ = false, context_pending_ = false;
  int64_t tick_ = 0;
  std::array<int64_t, 4> counters_{};  // runs, refused_inputs, failed_runs, nonfinite_outputs
  std::mutex mutex_;
  int null_fd_ = -1;
  std::string description_, long_text_;
  char error_[512] = {};
};

}  // namespace outrider::fake
