// Golden cases of the reference policy (kinds "pi-policy", "pi-policy-rtc" in its identity form,
// "pi-policy-rtc-trained", "pi-policy-extra-tokens"): a folder with meta.json, io.safetensors
// and weights, run at model level and compared stage by stage. Source: pi-policy.md 14.
#pragma once
#include <string>
#include <vector>

#include "models/pi_config.h"
#include "tensor/ops.h"

namespace outrider {

struct PiCaseStage {
  std::string name;  // "time", "prefix_pos", "prefix_embs", "k_first", "v_0", "x_3", "actions", ...
  int64_t n_values = 0;  // compared; masked rows are left out
  double max_abs = 0, cosine = 1, tolerance = 0;
  bool passed() const { return n_values > 0 && max_abs <= tolerance; }
};

struct PiCaseReport {
  PiFamily family = PiFamily::kPi05;
  std::vector<PiCaseStage> stages;  // in the order the model computes them
  bool passed() const;
  // Name of the first stage beyond its tolerance; empty when all passed.
  std::string first_deviation() const;
};

// tolerance 0: 2e-4 for f32 (5e-4 for the kinds with guidance, prefix or extra tokens), 3e-2 for
// bf16 (pi-policy.md 14), 0.2 for int8 (single velocities were seen to differ by 0.12, actions by
// 0.05); guided runs 0.1 and 0.6: guidance multiplies an error of the velocity by up to its cap.
// "time" and "prefix_pos" are exact. Masked rows are skipped.
// Errors: kNotFound (folder, files, meta fields), kUnsupported (precision), kShape.
Result<PiCaseReport> run_pi_case(const std::string& folder, Ops& ops, Precision precision,
                                 double tolerance = 0);

}  // namespace outrider
