// The way in and the way out of one policy: robot state to what the model reads, action chunk to
// what the robot does. All memory is taken at make; the hot calls allocate nothing.
//
// In:  robot conversion -> normalise -> (text: as it is; PI0's state token: f32, zero padded).
// Out: un-normalise -> add the state on relative dimensions -> robot conversion -> the robot's
//      columns. The state that is added is the one of take_state, taken through normalised space
//      like the reference does (openpi), or as measured (LeRobot).
// Source: pi-policy.md 2, 4.3 to 4.5.
#pragma once
#include <span>
#include <vector>

#include "policy/description.h"

namespace outrider {

class PolicyPipeline {
 public:
  // [setup] model_width: columns of the model's chunk. columns: how many of them `finish` gives:
  // the robot's action_width, or model_width. Errors: those of check_policy; kShape when the robot
  // does not fit the model.
  static Result<PolicyPipeline> make(const PolicyDescription& policy, PiFamily family,
                                     int64_t model_width, int64_t columns);

  int64_t state_width() const { return state_width_; }
  int64_t columns() const { return columns_; }

  // [hot] raw [state_width] in robot units, finite.
  void take_state(std::span<const float> raw) noexcept;
  // [hot] After take_state. Not padded: what goes into the text.
  std::span<const double> normalised_state() const { return normalised_; }
  // [hot] After take_state. [model_width]: what PI0's state token reads.
  std::span<const float> padded_state() const { return padded_; }
  // Values of the last state outside the range of its statistics.
  int64_t n_outside() const { return n_outside_; }

  // [hot] chunk [rows, model_width] as the model gives it -> out [rows, columns]. False when a
  // value does not fit f32.
  bool finish(std::span<const float> chunk, std::span<float> out) noexcept;
  // [hot] The way back for a chunk that is to be continued: robot units [rows, columns] ->
  // normalised [rows, model_width], relative dimensions against the last take_state. Columns behind
  // the robot's become 0. Only when can_return().
  void to_model(std::span<const float> robot, std::span<float> chunk) noexcept;
  bool can_return() const { return transform_.invertible(); }

 private:
  PolicyPipeline() = default;

  RobotTransform transform_;
  Normalizer state_norm_, action_norm_;
  int64_t state_width_ = 0, model_width_ = 0, action_width_ = 0, columns_ = 0, n_outside_ = 0;
  std::vector<bool> delta_mask_;
  std::vector<double> measured_, normalised_, added_, row_;
  std::vector<float> padded_;
};

}  // namespace outrider
