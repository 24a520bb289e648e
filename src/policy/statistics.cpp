#include "policy/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "base/json.h"
#include "safetensors/safetensors.h"
#include "tensor/dtype.h"

namespace outrider {
namespace {

constexpr size_t kMaxStatisticsBytes = size_t{16} << 20;
constexpr double kLargest = std::numeric_limits<float>::max();

struct ColumnRow {
  const char* name;
  std::vector<double> FieldStatistics::*column;
};
constexpr ColumnRow kColumns[] = {
    {"mean", &FieldStatistics::mean}, {"std", &FieldStatistics::std},
    {"q01", &FieldStatistics::q01},   {"q99", &FieldStatistics::q99},
    {"min", &FieldStatistics::min},   {"max", &FieldStatistics::max},
};

// The two columns that a form needs.
struct FormColumns {
  const char *first, *second;
  std::vector<double> FieldStatistics::*a;
  std::vector<double> FieldStatistics::*b;
};
FormColumns columns_of(NormForm form) {
  using F = FieldStatistics;
  switch (form) {
    case NormForm::kQuantile:
      return {"q01", "q99", &F::q01, &F::q99};
    case NormForm::kMinMax:
      return {"min", "max", &F::min, &F::max};
    case NormForm::kZScore:
    case NormForm::kNone:
      break;
  }
  return {"mean", "std", &F::mean, &F::std};
}

Result<void> read_column(const Json& json, const std::string& what, const char* name,
                         std::vector<double>& out) {
  if (!json.is_array())
    return make_error(Code::kNotFound, "%.300s.%s is no list of numbers", what.c_str(), name);
  if (json.items().empty() || json.items().size() > static_cast<size_t>(kMaxStatisticsWidth))
    return make_error(Code::kNotFound, "%.300s.%s has %zu values, allowed 1..%lld", what.c_str(),
                      name, json.items().size(), static_cast<long long>(kMaxStatisticsWidth));
  for (size_t i = 0; i < json.items().size(); ++i) {
    const Json& item = json.items()[i];
    if (!item.is_number())
      return make_error(Code::kNotFound,
                        "%.250s.%s[%zu] is no finite number (dimension %zu); recompute the "
                        "statistics of the training set",
                        what.c_str(), name, i, i);
    out.push_back(item.number());
  }
  return {};
}

Result<void> check_lengths(const FieldStatistics& field, const std::string& what) {
  const ColumnRow* first = nullptr;
  for (const ColumnRow& row : kColumns) {
    const auto& column = field.*row.column;
    if (column.empty()) continue;
    if (first == nullptr) first = &row;
    if (column.size() != (field.*first->column).size())
      return make_error(
          Code::kNotFound, "%.300s: %s has %zu values, %s has %zu; one each dimension is needed",
          what.c_str(), first->name, (field.*first->column).size(), row.name, column.size());
  }
  return {};
}

Error bad_value(const std::string& what, const char* column, size_t dim, double value,
                const char* wanted) {
  return make_error(Code::kNotFound,
                    "%.250s: %s of dimension %zu is %g, %s; recompute the statistics of the "
                    "training set",
                    what.c_str(), column, dim, value, wanted);
}

Result<std::vector<double>> read_tensor(const SafeTensorsFile& file, const SafeTensor& tensor) {
  const int64_t n = tensor.n_values();
  if (n < 1 || n > kMaxStatisticsWidth)
    return make_error(Code::kNotFound, "%.300s: %.80s has %lld values, allowed 1..%lld",
                      file.path().c_str(), tensor.name.c_str(), static_cast<long long>(n),
                      static_cast<long long>(kMaxStatisticsWidth));
  std::vector<double> out(static_cast<size_t>(n));
  if (tensor.dtype == DType::kF64) {
    std::memcpy(out.data(), tensor.data, tensor.n_bytes);
    return out;
  }
  if (tensor.dtype != DType::kF32)
    return make_error(Code::kNotFound, "%.300s: %.80s is of type %s, wanted F32 or F64",
                      file.path().c_str(), tensor.name.c_str(),
                      std::string(dtype_info(tensor.dtype).name).c_str());
  std::vector<float> values(out.size());
  std::memcpy(values.data(), tensor.data, tensor.n_bytes);
  std::copy(values.begin(), values.end(), out.begin());
  return out;
}

std::string range_text(const char* name, const std::vector<double>& column) {
  const auto [low, high] = std::minmax_element(column.begin(), column.end());
  char text[80];
  std::snprintf(text, sizeof text, ", %s %.4g .. %.4g", name, *low, *high);
  return text;
}

// NaN, Infinity and -Infinity, as Python writes them, become null: a reader that looks at
// dimensions can say which one it is.
std::string without_nonfinite(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (in_string && c == '\\' && i + 1 < text.size()) {
      out += c;
      out += text[i + 1];
      i += 2;
      continue;
    }
    if (c == '"') in_string = !in_string;
    size_t word = 0;
    for (const std::string_view name : {"NaN", "Infinity", "-Infinity"})
      if (!in_string && text.substr(i).starts_with(name)) word = name.size();
    if (word > 0) {
      out += "null";
      i += word;
    } else {
      out += c;
      ++i;
    }
  }
  return out;
}

}  // namespace

const char* norm_form_name(NormForm form) {
  static constexpr const char* kNames[] = {"none", "z_score", "quantile", "min_max"};
  return kNames[static_cast<size_t>(form)];
}

int64_t FieldStatistics::width() const {
  for (const ColumnRow& row : kColumns) {
    if (const auto& column = this->*row.column; !column.empty())
      return static_cast<int64_t>(column.size());
  }
  return 0;
}

bool FieldStatistics::has(NormForm form) const {
  const FormColumns wanted = columns_of(form);
  return form == NormForm::kNone || (!(this->*wanted.a).empty() && !(this->*wanted.b).empty());
}

Result<FieldStatistics> read_field_statistics(const Json& json, const std::string& what) {
  if (!json.is_object())
    return make_error(Code::kNotFound, "%.300s is no object with mean, std, q01, q99",
                      what.c_str());
  FieldStatistics field;
  for (const ColumnRow& row : kColumns) {
    const Json* column = json.find(row.name);
    if (column == nullptr || column->is_null()) continue;
    OUTRIDER_TRY(read_column(*column, what, row.name, field.*row.column));
  }
  if (field.width() == 0)
    return make_error(Code::kNotFound, "%.300s has none of mean, std, q01, q99", what.c_str());
  OUTRIDER_TRY(check_lengths(field, what));
  return field;
}

Result<PolicyStatistics> read_norm_stats(std::string_view text, const std::string& name) {
  const Json::Limits limits = {
      .max_bytes = kMaxStatisticsBytes, .max_depth = 16, .max_values = 1 << 18};
  auto json = Json::parse(text, Json::Dialect::kStandard, limits);
  if (!json && text.size() <= kMaxStatisticsBytes) {
    auto marked = Json::parse(without_nonfinite(text), Json::Dialect::kStandard, limits);
    if (marked) json = std::move(marked);
  }
  if (!json)
    return make_error(Code::kNotFound, "%.200s: %s (statistics must be finite numbers)",
                      name.c_str(), json.error().text);
  const Json* root = json.value().find("norm_stats");
  if (root == nullptr) root = &json.value();
  PolicyStatistics out;
  out.origin = name;
  for (const auto& [key, field] : {std::pair{"state", &PolicyStatistics::state},
                                   std::pair{"actions", &PolicyStatistics::actions}}) {
    const Json* value = root->find(key);
    if (value == nullptr) continue;  // whether it is needed, the form decides
    auto read = read_field_statistics(*value, name + ": " + key);
    if (!read) return read.error();
    out.*field = std::move(read.value());
  }
  if (out.state.width() == 0 && out.actions.width() == 0)
    return make_error(Code::kNotFound,
                      "%.300s holds neither norm_stats.state nor norm_stats.actions", name.c_str());
  return out;
}

Result<FieldStatistics> read_lerobot_statistics(const SafeTensorsFile& file,
                                                const std::string& key) {
  FieldStatistics field;
  for (const ColumnRow& row : kColumns) {
    const SafeTensor* tensor = file.tensor(key + "." + row.name);
    if (tensor == nullptr) continue;
    auto values = read_tensor(file, *tensor);
    if (!values) return values.error();
    field.*row.column = std::move(values.value());
  }
  OUTRIDER_TRY(check_lengths(field, file.path() + ": " + key));
  return field;
}

Result<void> check_statistics(const FieldStatistics& field, NormForm form, int64_t width,
                              const std::string& what) {
  if (form == NormForm::kNone) return {};
  const FormColumns names = columns_of(form);
  const auto &a = field.*names.a, &b = field.*names.b;
  if (a.empty() || b.empty())
    return make_error(
        Code::kNotFound,
        "%.250s: %s normalisation needs %s and %s, %s %s missing; recompute the statistics, or "
        "choose normalisation \"none\" to work in normalised units",
        what.c_str(), norm_form_name(form), names.first, names.second,
        a.empty() && b.empty() ? "both"
        : a.empty()            ? names.first
                               : names.second,
        a.empty() && b.empty() ? "are" : "is");
  if (static_cast<int64_t>(a.size()) < width)
    return make_error(Code::kShape, "%.250s: statistics for %zu dimensions, the robot has %lld",
                      what.c_str(), a.size(), static_cast<long long>(width));
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]))
      return bad_value(what, names.first, i, a[i], "wanted a finite number");
    if (!std::isfinite(b[i]))
      return bad_value(what, names.second, i, b[i], "wanted a finite number");
    // Robot units are f32: what they cannot hold is no statistic of theirs.
    for (const auto& [name, value] : {std::pair{names.first, a[i]}, {names.second, b[i]}}) {
      if (std::abs(value) > kLargest) return bad_value(what, name, i, value, "more than f32 holds");
    }
    if (form != NormForm::kZScore && b[i] - a[i] > kLargest)
      return bad_value(what, names.second, i, b[i], "a range that f32 does not hold");
    if (form == NormForm::kZScore && b[i] < 0)
      return bad_value(what, names.second, i, b[i], "a deviation is never negative");
    if (form != NormForm::kZScore && b[i] < a[i]) {
      char wanted[96];
      std::snprintf(wanted, sizeof wanted, "below %s, which is %g", names.first, a[i]);
      return bad_value(what, names.second, i, b[i], wanted);
    }
  }
  return {};
}

std::string statistics_summary(const FieldStatistics& field, NormForm form) {
  if (form == NormForm::kNone) return "none";
  const FormColumns names = columns_of(form);
  if (!field.has(form)) return "missing";
  return std::to_string((field.*names.a).size()) + " dims" +
         range_text(names.first, field.*names.a) + range_text(names.second, field.*names.b);
}

}  // namespace outrider
