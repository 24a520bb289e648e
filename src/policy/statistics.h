// Statistics of a training set: what turns robot units into the space a policy was trained in.
// Source: pi-policy.md 4.3.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace outrider {

class Json;
class SafeTensorsFile;

enum class NormForm : uint8_t { kNone, kZScore, kQuantile, kMinMax };
const char* norm_form_name(NormForm form);  // "none", "z_score", "quantile", "min_max"

// One vector field (state or actions). A column that the file does not have is empty; all others
// have the same length, one value a dimension.
struct FieldStatistics {
  std::vector<double> mean, std, q01, q99, min, max;

  int64_t width() const;  // of any column that is there; 0: none is
  bool has(NormForm form) const;
  bool operator==(const FieldStatistics&) const = default;
};

struct PolicyStatistics {
  FieldStatistics state, actions;
  std::string origin;  // the file they were read from, for messages
};

// More dimensions than any robot has.
inline constexpr int64_t kMaxStatisticsWidth = 4096;

// [setup] The text of a norm_stats.json, with or without the outer "norm_stats". Keys it does not
// know are skipped. Errors: kNotFound naming `name`, the field, what was found and what is allowed.
Result<PolicyStatistics> read_norm_stats(std::string_view text, const std::string& name);
// [setup] {"mean": [..], "std": [..], "q01": [..] or null, "q99": ...}. `what` names the field.
Result<FieldStatistics> read_field_statistics(const Json& json, const std::string& what);
// [setup] Columns `key`.mean, `key`.std, ... of a LeRobot normalizer file. Errors as above.
Result<FieldStatistics> read_lerobot_statistics(const SafeTensorsFile& file,
                                                const std::string& key);

// [setup] Can this field be used in this form, for `width` values? A dimension that never moved
// (std 0, q01 == q99) is fine. Errors: kNotFound naming field, dimension and value for columns that
// are missing, not finite, negative deviations, inverted ranges; kShape when a field is narrower
// than `width`.
Result<void> check_statistics(const FieldStatistics& field, NormForm form, int64_t width,
                              const std::string& what);

// "8 dims, q01 -1.3 .. 0.17, q99 0.01 .. 1.26": for people.
std::string statistics_summary(const FieldStatistics& field, NormForm form);

}  // namespace outrider
