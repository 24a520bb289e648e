// A checkpoint folder as one GGUF file: weights, vision tower, vocabulary, and the policy with its
// statistics. Readers that know nothing of policies read it as a plain file.
#pragma once
#include <optional>
#include <string>

#include "policy/checkpoint.h"

namespace outrider {

struct Converted {
  uint64_t n_tensors = 0, n_kept = 0;  // kept: in the element type of the checkpoint
  DType type = DType::kF32;            // of the large matrices
};

// [setup] `type`: of the large matrices; absent: as they are stored. A matrix whose rows the blocks
// of that type do not divide becomes F16; vectors are F32, and with a type so are action and time
// layers, adaptive norms and the patch projection. One row at a time is in memory. Nothing is left
// behind on failure. Errors: kUnsupported (a type that cannot be a weight), kNotFound (a tensor is
// missing), those of GgufWriter.
Result<Converted> convert_checkpoint(const PolicyCheckpoint& checkpoint, std::optional<DType> type,
                                     const std::string& out);

}  // namespace outrider
