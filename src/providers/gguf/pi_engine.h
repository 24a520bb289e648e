// What both faces of a PI0 / PI0.5 runtime stand on: packed model, buffers, threads, one pass after
// the other, taps and counters. It knows tokens and pixels, no ports.
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "models/pi_run.h"
#include "models/taps.h"
#include "providers/gguf/pi_files.h"

namespace outrider {

struct PiCounters {
  std::atomic<int64_t> runs{0}, failed_runs{0}, refused_inputs{0}, nonfinite_outputs{0},
      padded_states{0}, resized_views{0}, computed_views{0}, reused_views{0}, reused_prefixes{0},
      warm_ups{0}, ns_images{0}, ns_context{0}, ns_action{0}, prefix_tokens{0}, masked_views{0},
      outside_states{0}, cut_prompts{0}, default_prompts{0}, guided_runs{0}, cancelled_runs{0},
      black_views{0}, answer_tokens{0}, undecodable_answers{0};
};

// What a run may have besides noise and state; all off by default.
struct PiConditions {
  PiGuidance guidance;
  PiHardPrefix prefix;
  std::span<const float> extra;
};

// How a pass ended. A wish to cancel may be taken back at any moment, so it is told apart here.
enum class PiEnd : uint8_t { kDone, kNotFinite, kCancelled };

class PiEngine {
 public:
  // How many text ids the prefix has room for.
  static constexpr int64_t kMaxTextTokens = 1024;

  // [setup] Takes all memory, packs or finds packed weights, runs once. Errors: those of every
  // part.
  static Result<std::unique_ptr<PiEngine>> open(const PiOpenConfig& config,
                                                std::shared_ptr<const PiFiles> files,
                                                int64_t max_views);

  const PiOpenConfig& open_config() const { return config_; }
  const PiFiles& files() const { return *files_; }
  const PiConfig& pi_config() const { return pi_config_; }
  PiCounters& counters() { return counters_; }
  const PiCounters& counters() const { return counters_; }
  int64_t now_ns() const { return clock_.now_ns(); }
  int64_t image_values() const {
    return pi_config_.vision.image_size * pi_config_.vision.image_size * 3;
  }

  // [hot] Seen views and text: leaves the prefix. Ids are checked against the vocabulary: the first
  // that lies outside is returned, else -1.
  int32_t unknown_id(std::span<const int32_t> ids) const noexcept;
  // False when it was cancelled.
  bool encode(std::span<const PiPixels> views, std::span<const int32_t> ids) noexcept;
  // [hot] The chunk from this noise.
  PiEnd denoise(std::span<const float> noise, std::span<const float> state,
                const PiConditions& conditions) noexcept;
  std::span<const float> chunk() const { return run_->actions(); }
  // [setup] [hot] PI0-FAST: see PiRun.
  void set_answer_gap(int64_t gap) { run_->set_answer_gap(gap); }
  int32_t next_token(int32_t previous) noexcept { return run_->next_token(previous); }

  // [any] From any thread: while it is on, stages give up soon.
  void cancel(bool on) noexcept { cancel_.store(on, std::memory_order_relaxed); }
  bool cancelled() const noexcept { return cancel_.load(std::memory_order_relaxed); }

  std::span<const float> seeded_noise() const { return noise_; }

  // Taps. enable(true) makes every later run record; reading never changes a result.
  void enable_taps(bool on);
  bool taps_on() const { return taps_on_; }
  const TapRecorder* taps() const { return taps_on_ ? &taps_ : nullptr; }
  void tap_inputs(std::span<const PiPixels> views, std::span<const int32_t> ids);
  void tap(const std::string& name, View<const float> rows) { taps_.record(name, rows); }

  // Facts of a description, as JSON members without braces.
  std::string describe() const;

 private:
  PiEngine() = default;
  Result<void> prepare(int64_t max_views);
  void warm_up(int64_t max_views);
  std::string cache_text() const;

  PiOpenConfig config_;
  PiConfig pi_config_;
  PiOptions options_;
  std::shared_ptr<const PiFiles> files_;
  std::shared_ptr<const CachedPiModel> cached_;
  std::unique_ptr<Ops> ops_;
  std::atomic<bool> cancel_{false};
  std::unique_ptr<PiRun> run_;
  MonotonicClock clock_;
  std::vector<float> noise_;
  bool taps_on_ = false;
  TapRecorder taps_;
  PiCounters counters_;
  std::string threads_note_;  // how many threads and why
};

}  // namespace outrider
