// One row a configuration key; everything that reads an open configuration follows from the table.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/nearest.h"
#include "base/result.h"

namespace outrider {

enum class KeyShape : uint8_t { kText, kPath, kInteger, kNumber, kChoice };

template <class C>
struct KeyRow {
  const char* name;
  KeyShape shape;
  bool required;
  int64_t least = 0, most = 0;                // kInteger
  std::span<const char* const> choices = {};  // kChoice
  std::string C::*text = nullptr;
  int64_t C::*integer = nullptr;
  float C::*number = nullptr;
  void (*choose)(C&, size_t) = nullptr;  // kChoice: index into choices
};

template <class C>
KeyRow<C> text_row(const char* name, std::string C::*field) {
  return {.name = name, .shape = KeyShape::kText, .required = true, .text = field};
}
template <class C>
KeyRow<C> path_row(const char* name, std::string C::*field) {
  return {.name = name, .shape = KeyShape::kPath, .required = false, .text = field};
}
template <class C>
KeyRow<C> integer_row(const char* name, bool required, int64_t least, int64_t most,
                      int64_t C::*field) {
  return {.name = name,
          .shape = KeyShape::kInteger,
          .required = required,
          .least = least,
          .most = most,
          .integer = field};
}
// Any finite number of float's range, as the dialect of open configurations promises.
template <class C>
KeyRow<C> number_row(const char* name, float C::*field) {
  return {.name = name, .shape = KeyShape::kNumber, .required = true, .number = field};
}
template <class C>
KeyRow<C> choice_row(const char* name, std::span<const char* const> choices,
                     void (*choose)(C&, size_t)) {
  return {.name = name,
          .shape = KeyShape::kChoice,
          .required = false,
          .choices = choices,
          .choose = choose};
}

// "\"on\", \"off\"".
std::string choices_text(std::span<const char* const> choices);

template <class C>
const KeyRow<C>* find_row(std::span<const KeyRow<C>> rows, std::string_view name) {
  for (const KeyRow<C>& row : rows)
    if (name == row.name) return &row;
  return nullptr;
}

template <class C>
Error unknown_key(std::span<const KeyRow<C>> rows, const char* family, const std::string& name) {
  std::vector<const char*> known = {"model_family"};
  for (const KeyRow<C>& row : rows) known.push_back(row.name);
  return unknown_key_error(family, name, known);
}

// Reads one value by its row. Errors: kInvalid naming key, value found, value allowed.
template <class C>
Result<void> read_value(const KeyRow<C>& row, const Json& value, C& config) {
  if (row.shape == KeyShape::kInteger) {
    if (!value.is_number() || !value.is_integer() || value.integer() < row.least ||
        value.integer() > row.most) {
      return make_error(Code::kInvalid, "config: %s is %s%.80s%s, allowed is an integer %lld..%lld",
                        row.name, value.is_string() ? "\"" : "", value.text().c_str(),
                        value.is_string() ? "\"" : "", static_cast<long long>(row.least),
                        static_cast<long long>(row.most));
    }
    config.*row.integer = value.integer();
    return {};
  }
  if (row.shape == KeyShape::kNumber) {
    if (!value.is_number())
      return make_error(Code::kInvalid, "config: %s is \"%.80s\", allowed is a number", row.name,
                        value.text().c_str());
    config.*row.number = static_cast<float>(value.number());
    return {};
  }
  if (!value.is_string()) {
    return make_error(Code::kInvalid, "config: %s is %.80s, allowed is a string", row.name,
                      value.text().c_str());
  }
  if (row.shape == KeyShape::kChoice) {
    const auto found = std::find(row.choices.begin(), row.choices.end(), value.text());
    if (found == row.choices.end()) {
      return make_error(Code::kInvalid, "config: %s is \"%.80s\", allowed are %s", row.name,
                        value.text().c_str(), choices_text(row.choices).c_str());
    }
    row.choose(config, static_cast<size_t>(found - row.choices.begin()));
    return {};
  }
  if (value.text().empty() && row.shape == KeyShape::kText) {
    return make_error(Code::kInvalid, "config: %s is empty, allowed is a non-empty string",
                      row.name);
  }
  if (value.text().find('\0') != std::string::npos) {
    return make_error(Code::kInvalid, "config: %s contains a NUL byte", row.name);
  }
  config.*row.text = value.text();
  return {};
}

}  // namespace outrider
