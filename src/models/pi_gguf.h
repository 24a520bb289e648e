// PI0 / PI0.5 from a pair of GGUF files: which family it is, its sizes, its weights.
// Source: gguf-models.md B.1 to B.4.
#pragma once
#include <optional>
#include <string>

#include "gguf/gguf.h"
#include "models/pi_weights.h"

namespace outrider {

struct PiFamilyGuess {
  std::optional<PiFamily> family;
  std::string reason;  // "tensor output_norm_dense.weight is present"
};

// Is this the policy half of a pair (architecture pi0, pi05 or pi0.5, any case)?
bool is_pi_policy(const GgufFile& file);
// Is this a vision file (architecture clip)?
bool is_pi_vision(const GgufFile& file);
PiFamilyGuess guess_policy_family(const GgufFile& policy);
PiFamilyGuess guess_vision_family(const GgufFile& vision);

// Errors: kNotFound when a file is not of its kind, when the two halves belong to different
// families or widths, or when a size is missing or out of range; file, key, value found and allowed
// are named.
Result<PiConfig> read_pi_config(const GgufFile& policy, const GgufFile& vision);
// The half of the above that a policy file alone can tell (vision is left zero).
Result<PiConfig> read_pi_policy_config(const GgufFile& policy);
// The embedding table alone: [vocab, width], borrowed from the file. Errors: kNotFound.
Result<Matrix> read_pi_embedding(const GgufFile& policy, const PiConfig& config);
// The names of tensors in such files.
const PiNames& pi_gguf_names();
Result<PiWeights> read_pi_gguf(const GgufFile& policy, const GgufFile& vision);

}  // namespace outrider
