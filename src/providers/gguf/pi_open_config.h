// The open configuration of family pi0: strict, every key known, every value in range.
// Source: model-runtime ABI section 14, cli-and-config.md 1.
#pragma once
#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "models/pi_config.h"

namespace outrider {

enum class NumericsChoice : uint8_t { kReference, kJetsonPi };
enum class PrecisionChoice : uint8_t { kAuto, kF32, kBf16, kInt8, kStored };
enum class SwitchChoice : uint8_t { kAuto, kOn, kOff };

struct PiOpenConfig {
  std::string model_path, mmproj_path, backend;
  int64_t n_views = 0, image_height = 0, image_width = 0, image_channels = 0;
  int64_t action_steps = 0, action_dim = 0;
  // Optional keys; the defaults below are those of an absent key.
  NumericsChoice numerics = NumericsChoice::kReference;
  PrecisionChoice precision = PrecisionChoice::kAuto;
  SwitchChoice rope_bf16 = SwitchChoice::kAuto;
  int64_t n_threads = 0;  // <= 0: all that this process may use
  int64_t num_steps = 0;  // 0: from the file
  int64_t noise_seed = 41;
  bool reuse = false;        // across ticks; never changes a result, only how even ticks are
  bool pin_threads = false;  // each compute thread on a CPU of its own; never changes a result
  int64_t rt_priority = 0;   // 1..99: SCHED_FIFO for the compute threads; 0: none
  std::string cache_dir;     // packed weights and digests are kept there; "": nothing is kept
  // A checkpoint folder, a policy.json, or a GGUF file with a policy inside: robot units in and
  // out.
  std::string policy_dir;

  // Chosen when policy_dir and every size key are left out too: a model file may describe a robot.
  bool robot_in_file = false;
  // The plain face of a GGUF pair, in normalised units.
  bool plain_face() const { return policy_dir.empty() && !robot_in_file; }
};

const char* choice_name(NumericsChoice choice);
const char* choice_name(PrecisionChoice choice);
const char* choice_name(SwitchChoice choice);

// `json` is the parsed flat object with model_family "pi0". Errors: kInvalid naming key, value
// found, value allowed; kUnsupported for a backend other than "cpu". With policy_dir every key of
// the pair and of its sizes may be left out; without it all of them together, but for model_path.
Result<PiOpenConfig> read_pi_open_config(const Json& json);

// Do the sizes fit those of the policy file at `path`? Errors: kShape with both.
Result<void> check_pi_sizes(const PiOpenConfig& config, const PiConfig& file,
                            const std::string& path);

}  // namespace outrider
