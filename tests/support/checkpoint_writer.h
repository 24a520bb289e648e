// Writes checkpoint folders out of synthetic GGUF pairs, in every layout that people ship: for
// tests. The weights are those of the pair, value by value.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/pi_config.h"
#include "tensor/dtype.h"

namespace outrider::test {

struct StoredTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};
StoredTensor f32_tensor(std::vector<int64_t> shape, const std::vector<float>& values);
void write_safetensors(const std::string& path, const std::map<std::string, StoredTensor>& tensors);

struct CheckpointSpec {
  std::string prefix;         // "model." as LeRobot
  int n_shards = 1;           // more: with an index
  bool as_lm_head = false;    // the embedding under its other name
  bool renamed_time = false;  // PI0.5: time layers under PI0's names
  DType dtype = DType::kF32;  // F32 or BF16, of all tensors
  // Changes the tensors before they are written.
  std::function<void(std::map<std::string, StoredTensor>&)> change = {};
};

// The weights of a pair as model.safetensors or shards in `folder`.
void write_weights(const std::string& folder, const std::string& policy_gguf,
                   const std::string& vision_gguf, const CheckpointSpec& spec = {});

void write_text(const std::string& path, const std::string& text);

// {"mean": [..], ...} for n dimensions: mean i/10, std 1 + i/10, q01 -1 - i/10, q99 1.5 + i/10.
std::string statistics_text(int64_t n);

// A whole LeRobot folder around weights that lie there already: config.json, both pipelines and
// their statistics. Cameras "observation.images.top" and ".wrist" of 48 x 64.
struct LerobotSpec {
  PiFamily family = PiFamily::kPi05;
  int64_t n_state = 6, n_actions = 6, chunk = 10, width = 8;
  std::string config_extra;        // more members of config.json: ,"k":v
  std::string first_steps;         // steps in front of the preprocessor: {...},
  std::string relative = "false";  // relative actions on, with "gripper" kept absolute
  bool same_statistics = true;     // false: the postprocessor's differ
};
void write_lerobot_files(const std::string& folder, const LerobotSpec& spec);

}  // namespace outrider::test
