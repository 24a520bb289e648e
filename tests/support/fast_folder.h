// A PI0-FAST checkpoint folder made of a synthetic PI0.5 pair, whose language model was taught by
// hand to write one valid answer: for tests.
//
// The stand-in vocabulary has 1024 pieces as the tiny models: 128 location pieces at 768..895, on
// which action tokens 127..0 fall, and 128 segment pieces behind them. Action tokens 0..31 are the
// single coefficients -16..15, 32..91 are five coefficients each (60 groups), 92 and 93 the two
// bytes of coefficient 184, 94 a broken byte.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "support/checkpoint_writer.h"

namespace outrider::test {

inline constexpr int64_t kFastRows = 10, kFastColumns = 6, kFastMinToken = -16;
inline constexpr double kFastScale = 10;
inline constexpr int32_t kFastMostId = 895;

// Coefficient i of group g.
constexpr int fast_coefficient(int g, int i) {
  return (g * 7 + i * 5 + g / 23 * (i + 1) * 3) % 23 - 11;
}

struct FastSpec {
  // The answer's action tokens, in order; no two may be equal. Default: the twelve groups.
  std::vector<int> answer = {32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43};
  bool taught = true;  // false: random weights, whose answer is nothing
  // Each token of the answer has four others that may stand in its place (token + 12, + 24, ...):
  // what the model sees decides.
  bool varied = false;
  bool with_cue = true;   // "Action: " in front
  bool with_end = true;   // "|" and the end id behind
  float noise = 0.05f;    // how much of the random weights stays where it was taught
  std::string more = {};  // members of policy.json: ,"k":v
  std::string action_more = {};
  std::string cameras = R"({"name":"top","slot":"base_0_rgb"},)"
                        R"({"name":"wrist","slot":"wrist_0_rgb","required":false})";
  DType dtype = DType::kF32;
  std::string prefix = {};  // of tensor names
  // LeRobot's rules: the chain begins behind the begin id. With `files`, its own files too, with
  // cameras "observation.images.top" and ".wrist" of 48 x 64 and `more` in config.json; without,
  // a policy.json that says so.
  bool lerobot = false, files = false;
  // An output head of its own, and an embedding that would be a useless one.
  bool own_head = false;
};

// tokenizer.json and processor_config.json of the stand-in action tokens.
std::string fast_tokenizer_json();
std::string fast_processor_json();
// Ids of the text vocabulary that the taught model answers.
std::vector<int32_t> fast_answer_ids(const FastSpec& spec);
// What it should decode to: normalised [kFastRows, kFastColumns], by plain sums.
std::vector<double> fast_chunk(const FastSpec& spec);

// model.safetensors, tokenizer.gguf, fast/, policy.json, assets/arm/norm_stats.json (6 and 6 wide);
// LeRobot's: action_tokenizer/, config.json, both pipelines.
void write_fast_folder(const std::string& folder, const std::string& policy_gguf,
                       const std::string& vision_gguf, const FastSpec& spec = {});

}  // namespace outrider::test
