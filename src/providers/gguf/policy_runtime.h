// The robot face: a port for every camera by its name, the state and the actions in robot units.
// Everything between those and the model is the policy description's.
//
// Ports, in this order: one picture port a camera, in the order of the slots; prompt; state;
// actions (out); noise, previous_chunk, prefix_weights, guidance_weight, prefix_steps, extra_tokens
// (all optional; a payload of 0 bytes takes the input back). An optional camera that is not staged
// is masked out; 0 bytes take it back.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "policy/pipeline.h"
#include "policy/prompt.h"
#include "providers/gguf/pi_face.h"
#include "vision/resize.h"

namespace outrider {

class PolicyRuntime final : public PiFace {
 public:
  // [setup] files->robot is there and fits. Errors: those of every part.
  static Result<std::unique_ptr<PiFace>> open(const PiOpenConfig& config,
                                              std::shared_ptr<const PiFiles> files);

  Code set_input(uint32_t port, const void* data, uint64_t bytes) noexcept override;
  std::vector<Port> ports() const override;

 private:
  // Ports behind the cameras.
  enum After : uint32_t {
    kPrompt,
    kState,
    kActions,
    kNoise,
    kPreviousChunk,
    kPrefixWeights,
    kGuidanceWeight,
    kPrefixSteps,
    kExtraTokens,
    kAfterCount
  };
  struct Camera {
    PolicyCamera spec;
    int64_t height = 0, width = 0;
    std::vector<Resizer> pil;          // one when bytes are resized
    std::vector<TorchResizer> torch;   // one when the rule gives floats
    std::vector<uint8_t> raw, pixels;  // as it came; at the model's size
    std::vector<float> scaled;
    std::string what;
    bool set = false;
  };
  // A float input of fixed length.
  struct Values {
    std::vector<float> values;
    bool set = false;
  };

  PolicyRuntime() = default;
  Result<void> prepare(const PiOpenConfig& config);
  Result<void> prepare_camera(const PiOpenConfig& config, const PolicyCamera& spec);
  uint32_t actions_port() const noexcept override { return port_of(kActions); }
  uint32_t port_of(After after) const noexcept {
    return static_cast<uint32_t>(cameras_.size()) + after;
  }
  std::string describe_face() const override;
  Code context() noexcept override;
  Code action() noexcept override;
  Code stage_camera(Camera& camera, const void* data, uint64_t bytes) noexcept;
  Code stage_prompt(const void* data, uint64_t bytes) noexcept;
  Code stage_values(Values& input, const char* name, const void* data, uint64_t bytes,
                    bool optional) noexcept;
  Code stage_after(uint32_t after, const void* data, uint64_t bytes) noexcept;
  Code check_ready() noexcept;
  Code write_prompt(std::span<const double> state, size_t& n_ids) noexcept;
  // What the optional inputs add to the Euler steps.
  Code conditions(PiConditions& out) noexcept;
  Code guidance(PiConditions& out) noexcept;
  Code hard_prefix(PiConditions& out) noexcept;
  Code previous_chunk_for(const char* port) noexcept;
  const PiConfig& pi_config() const { return engine_->pi_config(); }
  const PolicyDescription& robot() const { return *engine_->files().robot; }

  std::vector<Camera> cameras_;
  std::unique_ptr<PolicyPipeline> pipeline_;
  std::unique_ptr<PolicyPrompt> prompt_writer_;
  std::vector<char> prompt_;
  size_t prompt_bytes_ = 0;
  bool prompt_set_ = false, prompt_cut_ = false;
  Values state_, noise_, previous_chunk_, prefix_weights_, guidance_weight_, prefix_steps_,
      extra_tokens_;
  std::vector<float> guided_chunk_;  // previous_chunk in model space
  std::vector<int32_t> ids_;
  std::vector<double> shortest_state_;  // as text: one digit each
};

}  // namespace outrider
