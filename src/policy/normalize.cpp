#include "policy/normalize.h"

#include "base/assert.h"

namespace outrider {

const char* norm_rule_name(NormRule rule) {
  return rule == NormRule::kOpenpi ? "openpi" : "lerobot";
}

Result<Normalizer> Normalizer::make(const NormOptions& options, const FieldStatistics& field,
                                    int64_t width, const std::string& what) {
  if (options.form == NormForm::kMinMax && options.rule == NormRule::kOpenpi)
    return make_error(Code::kUnsupported,
                      "%.300s: normalisation min_max with the openpi rule; openpi has z_score and "
                      "quantile, min_max goes with the rule \"lerobot\"",
                      what.c_str());
  OUTRIDER_TRY(check_statistics(field, options.form, width, what));
  Normalizer out;
  out.options_ = options;
  switch (options.form) {
    case NormForm::kNone:
      break;
    case NormForm::kZScore:
      out.first_ = field.mean;
      out.second_ = field.std;
      break;
    case NormForm::kQuantile:
      out.first_ = field.q01;
      out.second_ = field.q99;
      break;
    case NormForm::kMinMax:
      out.first_ = field.min;
      out.second_ = field.max;
      break;
  }
  return out;
}

double Normalizer::forward(size_t dim, double x) const noexcept {
  if (options_.form == NormForm::kNone) return x;
  OUTRIDER_ASSERT(dim < first_.size());
  return options_.rule == NormRule::kOpenpi
             ? forward_openpi(dim, x)
             : static_cast<double>(forward_lerobot(dim, static_cast<float>(x)));
}

double Normalizer::inverse(size_t dim, double y) const noexcept {
  if (options_.form == NormForm::kNone) return y;
  return options_.rule == NormRule::kOpenpi
             ? inverse_openpi(dim, y)
             : static_cast<double>(inverse_lerobot(dim, static_cast<float>(y)));
}

double Normalizer::forward_openpi(size_t dim, double x) const noexcept {
  const double a = first_[dim], b = second_[dim], e = options_.epsilon;
  if (options_.form == NormForm::kZScore) return (x - a) / (b + e);
  return (x - a) / (b - a + e) * 2.0 - 1.0;
}

double Normalizer::inverse_openpi(size_t dim, double y) const noexcept {
  const double e = options_.epsilon;
  if (dim >= first_.size()) return options_.form == NormForm::kZScore ? y * (1.0 + e) : y;
  const double a = first_[dim], b = second_[dim];
  if (options_.form == NormForm::kZScore) return y * (b + e) + a;
  return (y + 1.0) / 2.0 * (b - a + e) + a;
}

float Normalizer::forward_lerobot(size_t dim, float x) const noexcept {
  const auto a = static_cast<float>(first_[dim]), b = static_cast<float>(second_[dim]),
             e = static_cast<float>(options_.epsilon);
  if (options_.form == NormForm::kZScore) return (x - a) / (b + e);
  const float range = b - a == 0 ? e : b - a;
  return 2.0f * (x - a) / range - 1.0f;
}

float Normalizer::inverse_lerobot(size_t dim, float y) const noexcept {
  if (dim >= first_.size()) return y;
  const auto a = static_cast<float>(first_[dim]), b = static_cast<float>(second_[dim]),
             e = static_cast<float>(options_.epsilon);
  if (options_.form == NormForm::kZScore) return y * b + a;
  const float range = b - a == 0 ? e : b - a;
  if (options_.form == NormForm::kMinMax) return (y + 1.0f) / 2.0f * range + a;
  return (y + 1.0f) * range / 2.0f + a;
}

}  // namespace outrider
