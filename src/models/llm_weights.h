// All weights of a text model by role, still as they lie in the file.
#pragma once
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "models/llm_config.h"
#include "models/tensor_source.h"

namespace outrider {

struct LlmLayerRef {
  std::vector<float> norm1, norm2;            // multiply directly
  std::vector<float> q_norm, k_norm;          // per head; empty where the model has none
  std::vector<float> post_norm1, post_norm2;  // of the branch outputs; empty likewise
  Matrix q, k, v, o, gate, up, down;
  std::vector<float> q_bias, k_bias, v_bias, o_bias;  // empty: none
};

struct LlmWeights {
  LlmConfig config;
  Matrix embed;   // [vocab, width]
  Matrix output;  // the same one when tied
  std::vector<float> norm;
  std::vector<float> rope_divisors;  // [head_dim / 2] of global layers; empty: ones
  std::vector<LlmLayerRef> layers;
};

// Is general.architecture one of LlmArch?
bool is_llm(const GgufFile& file);

// Errors: kNotFound (missing or impossible key, naming it, the value and what is allowed),
// kUnsupported (another architecture, experts, a rope scaling or a per-layer size this build does
// not compute).
Result<LlmConfig> read_llm_config(const GgufFile& file);

// Every weight that the config promises. A tensor of a layer that nobody asked for is refused: the
// model would compute something else with it. Errors: kNotFound, kUnsupported, each naming file and
// tensor.
Result<LlmWeights> read_llm_weights(const GgufFile& file);

}  // namespace outrider
