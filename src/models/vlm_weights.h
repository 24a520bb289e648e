// All weights of a vision tower by role, still as they lie in the projector file.
#pragma once
#include <vector>

#include "gguf/gguf.h"
#include "models/tensor_source.h"
#include "models/vlm_config.h"

namespace outrider {

struct VlmNormRef {
  std::vector<float> weight, bias;  // bias empty: a root-mean-square norm
};

struct VlmLayerRef {
  VlmNormRef norm1, norm2;
  LinearRef q, k, v, out;
  LinearRef fc1, fc2;  // kGemma3, kIdefics3
  LinearRef gate, up, down;
};

struct VlmWeights {
  VlmConfig config;
  LinearRef patch;              // [width, 3 * patch * patch]: channel, row, column
  LinearRef patch2;             // kQwen25Vl: of the second frame
  std::vector<float> position;  // [tokens of a frame, width]; empty: none
  std::vector<VlmLayerRef> layers;
  VlmNormRef post;
  std::vector<float> token_norm;  // kGemma3, behind the pooling
  Matrix
      projector;  // kGemma3: [width, out_width], used transposed; kIdefics3: [out, merge^2 * width]
  LinearRef merger1, merger2;  // kQwen25Vl
};

// Is this a vision file with one of the three projectors?
bool is_vlm(const GgufFile& file);

// Errors: kNotFound (missing or impossible key, naming it, the value and what is allowed),
// kUnsupported (another projector).
Result<VlmConfig> read_vlm_config(const GgufFile& file);

// Every weight that the config promises, of the shape it promises. Errors: kNotFound, kUnsupported,
// each naming file and tensor.
Result<VlmWeights> read_vlm_weights(const GgufFile& file);

}  // namespace outrider
