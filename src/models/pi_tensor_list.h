// Every tensor of a PI0, PI0.5 or PI0-FAST policy by both of its names: in GGUF files and in
// checkpoints.
#pragma once
#include <string>
#include <vector>

#include "models/pi_config.h"

namespace outrider {

struct PiTensorName {
  std::string gguf, checkpoint;
  bool vision = false;  // lies in the vision file of a GGUF pair
  // One of the large matrices that a conversion may store in fewer bits; the others stay F32.
  bool large = false;
};

// In the order a file holds them. Source: pi-policy.md 11.2, gguf-models.md B.3, B.4.
std::vector<PiTensorName> pi_tensor_list(const PiConfig& config);

}  // namespace outrider
