// What both faces of a PI0 / PI0.5 runtime do alike: stages context and action, stale rules, the
// actions port, the last error. Source: model-runtime ABI sections 12, 13.1.
//
// [hot] verbs never allocate, lock, throw or print. One instance belongs to one thread at a time.
#pragma once
#include <cstdarg>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "providers/gguf/pi_engine.h"

namespace outrider {

class PiFace {
 public:
  // Private numbers of the stages; a host passes what the plan publishes.
  static constexpr uint32_t kContextRef = 4, kActionRef = 91;
  // What a prompt port takes.
  static constexpr size_t kMaxPromptBytes = 16384;

  virtual ~PiFace() = default;

  // [hot] Verbs of the ABI.
  virtual Code set_input(uint32_t port, const void* data, uint64_t bytes) noexcept = 0;
  Code get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept;
  Code run_stage(uint32_t executor_ref) noexcept;
  Code step() noexcept;
  Code prepare_graph() noexcept;  // no graph variants: always kUnsupported
  const char* last_error() const noexcept { return error_; }

  // Descriptors.
  struct Port {
    std::string name;
    uint32_t modality, dtype, layout, direction, required;
    std::vector<int64_t> shape;
  };
  virtual std::vector<Port> ports() const = 0;
  // All pairs of the identity, in order.
  std::vector<std::pair<std::string, std::string>> identity() const;
  // One JSON object for status and manifest.
  std::string describe() const;
  PiEngine& engine() { return *engine_; }
  const PiEngine& engine() const { return *engine_; }

 protected:
  PiFace() = default;
  // [hot] Stage `context` up to the prefix; stage `action` up to a finite chunk in actions_.
  virtual Code context() noexcept = 0;
  virtual Code action() noexcept = 0;
  // Number of the one output.
  virtual uint32_t actions_port() const noexcept = 0;
  // JSON members of the description that belong to this face, each with a comma in front.
  virtual std::string describe_face() const = 0;

  Code fail(Code code, const char* format, ...) noexcept __attribute__((format(printf, 3, 4)));
  void drop_results() noexcept { context_pending_ = actions_ready_ = false; }
  // For set_input: keeps the counts and the last error.
  Code staged(Code code) noexcept;
  // Leaves the prefix; kFailed when it was cancelled.
  Code encode(std::span<const PiPixels> views, std::span<const int32_t> ids) noexcept;
  // Runs the Euler steps and refuses a chunk that is not finite.
  Code denoise(std::span<const float> noise, std::span<const float> state,
               const PiConditions& conditions) noexcept;
  Code refuse_nonfinite() noexcept;
  Code refuse_cancelled(const char* stage) noexcept;
  Code check_ids(std::span<const int32_t> ids) noexcept;

  std::unique_ptr<PiEngine> engine_;
  std::vector<float> actions_;

 private:
  Code run_context() noexcept;
  Code run_action() noexcept;

  bool context_pending_ = false, actions_ready_ = false;
  char error_[Error::kTextBytes] = {};
};

}  // namespace outrider
