// Everything between a raw observation and a robot action, as data: which camera goes where, what
// the state is made of, units, statistics, prompt rule, delta mask, horizon, rate. One policy.json,
// checked against its schema; docs/reference/policy.md lists every key.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "models/pi_config.h"
#include "policy/normalize.h"
#include "policy/robot.h"

namespace outrider {

// Slots of the model in their fixed order. Source: pi-policy.md 3.
inline constexpr std::array<const char*, 3> kCameraSlots = {"base_0_rgb", "left_wrist_0_rgb",
                                                            "right_wrist_0_rgb"};
// PI0-FAST calls its slots otherwise.
inline constexpr std::array<const char*, 3> kFastCameraSlots = {"base_0_rgb", "base_1_rgb",
                                                                "wrist_0_rgb"};
inline constexpr int64_t kMaxCameras = 3;

struct PolicyCamera {
  std::string name;  // the port's name
  int64_t slot = 0;  // index into kCameraSlots or kFastCameraSlots
  // An optional camera that is absent is masked out; PI0-FAST sees a black picture.
  bool required = true;
  bool rotate_180 = false;
  int64_t height = 0, width = 0;  // of the pictures that will come; 0: the model's own
  bool fast_slot = false;         // the description gave PI0-FAST's name of the slot
  bool operator==(const PolicyCamera&) const = default;
};

struct StateField {
  std::string name;
  int64_t size = 0;
  std::string unit;  // "" when nobody said
  bool operator==(const StateField&) const = default;
};

enum class PromptRule : uint8_t { kOpenpi, kLerobot };
enum class ResizeChoice : uint8_t { kPil, kTorch };
enum class TooLong : uint8_t { kRefuse, kCut };
// An answer of PI0-FAST that is no chunk: refused, or a chunk of zeros in normalised units, as
// openpi gives; or cut and filled with zeros where only the number of coefficients is wrong, as
// LeRobot does, and refused otherwise.
enum class Undecodable : uint8_t { kRefuse, kZeros, kFit };

struct PolicyDescription {
  Robot robot = Robot::kCustom;
  std::optional<PiFamily> family;  // given ones must be what the tensors say
  std::string checkpoint;          // folder with the weights; "": the description's own
  std::string tokenizer;           // SentencePiece model file; "": looked for
  std::string asset_id;            // folder below assets/ with norm_stats.json; "": the only one

  std::vector<PolicyCamera> cameras;  // by slot
  std::vector<StateField> state;      // in the order of the state port
  std::vector<AffineDim> state_convert;
  int64_t action_width = 0;  // what the robot takes
  std::vector<std::string> action_names;
  std::string action_unit;
  std::vector<AffineDim> action_convert;
  std::vector<bool> delta_mask;  // by action dimension; empty: all absolute
  bool adapt_to_pi = true;

  std::string default_prompt;
  std::optional<bool> state_in_text;  // PI0.5 alone; PI0-FAST always has it
  PromptRule prompt_rule = PromptRule::kOpenpi;
  int64_t max_tokens = 0;  // 0: 48 for PI0, 200 for PI0.5, 250 for PI0-FAST
  TooLong too_long = TooLong::kRefuse;

  NormRule norm_rule = NormRule::kOpenpi;
  double epsilon = 1e-6;
  std::optional<NormForm> state_form, action_form;  // absent: by family
  PolicyStatistics statistics;
  std::string statistics_path;  // "": looked for below assets/

  // PI0-FAST: the answer.
  struct ActionTokens {
    std::string tokenizer;  // folder with tokenizer.json and processor_config.json; "": looked for
    int64_t most = 0;       // tokens of one answer; 0: 256
    Undecodable undecodable = Undecodable::kRefuse;
    bool operator==(const ActionTokens&) const = default;
  } action_tokens;

  ResizeChoice resize = ResizeChoice::kPil;
  int64_t horizon = 0;    // rows of the chunk; 0: 50
  int64_t num_steps = 0;  // Euler steps; 0: 10
  double rate_hz = 0;     // 0: nobody said

  // Sizes that no tensor tells; 0: the ones of the base checkpoints.
  struct ModelSizes {
    int64_t head_dim = 0, vision_heads = 0;
    int64_t action_dim = 0;  // PI0-FAST: columns of the chunk; 0: the robot's
    bool operator==(const ModelSizes&) const = default;
  } model;

  int64_t state_width() const;
};

// A document of this kind is no larger.
inline constexpr size_t kMaxPolicyBytes = size_t{4} << 20;

inline const char* camera_slot_name(const PolicyCamera& camera) {
  return (camera.fast_slot ? kFastCameraSlots : kCameraSlots)[static_cast<size_t>(camera.slot)];
}

// [setup] What a robot of this name and a policy of this family have by default; "custom" has
// nothing. Source: pi-policy.md 4.4, 4.5.
PolicyDescription policy_defaults(Robot robot, PiFamily family);

// [setup] Strict: an unknown key, a repeated one, a wrong type or a value out of range is refused.
// Defaults of the robot hold for what is left out; `family` is used for them when the text names
// none. `base`: what holds where the text says nothing and names no robot: the facts of a folder.
// Errors: kInvalid naming `name`, the key, value found and allowed.
Result<PolicyDescription> read_policy(std::string_view text, const std::string& name,
                                      PiFamily family, const PolicyDescription* base = nullptr);

// [setup] Every value spelt out, as JSON that read_policy takes and that means the same.
std::string policy_json(const PolicyDescription& policy);

// [setup] Is it whole and free of contradictions? Cameras, widths, mask; statistics when they are
// needed. Errors: kInvalid, kShape, kNotFound (statistics: what is missing and where it was looked
// for).
Result<void> check_policy(const PolicyDescription& policy, PiFamily family);

// [6, -1, 6, -1]: 6 dimensions relative to the state, 1 absolute, and so on. Errors: kInvalid.
Result<std::vector<bool>> delta_mask_of(std::span<const int64_t> runs);

// The values that hold for a family where the description leaves the choice to it.
NormForm state_form(const PolicyDescription& policy, PiFamily family);
NormForm action_form(const PolicyDescription& policy, PiFamily family);
bool state_in_text(const PolicyDescription& policy, PiFamily family);
int64_t max_tokens(const PolicyDescription& policy, PiFamily family);
// PI0-FAST as LeRobot trains it: cameras in their order and masked, a begin id behind the prompt,
// the answer right behind that and read id by id.
inline bool lerobot_fast(const PolicyDescription& policy, PiFamily family) {
  return family == PiFamily::kPi0Fast && policy.prompt_rule == PromptRule::kLerobot;
}
inline int64_t horizon(const PolicyDescription& policy) {
  return policy.horizon > 0 ? policy.horizon : 50;
}
inline int64_t answer_tokens(const PolicyDescription& policy) {
  return policy.action_tokens.most > 0 ? policy.action_tokens.most : 256;
}
inline int64_t num_steps(const PolicyDescription& policy) {
  return policy.num_steps > 0 ? policy.num_steps : 10;
}

}  // namespace outrider
