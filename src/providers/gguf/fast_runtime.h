// The robot face of PI0-FAST: stage `context` leaves the prefix, stage `action` writes the answer
// token by token and turns it into a chunk. No ports beyond those of every robot face: nothing of
// an answer can be given in advance. Source: pi-policy.md 12.
#pragma once
#include <memory>
#include <vector>

#include "policy/fast_answer.h"
#include "providers/gguf/robot_face.h"

namespace outrider {

class FastRuntime final : public RobotFace {
 public:
  // [setup] files->robot and files->action_tokens are there and fit. Errors: kUnsupported
  // (numerics that PI0-FAST does not have), kInvalid (num_steps), those of every part.
  static Result<std::unique_ptr<PiFace>> open(const PiOpenConfig& config,
                                              std::shared_ptr<const PiFiles> files);

 private:
  explicit FastRuntime(FastAnswer answer) : answer_(std::move(answer)) {}
  std::string describe_own() const override;
  Code action() noexcept override;
  // The answer in ids_, of n_ids_.
  Code write_answer() noexcept;
  Code undecodable(const FastAnswer::Verdict& verdict) noexcept;
  void tap_answer();

  FastAnswer answer_;
  std::vector<int32_t> ids_;
  size_t n_ids_ = 0;
  bool ended_ = false;  // by the end id, not by the budget
  std::vector<float> chunk_;
};

}  // namespace outrider
