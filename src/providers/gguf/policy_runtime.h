// The robot face of PI0 and PI0.5. Ports of its own, all optional inputs, a payload of 0 bytes
// takes one back: noise, previous_chunk, prefix_weights, guidance_weight, prefix_steps,
// extra_tokens.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "providers/gguf/robot_face.h"

namespace outrider {

class PolicyRuntime final : public RobotFace {
 public:
  // [setup] files->robot is there and fits. Errors: those of every part.
  static Result<std::unique_ptr<PiFace>> open(const PiOpenConfig& config,
                                              std::shared_ptr<const PiFiles> files);

 private:
  enum Own : uint32_t {
    kNoise,
    kPreviousChunk,
    kPrefixWeights,
    kGuidanceWeight,
    kPrefixSteps,
    kExtraTokens,
    kOwnCount
  };

  PolicyRuntime() = default;
  void prepare_own();
  uint32_t n_own() const noexcept override { return kOwnCount; }
  Code stage_own(uint32_t own, const void* data, uint64_t bytes) noexcept override;
  void add_own_ports(std::vector<Port>& ports) const override;
  Code action() noexcept override;
  // What the optional inputs add to the Euler steps.
  Code conditions(PiConditions& out) noexcept;
  Code guidance(PiConditions& out) noexcept;
  Code hard_prefix(PiConditions& out) noexcept;
  Code previous_chunk_for(const char* port) noexcept;

  Values noise_, previous_chunk_, prefix_weights_, guidance_weight_, prefix_steps_, extra_tokens_;
  std::vector<float> guided_chunk_;  // previous_chunk in model space
};

}  // namespace outrider
