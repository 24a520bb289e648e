// What the weights of a policy are, whatever file they came from: two sources with the same key
// give the same packed model.
#pragma once
#include <string>

#include "models/pi_weights.h"

namespace outrider {

// Over every value in a fixed order: matrices by element type and bytes, vectors as the f32 that
// they become. Reads all weights once. It finds accidents; what must not be forged is digested.
// Errors: those of sha256_hex.
Result<std::string> pi_weights_key(const PiWeights& weights);

}  // namespace outrider
