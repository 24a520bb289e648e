// Writes complete PI0 / PI0.5 file pairs with random weights: for tests, benchmarks and a demo that
// needs no download. Every key and tensor of a converted checkpoint is there, so any reader of such
// files runs them. Source: gguf-models.md B.2 to B.4.
#pragma once
#include <cstdint>

#include "base/result.h"
#include "models/pi_config.h"
#include "tensor/dtype.h"

namespace outrider {

struct SyntheticPi {
  PiFamily family = PiFamily::kPi05;
  bool full = false;  // true sizes of the base checkpoints (6.7 GB in BF16); else below 1 MB
  DType dtype = DType::kF16;  // of the large matrices
  uint64_t seed = 1;          // same seed, same bytes
};

// Sizes of the pair that `what` describes.
PiConfig synthetic_pi_config(const SyntheticPi& what);

// Matrices carry what.dtype, but F16 where a row is no multiple of its block; vectors, action and
// time layers and adaptive norms are F32, the patch projection F16, as the public converter writes
// them. Weights are scaled so that activations stay near 1 in every layer, attention stays soft and
// actions are of size 1. In full files a matrix repeats its first rows (about a million values, an
// odd number of rows): drawing every value would cost minutes and buy nothing. Memory: one such
// tile and the vocabulary, below 100 MB. Both files or none are left behind. Errors: kInvalid
// (paths equal), kUnsupported (dtype cannot be a weight), and those of GgufWriter.
Result<void> write_synthetic_pi(const SyntheticPi& what, const char* policy_path,
                                const char* vision_path);

}  // namespace outrider
