// The pi0 face: ports, stage plan, stale rules. Source: model-runtime ABI sections 12, 13.1.
//
// [hot] verbs never allocate, lock, throw or print. One instance belongs to one thread at a time.
#pragma once
#include <atomic>
#include <cstdarg>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "models/pi_run.h"
#include "models/taps.h"
#include "providers/gguf/pi_files.h"
#include "text/pi_prompt.h"
#include "vision/resize.h"

namespace outrider {

class PiRuntime {
 public:
  enum Port : uint32_t { kImages, kPrompt, kState, kActions, kPortCount };
  // Private numbers of the stages; a host passes what the plan publishes.
  static constexpr uint32_t kContextRef = 4, kActionRef = 91;
  // What the prompt port takes, and how many text ids the prefix has room for.
  static constexpr size_t kMaxPromptBytes = 16384;
  static constexpr int64_t kMaxTextTokens = 1024;
  // More values than any robot has: set_input reads no further. What the model takes is checked by
  // the run.
  static constexpr uint64_t kMaxStateValues = 65536;
  // PI0.5 writes at most this many state values into the prompt.
  static constexpr int64_t kMaxTextState = 8;

  // [setup] Opens files, packs, takes all memory, warms up. Errors: those of every part.
  static Result<std::unique_ptr<PiRuntime>> open(const PiOpenConfig& config);

  // [hot] Verbs of the ABI.
  Code set_input(uint32_t port, const void* data, uint64_t bytes) noexcept;
  Code get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept;
  Code run_stage(uint32_t executor_ref) noexcept;
  Code step() noexcept;
  Code prepare_graph() noexcept;  // no graph variants: always kUnsupported
  const char* last_error() const noexcept { return error_; }

  // Facts for descriptors, identity and status.
  const PiOpenConfig& open_config() const { return config_; }
  const PiFiles& files() const { return *files_; }
  const PiConfig& pi_config() const { return pi_config_; }
  std::string describe() const;

  struct Counters {
    std::atomic<int64_t> runs{0}, failed_runs{0}, refused_inputs{0}, nonfinite_outputs{0},
        padded_states{0}, resized_views{0}, computed_views{0}, reused_views{0}, reused_prefixes{0},
        warm_ups{0}, ns_images{0}, ns_context{0}, ns_action{0}, prefix_tokens{0};
  };
  const Counters& counters() const { return counters_; }

  // Taps. enable(true) makes every later run record; reading never changes a result.
  void enable_taps(bool on);
  const TapRecorder* taps() const { return taps_on_ ? &taps_ : nullptr; }

 private:
  PiRuntime() = default;
  Result<void> prepare();
  void warm_up();
  Code fail(Code code, const char* format, ...) noexcept __attribute__((format(printf, 3, 4)));
  void drop_results() noexcept;
  Code stage_images(const void* data, uint64_t bytes) noexcept;
  Code stage_prompt(const void* data, uint64_t bytes) noexcept;
  Code stage_state(const void* data, uint64_t bytes) noexcept;
  Code check_ready() noexcept;
  Code check_state() noexcept;
  Code tokenize(size_t& n_ids) noexcept;
  Code run_context() noexcept;
  Code run_action() noexcept;
  void tap_inputs(size_t n_ids);
  std::string cache_text() const;

  PiOpenConfig config_;
  PiConfig pi_config_;
  PiOptions options_;
  std::shared_ptr<const PiFiles> files_;
  std::shared_ptr<const CachedPiModel> cached_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<PiRun> run_;
  std::unique_ptr<SpmTokenizer::Scratch> scratch_;
  std::vector<Resizer> resizer_;  // one when the opened size is not the model's
  MonotonicClock clock_;

  std::vector<uint8_t> raw_rgb_;  // one view as it came
  std::vector<uint8_t> views_;    // n_views at the model's size
  std::vector<char> prompt_, text_;
  std::vector<float> state_, noise_, padded_state_, actions_;
  std::vector<int32_t> ids_;
  size_t prompt_bytes_ = 0;
  uint64_t n_state_ = 0;
  bool images_set_ = false, prompt_set_ = false, state_set_ = false;
  bool context_pending_ = false, actions_ready_ = false;
  bool taps_on_ = false;
  TapRecorder taps_;
  Counters counters_;
  std::string threads_note_;  // how many threads and why
  char error_[Error::kTextBytes] = {};
};

}  // namespace outrider
