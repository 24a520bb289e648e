// Number literals of the two JSON dialects. Private to json.cpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"

namespace outrider {

struct JsonNumber {
  size_t end = 0;               // one past the literal; where the fault lies when there is one
  const char* fault = nullptr;  // nullptr: good. Else what was expected at `end`
  bool out_of_range = false;    // the fault concerns the whole literal, which ends at `end`
  bool integral = false;        // integer grammar and fits int64: `integer` is exact
  int64_t integer = 0;
  double value = 0;
};

// Reads the literal that starts at `at`; what follows it is the caller's matter.
//   kStandard   RFC 8259 section 6; magnitudes above the largest double are refused, those below
//   the
//               smallest round to zero.
//   kFlatOpen   optional sign, digits and/or fraction, optional exponent of at most 3 digits;
//   digits
//               alone may not start with a superfluous zero; the value must be zero or a float,
//               from the smallest denormal to the largest.
JsonNumber scan_json_number(std::string_view text, size_t at, Json::Dialect dialect) noexcept;

}  // namespace outrider
