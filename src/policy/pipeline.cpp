#include "policy/pipeline.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace outrider {

Result<PolicyPipeline> PolicyPipeline::make(const PolicyDescription& policy, PiFamily family,
                                            int64_t model_width, int64_t columns) {
  OUTRIDER_TRY(check_policy(policy, family));
  PolicyPipeline out;
  out.state_width_ = policy.state_width();
  out.action_width_ = policy.action_width;
  out.model_width_ = model_width;
  out.columns_ = columns;
  auto transform =
      RobotTransform::make({policy.robot, policy.adapt_to_pi, out.state_width_, policy.action_width,
                            policy.state_convert, policy.action_convert});
  if (!transform) return transform.error();
  out.transform_ = std::move(transform.value());
  const int64_t state_model = out.transform_.model_state_width();
  if (policy.action_width > model_width)
    return make_error(Code::kShape,
                      "policy: the robot has %lld actions, the model gives %lld; this checkpoint "
                      "is for another robot",
                      static_cast<long long>(policy.action_width),
                      static_cast<long long>(model_width));
  if (family == PiFamily::kPi0 && state_model > model_width)
    return make_error(Code::kShape,
                      "policy: the robot has %lld state values, PI0 reads %lld; this checkpoint is "
                      "for another robot",
                      static_cast<long long>(state_model), static_cast<long long>(model_width));
  if (columns != policy.action_width && columns != model_width)
    return make_error(Code::kShape,
                      "config: action_dim is %lld, allowed are %lld (the robot's) and %lld (the "
                      "model's)",
                      static_cast<long long>(columns), static_cast<long long>(policy.action_width),
                      static_cast<long long>(model_width));
  const std::string& origin = policy.statistics.origin;
  auto norm = Normalizer::make({state_form(policy, family), policy.norm_rule, policy.epsilon},
                               policy.statistics.state, state_model, origin + ": state");
  if (!norm) return norm.error();
  out.state_norm_ = std::move(norm.value());
  norm = Normalizer::make({action_form(policy, family), policy.norm_rule, policy.epsilon},
                          policy.statistics.actions, policy.action_width, origin + ": actions");
  if (!norm) return norm.error();
  out.action_norm_ = std::move(norm.value());
  // A chunk narrower than its statistics cannot be un-normalised: the reference refuses it too.
  if (out.action_norm_.options().form != NormForm::kNone &&
      policy.statistics.actions.width() > model_width)
    return make_error(Code::kShape,
                      "%.250s: actions: statistics for %lld dimensions, the model gives %lld",
                      origin.c_str(), static_cast<long long>(policy.statistics.actions.width()),
                      static_cast<long long>(model_width));
  out.delta_mask_ = policy.delta_mask;
  out.measured_.resize(static_cast<size_t>(state_model));
  out.normalised_.resize(out.measured_.size());
  out.added_.resize(out.delta_mask_.size());
  out.padded_.resize(static_cast<size_t>(model_width));
  out.row_.resize(static_cast<size_t>(model_width));
  return out;
}

void PolicyPipeline::take_state(std::span<const float> raw) noexcept {
  transform_.state_to_model(raw, measured_);
  n_outside_ = 0;
  for (size_t i = 0; i < measured_.size(); ++i) {
    normalised_[i] = state_norm_.forward(i, measured_[i]);
    n_outside_ += state_norm_.outside(normalised_[i]);
  }
  std::fill(padded_.begin(), padded_.end(), 0.0f);
  const size_t n = std::min(padded_.size(), normalised_.size());
  for (size_t i = 0; i < n; ++i) padded_[i] = static_cast<float>(normalised_[i]);
  const bool openpi = state_norm_.options().rule == NormRule::kOpenpi;
  for (size_t i = 0; i < added_.size(); ++i) {
    added_[i] = 0;
    if (!delta_mask_[i]) continue;
    const auto through_f32 = static_cast<double>(static_cast<float>(normalised_[i]));
    added_[i] = openpi ? state_norm_.inverse(i, through_f32) : measured_[i];
  }
}

bool PolicyPipeline::finish(std::span<const float> chunk, std::span<float> out) noexcept {
  const auto width = static_cast<size_t>(model_width_), columns = static_cast<size_t>(columns_);
  OUTRIDER_ASSERT(chunk.size() % width == 0 && out.size() == chunk.size() / width * columns);
  bool fits = true;
  for (size_t r = 0; r < chunk.size() / width; ++r) {
    for (size_t i = 0; i < width; ++i)
      row_[i] = action_norm_.inverse(i, static_cast<double>(chunk[r * width + i]));
    for (size_t i = 0; i < added_.size(); ++i) row_[i] += added_[i];
    transform_.actions_to_robot(row_);
    for (size_t i = 0; i < columns; ++i) {
      const auto value = static_cast<float>(row_[i]);
      fits = fits && std::isfinite(value);
      out[r * columns + i] = value;
    }
  }
  return fits;
}

void PolicyPipeline::to_model(std::span<const float> robot, std::span<float> chunk) noexcept {
  const auto width = static_cast<size_t>(model_width_), columns = static_cast<size_t>(columns_);
  OUTRIDER_ASSERT(robot.size() % columns == 0 && chunk.size() == robot.size() / columns * width);
  const auto n_robot = static_cast<size_t>(action_width_);
  for (size_t r = 0; r < robot.size() / columns; ++r) {
    std::fill(row_.begin(), row_.end(), 0.0);
    std::copy_n(robot.begin() + static_cast<int64_t>(r * columns), n_robot, row_.begin());
    transform_.actions_from_robot(row_);
    for (size_t i = 0; i < width; ++i) {
      const double relative = row_[i] - (i < added_.size() ? added_[i] : 0.0);
      chunk[r * width + i] =
          i < n_robot ? static_cast<float>(action_norm_.forward(i, relative)) : 0.0f;
    }
  }
}

}  // namespace outrider
