#include "driving/action.h"

#include <algorithm>
#include <cmath>

namespace outrider::driving {
namespace {

constexpr float kFramePeriod_s = 0.05f;
constexpr float kLinear_s = 0.3f;        // below it the plan is taken to start straight
constexpr float kSteerSpeed_mps = 0.3f;  // at or below it the curvature is kept
constexpr float kStopSpeed_mps = 0.3f, kStopAcceleration = 0.1f;
// Columns of a plan row.
enum Column : int64_t { kVelocity = 3, kAcceleration = 6, kYaw = 11, kYawRate = 14 };

float gain(float tau_s) {
  return tau_s > 0 ? 1.0f - std::exp(-kFramePeriod_s / tau_s) : 1.0f;
}

}  // namespace

float plan_time_s(int64_t row) noexcept {
  const float part = static_cast<float>(row) / static_cast<float>(kPlanRows - 1);
  return 10.0f * part * part;
}

float plan_at(std::span<const float> plan, int64_t column, float t_s) noexcept {
  const auto at = [&](int64_t row) {
    return plan[static_cast<size_t>(row * kPlanColumns + column)];
  };
  if (t_s < kLinear_s)
    return at(0) + (plan_at(plan, column, kLinear_s) - at(0)) * (t_s / kLinear_s);
  int64_t row = 1;
  while (row < kPlanRows - 1 && plan_time_s(row) < t_s) ++row;
  const float t0 = plan_time_s(row - 1), t1 = plan_time_s(row);
  const float part = std::min((t_s - t0) / (t1 - t0), 1.0f);  // beyond the last row: its value
  return at(row - 1) + (at(row) - at(row - 1)) * part;
}

Result<ActionRule> ActionMaker::rule_of(std::string_view rule, const Spec& spec,
                                        const HeadParser& heads) {
  const Range* action = spec.find_slice("action");
  const bool has_action = action != nullptr && action->size() >= 2;
  const bool plan_rule = rule == "v9" || rule == "plan" || (rule == "auto" && !has_action);
  if (plan_rule && heads.find("plan") == nullptr)
    return make_error(Code::kNotFound, "driving: action \"%.10s\" needs the head \"plan\"",
                      std::string(rule).c_str());
  if (!plan_rule && !has_action)
    return make_error(Code::kNotFound,
                      "driving: action \"%.10s\" needs the head \"action\" of 2 values or more",
                      std::string(rule).c_str());
  if (rule == "v9") return ActionRule::kV9;
  if (plan_rule) return ActionRule::kPlan;
  return rule == "v14" ? ActionRule::kV14 : ActionRule::kHead;
}

ActionMaker::ActionMaker(const ActionOptions& options, const Spec& spec, const HeadParser& heads)
    : options_(options),
      lateral_k_(gain(options.lateral_tau_s)),
      longitudinal_k_(gain(options.longitudinal_tau_s)) {
  if (const Range* range = spec.find_slice("action")) head_at_ = range->begin;
  if (const Range* range = spec.find_slice("desired_curvature")) curvature_at_ = range->begin;
  if (const HeadArray* plan = heads.find("plan")) plan_at_ = plan->offset;
}

Action ActionMaker::raw(const float* outputs, const float* plan_values, float v_ego,
                        float lateral_s, float longitudinal_s) const noexcept {
  const float v = std::max(1.0f, v_ego);
  Action action = last_;
  if (options_.rule == ActionRule::kHead || options_.rule == ActionRule::kV14) {
    const bool v14 = options_.rule == ActionRule::kV14;
    action.curvature = outputs[head_at_] / (v14 ? 100.0f : v * v);
    action.acceleration = outputs[head_at_ + 1];
    return action;
  }
  const std::span<const float> plan(plan_values, static_cast<size_t>(kPlanRows * kPlanColumns));
  const float v0 = plan[kVelocity], a0 = plan[kAcceleration];
  action.acceleration =
      2.0f * (plan_at(plan, kVelocity, longitudinal_s) - v0) / longitudinal_s - a0;
  if (options_.rule == ActionRule::kPlan)
    action.curvature = 2.0f * plan_at(plan, kYaw, lateral_s) / (v * lateral_s) - plan[kYawRate] / v;
  else if (curvature_at_ >= 0)
    action.curvature = outputs[curvature_at_];
  return action;
}

bool ActionMaker::step(const float* outputs, const HeadParser& heads, float v_ego, float lateral_s,
                       float longitudinal_s) noexcept {
  lateral_s = std::max(lateral_s, kFramePeriod_s);
  longitudinal_s = std::max(longitudinal_s, kFramePeriod_s);
  Action next = raw(outputs, heads.values().data() + plan_at_, v_ego, lateral_s, longitudinal_s);
  if (!std::isfinite(next.curvature) || !std::isfinite(next.acceleration)) return false;
  next.stop = v_ego < kStopSpeed_mps && next.acceleration < kStopAcceleration ? 1.0f : 0.0f;
  next.acceleration =
      longitudinal_k_ * next.acceleration + (1.0f - longitudinal_k_) * last_.acceleration;
  next.curvature = v_ego > kSteerSpeed_mps
                       ? lateral_k_ * next.curvature + (1.0f - lateral_k_) * last_.curvature
                       : last_.curvature;
  last_ = next;
  return true;
}

}  // namespace outrider::driving
