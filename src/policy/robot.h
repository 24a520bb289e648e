// Conversions between what a robot measures and does, and what its training data held.
// Source: pi-policy.md 4.5.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace outrider {

enum class Robot : uint8_t { kCustom, kLibero, kDroid, kAloha };
const char* robot_name(Robot robot);  // "custom", "libero", "droid", "aloha"
// Errors: kInvalid listing the names.
Result<Robot> robot_named(std::string_view name);

// out = scale * in[from] + offset: one dimension of a declared conversion.
struct AffineDim {
  int64_t from = 0;
  double scale = 1, offset = 0;
  bool operator==(const AffineDim&) const = default;
};

// No robot converts more actions than this.
inline constexpr size_t kMaxConverted = 256;

// ALOHA's own space and the one pi was trained in: some joints turn the other way, the gripper is
// a length here and an angle there. Widths are kAlohaWidth.
inline constexpr size_t kAlohaWidth = 14;
double aloha_gripper_to_model(double opening) noexcept;  // state, 0 closed .. 1 open
double aloha_gripper_to_robot(double value) noexcept;    // actions
double aloha_gripper_from_robot(double value) noexcept;  // the inverse of the one above

// Both directions of one robot, widths in and out checked at make.
class RobotTransform {
 public:
  RobotTransform() = default;  // everything passes
  struct Spec {
    Robot robot = Robot::kCustom;
    bool adapt_to_pi = true;  // ALOHA alone
    int64_t state_width = 0, action_width = 0;
    // Declared conversions; empty: every dimension as it is.
    std::vector<AffineDim> state, actions;
  };
  // [setup] Errors: kInvalid (a dimension beyond the width), kShape (a width that the robot does
  // not have).
  static Result<RobotTransform> make(const Spec& spec);

  // Values of the state behind the conversion: what statistics and model see.
  int64_t model_state_width() const { return model_state_width_; }
  // [hot] raw [state_width] -> model [model_state_width].
  void state_to_model(std::span<const float> raw, std::span<double> model) const noexcept;
  // [hot] One row of actions in place, action_width values; those behind stay as they are.
  void actions_to_robot(std::span<double> row) const noexcept;
  // [hot] The way back, for a chunk that is to be continued. Only when invertible(): no declared
  // conversion reads one dimension twice.
  void actions_from_robot(std::span<double> row) const noexcept;
  bool invertible() const { return invertible_; }

 private:
  Spec spec_;
  int64_t model_state_width_ = 0;
  bool aloha_ = false, invertible_ = true;
};

}  // namespace outrider
