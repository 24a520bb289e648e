// All weights of a policy by role, still as they lie in the file(s).
#pragma once
#include <vector>

#include "models/pi_config.h"
#include "models/tensor_source.h"

namespace outrider {

struct NormRef {  // layer norm
  std::vector<float> weight, bias;
};

struct VisionLayerRef {
  NormRef ln1, ln2;
  LinearRef q, k, v, out, fc1, fc2;
};

// A norm of a Gemma layer: either a stored offset from 1 or, in PI0.5's expert, a dense layer that
// makes scale, shift and gate from the time vector.
struct GemmaNormRef {
  std::vector<float> scale;
  LinearRef dense;
};

struct GemmaLayerRef {
  GemmaNormRef norm1, norm2;
  Matrix q, k, v, o, gate, up, down;
};

struct PiWeights {
  PiConfig config;
  LinearRef patch;              // [width, 3 * patch * patch]: channel, row, column
  std::vector<float> position;  // [tokens, width]
  std::vector<VisionLayerRef> vision;
  NormRef post_ln;
  LinearRef projector;
  Matrix embed;  // [vocab, backbone width]
  std::vector<GemmaLayerRef> backbone, expert;
  GemmaNormRef expert_norm;
  // PI0-FAST: what stands in front of the output head, and the head; without one it is `embed`.
  GemmaNormRef backbone_norm;
  Matrix head;
  LinearRef action_in, action_out;
  LinearRef state, action_time_in, action_time_out;  // PI0
  LinearRef time_in, time_out;                       // PI0.5
};

// Tensor names of one file format; '#' stands for the layer number.
struct PiNames {
  const char *patch, *position, *v_ln1, *v_ln2, *v_q, *v_k, *v_v, *v_out, *v_fc1, *v_fc2, *post_ln,
      *projector;
  // GGUF vision files may carry the two MLP names exchanged; the shape then decides.
  bool mlp_names_may_be_exchanged;
  const char* embed;
  struct Gemma {
    const char *norm1, *norm2, *norm1_dense, *norm2_dense, *q, *k, *v, *o, *gate, *up, *down;
  } backbone, expert;
  int64_t expert_first_layer;  // number of the first expert layer in the names
  const char *expert_norm, *expert_norm_dense;
  const char *action_in, *action_out, *state, *action_time_in, *action_time_out, *time_in,
      *time_out;
  const char *backbone_norm = nullptr, *head = nullptr;  // where the format has PI0-FAST
};

// Collects every weight that config promises. Errors: kNotFound (missing tensor, wrong shape),
// kUnsupported (element type), each naming file and tensor.
Result<PiWeights> read_pi_weights(const TensorSource& policy, const TensorSource& vision,
                                  const PiNames& names, const PiConfig& config);

}  // namespace outrider
