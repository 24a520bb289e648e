#include "policy/description.h"

#include <algorithm>

namespace outrider {
namespace {

PolicyCamera camera(const char* name, int64_t slot, bool required) {
  return {name, slot, required, false, 0, 0};
}

void libero(PolicyDescription& p, PiFamily family) {
  p.cameras = {camera("observation/image", 0, true), camera("observation/wrist_image", 1, true)};
  p.state = {{"observation/state", 8, "m (3), axis-angle rad (3), gripper m (2)"}};
  p.action_width = 7;
  p.action_unit = "end-effector step (6), gripper";
  if (family != PiFamily::kPi05) p.delta_mask = {true, true, true, true, true, true, false};
  p.state_in_text = false;  // the released PI0.5 recipe leaves the state out
}

void droid(PolicyDescription& p, PiFamily family) {
  // PI0-FAST has a second base view between the two, always black.
  const int64_t wrist = family == PiFamily::kPi0Fast ? 2 : 1;
  p.cameras = {camera("observation/exterior_image_1_left", 0, true),
               camera("observation/wrist_image_left", wrist, true)};
  p.state = {{"observation/joint_position", 7, "rad"},
             {"observation/gripper_position", 1, "0 open, 1 closed"}};
  p.action_width = 8;
  p.action_unit = "joint velocity (7), gripper position";
}

void aloha(PolicyDescription& p) {
  p.cameras = {camera("cam_high", 0, true), camera("cam_left_wrist", 1, false),
               camera("cam_right_wrist", 2, false)};
  p.state = {{"state", 14, "rad (6), gripper 0 closed .. 1 open, twice"}};
  p.action_width = 14;
  p.action_unit = "rad (6), gripper, twice";
  p.delta_mask = delta_mask_of(std::array<int64_t, 4>{6, -1, 6, -1}).value();
}

Result<void> check_cameras(const PolicyDescription& policy, PiFamily family) {
  if (policy.cameras.empty() || static_cast<int64_t>(policy.cameras.size()) > kMaxCameras)
    return make_error(Code::kInvalid, "policy: cameras has %zu entries, allowed 1..%lld",
                      policy.cameras.size(), static_cast<long long>(kMaxCameras));
  static constexpr std::array kTaken = {"prompt",          "state",          "actions",
                                        "noise",           "previous_chunk", "prefix_weights",
                                        "guidance_weight", "prefix_steps",   "extra_tokens"};
  bool any_required = false;
  for (size_t i = 0; i < policy.cameras.size(); ++i) {
    const PolicyCamera& c = policy.cameras[i];
    if (c.slot < 0 || c.slot >= kMaxCameras)
      return make_error(Code::kInvalid, "policy: camera \"%.80s\" has slot %lld, allowed 0..2",
                        c.name.c_str(), static_cast<long long>(c.slot));
    if (c.name.empty() || c.name.size() > 90 ||
        std::any_of(c.name.begin(), c.name.end(),
                    [](char ch) { return static_cast<unsigned char>(ch) < 0x21 || ch == 0x7F; }))
      return make_error(Code::kInvalid,
                        "policy: a camera's name is \"%.90s\"; wanted 1..90 bytes without blanks",
                        c.name.c_str());
    if (c.fast_slot && family != PiFamily::kPi0Fast && c.slot > 0)
      return make_error(Code::kInvalid,
                        "policy: camera \"%.80s\" goes to slot %s, which %s does not have; its "
                        "slots are %s, %s, %s",
                        c.name.c_str(), kFastCameraSlots[static_cast<size_t>(c.slot)],
                        pi_family_name(family), kCameraSlots[0], kCameraSlots[1], kCameraSlots[2]);
    for (const char* taken : kTaken) {
      if (c.name == taken)
        return make_error(Code::kInvalid,
                          "policy: a camera is named \"%s\", as another port is; rename it", taken);
    }
    any_required = any_required || c.required;
    for (size_t j = 0; j < i; ++j) {
      if (policy.cameras[j].name == c.name)
        return make_error(Code::kInvalid, "policy: camera \"%.80s\" is named twice",
                          c.name.c_str());
      if (policy.cameras[j].slot == c.slot)
        return make_error(Code::kInvalid,
                          "policy: cameras \"%.80s\" and \"%.80s\" both go to slot %s",
                          policy.cameras[j].name.c_str(), c.name.c_str(),
                          kCameraSlots[static_cast<size_t>(c.slot)]);
    }
    if (i > 0 && policy.cameras[i - 1].slot > c.slot)
      return make_error(Code::kInvalid, "policy: cameras are not in the order of their slots");
  }
  if (!any_required)
    return make_error(Code::kInvalid, "policy: every camera is optional; one must be required");
  return {};
}

}  // namespace

int64_t PolicyDescription::state_width() const {
  int64_t width = 0;
  for (const StateField& field : state) width += field.size;
  return width;
}

PolicyDescription policy_defaults(Robot robot, PiFamily family) {
  PolicyDescription p;
  p.robot = robot;
  switch (robot) {
    case Robot::kCustom:
      break;
    case Robot::kLibero:
      libero(p, family);
      break;
    case Robot::kDroid:
      droid(p, family);
      break;
    case Robot::kAloha:
      aloha(p);
      break;
  }
  return p;
}

Result<std::vector<bool>> delta_mask_of(std::span<const int64_t> runs) {
  std::vector<bool> mask;
  for (const int64_t run : runs) {
    if (run == 0 || run > kMaxStatisticsWidth || run < -kMaxStatisticsWidth)
      return make_error(Code::kInvalid,
                        "delta_mask: a run of %lld, wanted a count of relative dimensions, or of "
                        "absolute ones with a minus",
                        static_cast<long long>(run));
    mask.insert(mask.end(), static_cast<size_t>(run < 0 ? -run : run), run > 0);
  }
  return mask;
}

NormForm state_form(const PolicyDescription& policy, PiFamily family) {
  return policy.state_form.value_or(family == PiFamily::kPi0 ? NormForm::kZScore
                                                             : NormForm::kQuantile);
}
NormForm action_form(const PolicyDescription& policy, PiFamily family) {
  return policy.action_form.value_or(family == PiFamily::kPi0 ? NormForm::kZScore
                                                              : NormForm::kQuantile);
}
bool state_in_text(const PolicyDescription& policy, PiFamily family) {
  return family == PiFamily::kPi0Fast ||
         (family == PiFamily::kPi05 && policy.state_in_text.value_or(true));
}
int64_t max_tokens(const PolicyDescription& policy, PiFamily family) {
  if (policy.max_tokens > 0) return policy.max_tokens;
  return family == PiFamily::kPi0 ? 48 : family == PiFamily::kPi05 ? 200 : 250;
}

Result<void> check_policy(const PolicyDescription& policy, PiFamily family) {
  if (policy.family && *policy.family != family)
    return make_error(Code::kNotFound, "policy: family is %s, the checkpoint's tensors say %s",
                      pi_family_name(*policy.family), pi_family_name(family));
  OUTRIDER_TRY(check_cameras(policy, family));
  const int64_t width = policy.state_width();
  if (policy.state.empty() || width < 1 || width > kMaxStatisticsWidth)
    return make_error(Code::kInvalid,
                      "policy: state has %zu fields of %lld values together, allowed 1..%lld",
                      policy.state.size(), static_cast<long long>(width),
                      static_cast<long long>(kMaxStatisticsWidth));
  if (policy.action_width < 1 || policy.action_width > kMaxStatisticsWidth)
    return make_error(Code::kInvalid, "policy: actions.size is %lld, allowed 1..%lld",
                      static_cast<long long>(policy.action_width),
                      static_cast<long long>(kMaxStatisticsWidth));
  if (!policy.action_names.empty() &&
      static_cast<int64_t>(policy.action_names.size()) != policy.action_width)
    return make_error(Code::kShape, "policy: actions.names has %zu entries, actions.size is %lld",
                      policy.action_names.size(), static_cast<long long>(policy.action_width));
  const auto n_mask = static_cast<int64_t>(policy.delta_mask.size());
  auto transform =
      RobotTransform::make({policy.robot, policy.adapt_to_pi, width, policy.action_width,
                            policy.state_convert, policy.action_convert});
  if (!transform) return make_error(transform.code(), "policy: %s", transform.error().text);
  if (n_mask != 0 && n_mask != policy.action_width)
    return make_error(Code::kShape,
                      "policy: delta_mask covers %lld dimensions, actions.size is %lld; cover each",
                      static_cast<long long>(n_mask), static_cast<long long>(policy.action_width));
  const int64_t model_width = transform.value().model_state_width();
  for (int64_t i = model_width; i < n_mask; ++i) {
    if (policy.delta_mask[static_cast<size_t>(i)])
      return make_error(Code::kShape,
                        "policy: delta_mask says dimension %lld is relative to the state, which "
                        "has %lld values",
                        static_cast<long long>(i), static_cast<long long>(model_width));
  }
  const NormOptions state{state_form(policy, family), policy.norm_rule, policy.epsilon},
      actions{action_form(policy, family), policy.norm_rule, policy.epsilon};
  const std::string origin =
      policy.statistics.origin.empty() ? "no statistics found" : policy.statistics.origin;
  auto normalizer =
      Normalizer::make(state, policy.statistics.state, model_width, origin + ": state");
  if (!normalizer) return normalizer.error();
  normalizer = Normalizer::make(actions, policy.statistics.actions, policy.action_width,
                                origin + ": actions");
  if (!normalizer) return normalizer.error();
  return {};
}

}  // namespace outrider
