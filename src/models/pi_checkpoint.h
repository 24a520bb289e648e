// PI0, PI0.5 or PI0-FAST from a folder of safetensors: openpi's PyTorch names, or LeRobot's (the
// same behind "model."). The embedding may go by either of its tied names; PI0-FAST with both has
// an output head of its own. A PI0.5 checkpoint may carry its time layers under PI0's names.
// Source: pi-policy.md 11.
#pragma once
#include <memory>

#include "models/pi_weights.h"
#include "safetensors/folder.h"

namespace outrider {

// The tensors under openpi's names, whatever the files call them.
class PiCheckpointSource final : public TensorSource {
 public:
  // PI0-FAST is a language model with its final norm and nothing of an action expert. Errors:
  // kNotFound when no tensor tells the family.
  static Result<PiCheckpointSource> make(std::shared_ptr<const SafeTensorsFolder> folder);

  std::optional<TensorInfo> find(std::string_view name) const override;
  const std::string& path() const override { return folder_->path(); }
  const SafeTensorsFolder& folder() const { return *folder_; }

  PiFamily family() const { return family_; }
  // Why: "tensor time_mlp_in.weight is present".
  const std::string& reason() const { return reason_; }
  const char* layout() const { return prefix_.empty() ? "openpi" : "lerobot"; }

 private:
  const SafeTensor* tensor(std::string_view name) const;
  Result<void> detect();

  std::shared_ptr<const SafeTensorsFolder> folder_;
  PiFamily family_ = PiFamily::kPi05;
  std::string prefix_, reason_;
  bool time_layers_renamed_ = false;
};

// What no tensor tells. 0: as in the base checkpoints, where the shapes allow it.
struct PiSizeHints {
  int64_t head_dim = 0, vision_heads = 0;
  int64_t action_steps = 50, n_denoise_steps = 10;
  // PI0-FAST: values of one row of the chunk, most tokens of one answer.
  int64_t action_dim = 0, answer_tokens = 256;
};

// Sizes from the tensors' shapes. Errors: kNotFound naming the tensor and shape; kShape when a hint
// does not fit or one is needed.
Result<PiConfig> read_pi_checkpoint_config(const PiCheckpointSource& source,
                                           const PiSizeHints& hints);
Result<PiWeights> read_pi_checkpoint(const PiCheckpointSource& source, const PiConfig& config);
Result<Matrix> read_pi_checkpoint_embedding(const PiCheckpointSource& source,
                                            const PiConfig& config);

}  // namespace outrider
