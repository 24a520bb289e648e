// Driving graphs with random weights and the shapes of the shipped big models: for tests, first
// steps and measuring. What they say means nothing.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"
#include "driving/spec.h"
#include "onnx/writer.h"

namespace outrider::driving {

struct SyntheticDriving {
  Layout layout = Layout::kQueued;
  bool full = false;  // weights of about 0.7 GB as the shipped models', else about 1 MB
  uint64_t seed = 1;
};

// The two layouts of one seed and size compute the same: their outputs agree bit for bit as long as
// every desire is a half.
void add_synthetic_driving(const SyntheticDriving& what, onnx::ModelWriter& model);
// Errors: those of the writer.
Result<void> write_synthetic_driving(const SyntheticDriving& what, const std::string& path);

// The slices of the 18452 outputs.
const std::vector<NamedRange>& shipped_slices();

}  // namespace outrider::driving
