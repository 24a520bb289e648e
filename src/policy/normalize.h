// One field between robot units and normalised space, dimension by dimension.
//
// | form | forward | inverse |
// |---|---|---|
// | z_score | (x - mean) / (std + e) | y * (std + e) + mean |
// | quantile | (x - q01) / (q99 - q01 + e) * 2 - 1 | (y + 1) / 2 * (q99 - q01 + e) + q01 |
//
// openpi: e = 1e-6, in double, as above. LeRobot: e from its files (1e-8), in float32; z_score goes
// back with the bare std; quantile and min_max add no e, a range of exactly 0 becomes e. Nothing is
// clipped in any form. Source: pi-policy.md 4.3; LeRobot's normaliser step.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/statistics.h"

namespace outrider {

enum class NormRule : uint8_t { kOpenpi, kLerobot };
const char* norm_rule_name(NormRule rule);  // "openpi", "lerobot"

struct NormOptions {
  NormForm form = NormForm::kNone;
  NormRule rule = NormRule::kOpenpi;
  double epsilon = 1e-6;
};

class Normalizer {
 public:
  Normalizer() = default;  // form none: everything passes
  // [setup] `width` values are normalised; statistics may be wider. Errors: those of
  // check_statistics; kUnsupported for min_max in openpi's rule, which does not know it.
  static Result<Normalizer> make(const NormOptions& options, const FieldStatistics& field,
                                 int64_t width, const std::string& what);

  // [hot] dim inside the statistics (any for form none).
  double forward(size_t dim, double x) const noexcept;
  // [hot] Any dim: behind the statistics z_score takes mean 0 and std 1, so openpi's rule scales by
  // 1 + e; the other forms pass the value on.
  double inverse(size_t dim, double y) const noexcept;
  // [hot] Values that lay outside the statistics' range (quantile, min_max), for a counter.
  bool outside(double normalised) const noexcept {
    return (options_.form == NormForm::kQuantile || options_.form == NormForm::kMinMax) &&
           (normalised < -1 || normalised > 1);
  }
  const NormOptions& options() const { return options_; }

 private:
  double forward_openpi(size_t dim, double x) const noexcept;
  double inverse_openpi(size_t dim, double y) const noexcept;
  float forward_lerobot(size_t dim, float x) const noexcept;
  float inverse_lerobot(size_t dim, float y) const noexcept;

  NormOptions options_;
  std::vector<double> first_, second_;  // mean and std, or the lower and the upper end
};

}  // namespace outrider
