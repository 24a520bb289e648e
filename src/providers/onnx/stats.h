// Normalisation that lies beside a policy, as strict JSON:
//   {"inputs": {"obs": {"mean": [..], "scale": [..], "clip": 5}},
//    "outputs": {"action": {"mean": [..], "scale": [..], "clip": 1}}}
// input:  x' = clamp((x - mean) / scale, -clip, clip)
// output: y' = clamp(y, -clip, clip) * scale + mean
// mean and scale have one value, or one for each of the last dimension (of one frame, with
// history); an absent mean is 0, an absent scale 1, an absent clip none.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace outrider {

struct PortStats {
  std::vector<float> mean, scale;  // one value or `width`
  float clip = 0;                  // 0: none
};

struct OnnxStats {
  std::map<std::string, PortStats> inputs, outputs;
  std::string sha256;
};

// Errors: kNotFound (no such file, damaged, unknown field, a scale of 0 or not finite) naming file,
// port and field.
Result<OnnxStats> read_onnx_stats(const std::string& path);

// How many numbers a port's width asks for. Errors: kShape with both.
Result<void> check_stats(const PortStats& stats, int64_t width, const std::string& port,
                         const std::string& path);

}  // namespace outrider
