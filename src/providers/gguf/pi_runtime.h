// The plain pi0 face: one port for all pictures, raw prompt, normalised units in and out.
// Source: model-runtime ABI section 13.1.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "providers/gguf/pi_face.h"
#include "text/pi_prompt.h"
#include "vision/image.h"
#include "vision/resize.h"

namespace outrider {

class PiRuntime final : public PiFace {
 public:
  enum PortNumber : uint32_t { kImages, kPrompt, kState, kActions, kPortCount };
  static constexpr int64_t kMaxTextTokens = PiEngine::kMaxTextTokens;
  // More values than any robot has: set_input reads no further. What the model takes is checked by
  // the run.
  static constexpr uint64_t kMaxStateValues = 65536;
  // PI0.5 writes at most this many state values into the prompt.
  static constexpr int64_t kMaxTextState = 8;

  // [setup] Packs, takes all memory, warms up. Errors: those of every part.
  static Result<std::unique_ptr<PiFace>> open(const PiOpenConfig& config,
                                              std::shared_ptr<const PiFiles> files);

  Code set_input(uint32_t port, const void* data, uint64_t bytes) noexcept override;
  std::vector<Port> ports() const override;

 private:
  PiRuntime() = default;
  Result<void> prepare();
  uint32_t actions_port() const noexcept override { return kActions; }
  std::string describe_face() const override;
  Code context() noexcept override;
  Code action() noexcept override;
  Code stage_images(const void* data, uint64_t bytes) noexcept;
  Code stage_prompt(const void* data, uint64_t bytes) noexcept;
  Code stage_state(const void* data, uint64_t bytes) noexcept;
  Code check_ready() noexcept;
  Code check_state() noexcept;
  Code tokenize(size_t& n_ids) noexcept;
  const PiConfig& pi_config() const { return engine_->pi_config(); }

  PiOpenConfig config_;
  std::unique_ptr<SpmTokenizer::Scratch> scratch_;
  std::vector<Resizer> resizer_;  // one when the opened size is not the model's

  std::vector<uint8_t> raw_rgb_;  // one view as it came
  std::vector<uint8_t> views_;    // n_views at the model's size
  std::vector<char> prompt_, text_;
  std::vector<float> state_, padded_state_;
  std::vector<int32_t> ids_;
  size_t prompt_bytes_ = 0;
  uint64_t n_state_ = 0;
  bool images_set_ = false, prompt_set_ = false, state_set_ = false;
};

// One picture as a host hands it in, checked against what the port was opened for. `what` names it
// in the text. Errors as check_image; kShape for another size.
Result<ImageView> read_image_view(const void* data, int64_t height, int64_t width,
                                  const char* what) noexcept;

}  // namespace outrider
