// PI0 / PI0.5 weights from openpi's PyTorch names in one safetensors file.
// Source: pi-policy.md 11.2. Sizes that tensors cannot tell are given by the caller.
#pragma once
#include "models/pi_weights.h"
#include "safetensors/safetensors.h"

namespace outrider {

// PI0.5 when time_mlp_in.* or any *.dense.weight is there; PI0 with state_proj and
// action_time_mlp_in. Errors: kNotFound when neither fits.
Result<PiFamily> guess_family(const SafeTensorsFile& file);

// openpi's PyTorch names.
const PiNames& pi_safetensors_names();

// config must be complete. Errors as read_pi_weights.
Result<PiWeights> read_pi_safetensors(const SafeTensorsFile& file, const PiConfig& config);

}  // namespace outrider
