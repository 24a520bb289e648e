// The one JSON reader of this project: strict, bounded, never throws.
//
// Grammar is RFC 8259 minus everything lenient: no comments, no trailing comma, no repeated key, no
// trailing text, no ill-formed UTF-8, no lone surrogate, no number beyond the largest double.
// `Dialect::kFlatOpen` narrows it further to the open configuration of the model-runtime ABI
// (section 14): one flat object with at least one key, no nesting, no true/false/null, no \uXXXX.
// Its numbers follow that text: a plus sign, ".5" and "5." may be written (is_integer() is false
// for them), the value must lie in float range and the exponent has at most 3 digits. Which key
// wants which type, and whether a string may be empty, is the caller's schema.
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
  // Nesting beyond this is refused whatever the limits say: values are freed recursively.
  static constexpr uint32_t kMaxDepth = 1024;
  struct Limits {
    size_t max_bytes = size_t{64} << 20;
    uint32_t max_depth =
        64;  // containers inside each other; above kMaxDepth it counts as kMaxDepth
    // A value costs about 110 bytes: this bounds a parse near 0.5 GB, twice that while arrays grow.
    size_t max_values = size_t{4} << 20;
  };
  struct Member;

  // Errors: kInvalid with the byte offset (from 0), line and column (in bytes, from 1) of the first
  // fault, what was found and what was expected, or with the name of the limit; kNoMemory.
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
  // Decoded string, well-formed UTF-8, in which the escape \u0000 puts a NUL; for numbers the
  // literal as written.
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
