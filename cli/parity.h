// A golden case: stored inputs, stored arrays of every stage, and how far off each may be.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cli/request.h"
#include "cli/stats.h"

namespace outrider::cli {

// One array to compare. `values` in the order of the tap of that name.
struct GoldenArray {
  std::string stage;  // "image_embd_0", "prefix_k_0", "velocity_0", "x_0", "actions", "tokens"
  std::string file;   // where it came from
  std::vector<float> values;
  double tolerance = 0;  // largest absolute difference allowed
};

struct GoldenCase {
  std::string folder, kind;  // kind: "pi0", "pi05", "policy"
  Request request;
  std::vector<float> noise;  // "policy" alone; empty: the seed's
  int64_t n_views = 0, width = 0, height = 0, action_steps = 0, action_dim = 0;
  std::vector<GoldenArray> arrays;  // in the order the model computes them
};

// Errors: kInvalid (folder or meta.json missing), kNotFound naming file and field for whatever is
// missing, of the wrong type, or not as long as meta.json says.
Result<GoldenCase> read_case(const std::string& folder);
// The kind alone, so that the caller can choose the route.
Result<std::string> case_kind(const std::string& folder);

// Was a pi-policy case recorded with bfloat16 activations? Such a recording is 1.3e-2 away from
// f32.
bool recorded_in_bf16(const std::string& folder);
inline constexpr double kBf16CaseTolerance = 3e-2;

struct StageVerdict {
  std::string stage;
  size_t n_values = 0;
  Difference difference;
  double tolerance = 0;
  std::string problem;  // "" or why it could not be compared
  bool passed() const {
    return problem.empty() && n_values > 0 && difference.finite && difference.max_abs <= tolerance;
  }
};

struct ParityResult {
  std::vector<StageVerdict> stages;
  std::vector<double> action_columns;  // worst difference of each action dimension
  bool passed() const;                 // false also when nothing was compared
  std::string first_deviation() const;
};

// Runs the case once, with taps. `only` names one stage, "" means all. Errors: of staging and
// running.
Result<ParityResult> run_case(Session& session, const GoldenCase& golden, const std::string& only);

Report parity_report(const ParityResult& result);

}  // namespace outrider::cli
