#include "policy/robot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/assert.h"

namespace outrider {
namespace {

constexpr const char* kRobotNames[] = {"custom", "libero", "droid", "aloha"};

// Which way ALOHA's joints turn, seen from the training data. Grippers are 6 and 13.
constexpr double kAlohaSigns[kAlohaWidth] = {1, -1, -1, 1, 1, 1, 1, 1, -1, -1, 1, 1, 1, 1};
constexpr size_t kGrippers[] = {6, 13};

// Gripper of the robot: finger position in metres, closed and open.
constexpr double kFingerClosed = 0.01844, kFingerOpen = 0.05800;
// Of the linkage between finger and motor: horn and rod in metres.
constexpr double kHorn = 0.022, kRod = 0.036;
// Of the motor angle in the training data's robot and in ALOHA's, radians, closed and open.
constexpr double kAngleClosed = 0.5476, kAngleOpen = 1.6296;
constexpr double kMotorClosed = -0.6213, kMotorOpen = 1.4910;

Result<void> check_dims(const std::vector<AffineDim>& dims, int64_t width, const char* what) {
  for (size_t i = 0; i < dims.size(); ++i) {
    const AffineDim& d = dims[i];
    if (d.from < 0 || d.from >= width)
      return make_error(Code::kInvalid, "%s.convert[%zu]: from is %lld, allowed 0..%lld", what, i,
                        static_cast<long long>(d.from), static_cast<long long>(width - 1));
    if (!std::isfinite(d.scale) || !std::isfinite(d.offset) || d.scale == 0)
      return make_error(Code::kInvalid,
                        "%s.convert[%zu]: scale %g and offset %g, wanted finite numbers and a "
                        "scale other than 0",
                        what, i, d.scale, d.offset);
  }
  return {};
}

}  // namespace

const char* robot_name(Robot robot) {
  return kRobotNames[static_cast<size_t>(robot)];
}

Result<Robot> robot_named(std::string_view name) {
  const auto found = std::find(std::begin(kRobotNames), std::end(kRobotNames), name);
  if (found != std::end(kRobotNames)) return static_cast<Robot>(found - std::begin(kRobotNames));
  return make_error(Code::kInvalid,
                    "robot is \"%.60s\", allowed are \"libero\", \"droid\", \"aloha\", \"custom\"",
                    std::string(name).c_str());
}

double aloha_gripper_to_model(double opening) noexcept {
  const double p = opening * (kFingerOpen - kFingerClosed) + kFingerClosed;
  const double q = (kHorn * kHorn + p * p - kRod * kRod) / (2 * kHorn * p);
  const double angle = std::asin(std::clamp(q, -1.0, 1.0));
  return (angle - kAngleClosed) / (kAngleOpen - kAngleClosed);
}

double aloha_gripper_to_robot(double value) noexcept {
  return (value + kAngleClosed - kMotorClosed) / (kMotorOpen - kMotorClosed);
}

double aloha_gripper_from_robot(double value) noexcept {
  return value * (kMotorOpen - kMotorClosed) + kMotorClosed - kAngleClosed;
}

Result<RobotTransform> RobotTransform::make(const Spec& spec) {
  RobotTransform out;
  out.spec_ = spec;
  out.aloha_ = spec.robot == Robot::kAloha && spec.adapt_to_pi;
  const auto width = static_cast<int64_t>(kAlohaWidth);
  if (out.aloha_ && (spec.state_width != width || spec.action_width != width))
    return make_error(Code::kShape,
                      "robot aloha has %lld state values and %lld actions; adapt_to_pi is made for "
                      "%lld of each",
                      static_cast<long long>(spec.state_width),
                      static_cast<long long>(spec.action_width), static_cast<long long>(width));
  if (out.aloha_ && (!spec.state.empty() || !spec.actions.empty()))
    return make_error(Code::kInvalid,
                      "robot aloha with adapt_to_pi converts by itself; leave convert out, or say "
                      "adapt_to_pi false");
  OUTRIDER_TRY(check_dims(spec.state, spec.state_width, "state"));
  OUTRIDER_TRY(check_dims(spec.actions, spec.action_width, "actions"));
  if (spec.actions.size() > kMaxConverted)
    return make_error(Code::kShape, "actions.convert has %zu entries, allowed %zu",
                      spec.actions.size(), kMaxConverted);
  if (!spec.actions.empty() && static_cast<int64_t>(spec.actions.size()) != spec.action_width)
    return make_error(Code::kShape, "actions.convert has %zu entries, the robot has %lld actions",
                      spec.actions.size(), static_cast<long long>(spec.action_width));
  out.model_state_width_ =
      spec.state.empty() ? spec.state_width : static_cast<int64_t>(spec.state.size());
  for (size_t i = 0; i < spec.actions.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      out.invertible_ = out.invertible_ && spec.actions[i].from != spec.actions[j].from;
  }
  return out;
}

void RobotTransform::state_to_model(std::span<const float> raw,
                                    std::span<double> model) const noexcept {
  OUTRIDER_ASSERT(static_cast<int64_t>(raw.size()) == spec_.state_width);
  OUTRIDER_ASSERT(static_cast<int64_t>(model.size()) == model_state_width_);
  if (!spec_.state.empty()) {
    for (size_t i = 0; i < model.size(); ++i) {
      const AffineDim& d = spec_.state[i];
      model[i] = d.scale * static_cast<double>(raw[static_cast<size_t>(d.from)]) + d.offset;
    }
    return;
  }
  std::copy(raw.begin(), raw.end(), model.begin());
  if (!aloha_) return;
  for (size_t i = 0; i < kAlohaWidth; ++i) model[i] *= kAlohaSigns[i];
  for (const size_t i : kGrippers) model[i] = aloha_gripper_to_model(model[i]);
}

void RobotTransform::actions_to_robot(std::span<double> row) const noexcept {
  if (aloha_) {
    OUTRIDER_ASSERT(row.size() >= kAlohaWidth);
    for (size_t i = 0; i < kAlohaWidth; ++i) row[i] *= kAlohaSigns[i];
    for (const size_t i : kGrippers) row[i] = aloha_gripper_to_robot(row[i]);
    return;
  }
  if (spec_.actions.empty()) return;
  OUTRIDER_ASSERT(row.size() >= spec_.actions.size() && spec_.actions.size() <= kMaxConverted);
  std::array<double, kMaxConverted> in;
  std::copy_n(row.begin(), spec_.actions.size(), in.begin());
  for (size_t i = 0; i < spec_.actions.size(); ++i) {
    const AffineDim& d = spec_.actions[i];
    row[i] = d.scale * in[static_cast<size_t>(d.from)] + d.offset;
  }
}

void RobotTransform::actions_from_robot(std::span<double> row) const noexcept {
  OUTRIDER_ASSERT(invertible_);
  if (aloha_) {
    OUTRIDER_ASSERT(row.size() >= kAlohaWidth);
    for (const size_t i : kGrippers) row[i] = aloha_gripper_from_robot(row[i]);
    for (size_t i = 0; i < kAlohaWidth; ++i) row[i] *= kAlohaSigns[i];
    return;
  }
  if (spec_.actions.empty()) return;
  OUTRIDER_ASSERT(row.size() >= spec_.actions.size() && spec_.actions.size() <= kMaxConverted);
  std::array<double, kMaxConverted> in;
  std::copy_n(row.begin(), spec_.actions.size(), in.begin());
  for (size_t i = 0; i < spec_.actions.size(); ++i) {
    const AffineDim& d = spec_.actions[i];
    row[static_cast<size_t>(d.from)] = (in[i] - d.offset) / d.scale;
  }
}

}  // namespace outrider
