// From the output of a driving policy to what the car is asked for: curvature, acceleration, stop.
// The rule belongs to the model whose output it is, so each runtime has its own.
// Source: driving specification c.5.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "driving/heads.h"
#include "driving/spec.h"

namespace outrider::driving {

enum class ActionRule : uint8_t {
  kHead,  // v15, v16: curvature action[0] / max(1, v)^2, acceleration action[1]
  kV14,   // curvature action[0] / 100, acceleration action[1]
  kV9,    // curvature of head desired_curvature, else the one before; acceleration of the plan
  kPlan   // both of the plan
};

struct ActionOptions {
  ActionRule rule = ActionRule::kHead;
  float lateral_tau_s = 0;  // of the smoothing; 0: none
  float longitudinal_tau_s = 0.3f;
};
struct Action {
  float curvature = 0;     // 1/m
  float acceleration = 0;  // m/s^2
  float stop = 0;          // 1: come to a stop and stay
};

inline constexpr int64_t kPlanRows = 33, kPlanColumns = 15;
// Times of the plan's rows: 10 (i/32)^2 seconds.
float plan_time_s(int64_t row) noexcept;

// y(t) of a column of the plan [33, 15], linear between its rows; below 0.3 s linear from the
// first.
float plan_at(std::span<const float> plan, int64_t column, float t_s) noexcept;

class ActionMaker {
 public:
  // [setup] `rule`: "auto", "v9", "v14", "v15", "v16" or "plan". Errors: kNotFound when the graph
  // has not the head that the rule reads.
  static Result<ActionRule> rule_of(std::string_view rule, const Spec& spec,
                                    const HeadParser& heads);
  ActionMaker(const ActionOptions& options, const Spec& spec, const HeadParser& heads);

  // [hot] v_ego m/s, times in seconds (action_t); less than a frame counts as one, 0.05 s. False: a
  // value is not finite; the previous action stays.
  bool step(const float* outputs, const HeadParser& heads, float v_ego, float lateral_s,
            float longitudinal_s) noexcept;
  const Action& last() const { return last_; }
  ActionRule rule() const { return options_.rule; }
  // [hot] The previous action is zero.
  void reset() noexcept { last_ = {}; }

 private:
  Action raw(const float* outputs, const float* plan, float v_ego, float lateral_s,
             float longitudinal_s) const noexcept;

  ActionOptions options_;
  int64_t head_at_ = -1, curvature_at_ = -1;
  size_t plan_at_ = 0;
  float lateral_k_ = 1, longitudinal_k_ = 1;
  Action last_;
};

}  // namespace outrider::driving
