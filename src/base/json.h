// The one JSON reader of this project: strict, bounded, never throws.
//
// Grammar is RFC 8259 minus everything lenient: no comments, no trailing comma, no repeated key, no
// trailing text. `Dialect::kFlatOpen` narrows it further to the open configuration of the
// model-runtime ABI (section 14): one flat object, no nesting, no true/false/null, no \uXXXX.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace outrider {

class Json {
 public:
  enum class Kind : uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
  enum class Dialect : uint8_t { kStandard, kFlatOpen };
  struct Limits {
    size_t max_bytes = size_t{64} << 20;
    uint32_t max_depth = 64;
    size_t max_values = size_t{16} << 20;
  };
  struct Member;

  // Errors: kInvalid with the byte offset, line and column of the first fault and what was expected.
  static Result<Json> parse(std::string_view text, Dialect dialect = Dialect::kStandard);
  static Result<Json> parse(std::string_view text, Dialect dialect, const Limits& limits);

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_number() const { return kind_ == Kind::kNumber; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool is_bool() const { return kind_ == Kind::kBool; }

  bool boolean() const { return flag_; }
  double number() const { return number_; }
  // True when the literal had no fraction and no exponent and fits int64; then integer() is exact.
  bool is_integer() const { return integral_; }
  int64_t integer() const { return integer_; }
  // Decoded string; for numbers the literal as written.
  const std::string& text() const { return text_; }

  const std::vector<Json>& items() const { return items_; }
  const std::vector<Member>& members() const { return members_; }
  // Object member by name, or nullptr (also when this is no object).
  const Json* find(std::string_view name) const;
  // Line (1-based) of the value's first byte in the parsed text: for messages.
  uint32_t line() const { return line_; }

 private:
  friend class JsonParser;
  Kind kind_ = Kind::kNull;
  bool flag_ = false, integral_ = false;
  uint32_t line_ = 0;
  double number_ = 0;
  int64_t integer_ = 0;
  std::string text_;
  std::vector<Json> items_;
  std::vector<Member> members_;
};

struct Json::Member {
  std::string name;
  Json value;
};

}  // namespace outrider
