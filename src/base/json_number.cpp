#include "base/json_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/assert.h"

namespace outrider {
namespace {

constexpr size_t kMaxFlatExponentDigits = 3;

// The literal taken apart; all members look into the text.
struct Parts {
  bool plus = false, minus = false, has_point = false, has_exponent = false;
  std::string_view whole, fraction, exponent;  // digits only
  bool exponent_minus = false;
};

class Cursor {
 public:
  Cursor(std::string_view text, size_t at) : text_(text), at_(at) {}
  size_t at() const { return at_; }
  void move_to(size_t at) { at_ = at; }
  bool skip(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string_view digits() {
    const size_t from = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return text_.substr(from, at_ - from);
  }

 private:
  std::string_view text_;
  size_t at_;
};

// Returns what was expected where the cursor stands, or nullptr when the literal is in order.
const char* read_parts(Cursor& cursor, bool flat, Parts& parts) {
  parts.minus = cursor.skip('-');
  if (flat && !parts.minus) parts.plus = cursor.skip('+');
  const size_t whole_at = cursor.at();
  parts.whole = cursor.digits();
  if (!flat && parts.whole.empty()) return "a digit";
  parts.has_point = cursor.skip('.');
  if (parts.has_point) parts.fraction = cursor.digits();
  if (!flat && parts.has_point && parts.fraction.empty()) return "a digit after the point";
  if (parts.whole.empty() && parts.fraction.empty()) return "a digit";
  parts.has_exponent = cursor.skip('e') || cursor.skip('E');
  if (parts.has_exponent) {
    parts.exponent_minus = cursor.skip('-');
    if (!parts.exponent_minus) cursor.skip('+');
    parts.exponent = cursor.digits();
    if (parts.exponent.empty()) return "a digit of the exponent";
  }
  const bool superfluous_zero = parts.whole.size() > 1 && parts.whole[0] == '0';
  if (superfluous_zero && (!flat || (!parts.has_point && !parts.has_exponent))) {
    cursor.move_to(whole_at);
    return "a number without leading zeros";
  }
  if (flat && parts.exponent.size() > kMaxFlatExponentDigits) {
    return "an exponent of at most 3 digits before this byte";
  }
  return nullptr;
}

// For literals that no double holds: is it the too large kind? Looks at the decimal exponent of the
// first digit that is not zero; saturates, since exponents may have any length.
bool is_too_large(const Parts& parts) {
  constexpr int64_t kFar = int64_t{1} << 40;
  int64_t exponent = 0;
  for (char digit : parts.exponent) exponent = std::min(kFar, exponent * 10 + (digit - '0'));
  if (parts.exponent_minus) exponent = -exponent;
  const size_t in_whole = parts.whole.find_first_not_of('0');
  if (in_whole != std::string_view::npos) {
    return exponent + static_cast<int64_t>(parts.whole.size() - in_whole) > 0;
  }
  const size_t in_fraction = parts.fraction.find_first_not_of('0');
  OUTRIDER_ASSERT(in_fraction != std::string_view::npos);  // zero is never out of range
  return exponent - static_cast<int64_t>(in_fraction) > 0;
}

bool has_nonzero_digit(const Parts& parts) {
  return parts.whole.find_first_not_of('0') != std::string_view::npos ||
         parts.fraction.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

JsonNumber scan_json_number(std::string_view text, size_t at, Json::Dialect dialect) noexcept {
  const bool flat = dialect == Json::Dialect::kFlatOpen;
  JsonNumber number;
  Cursor cursor(text, at);
  Parts parts;
  number.fault = read_parts(cursor, flat, parts);
  number.end = cursor.at();
  if (number.fault != nullptr) return number;

  const char* first = text.data() + at + (parts.plus ? 1 : 0);  // from_chars knows no plus
  const char* last = text.data() + number.end;
  if (!parts.has_point && !parts.has_exponent && !parts.plus) {
    const auto [stop, cause] = std::from_chars(first, last, number.integer);
    number.integral = cause == std::errc() && stop == last;
  }
  const auto [stop, cause] = std::from_chars(first, last, number.value);
  OUTRIDER_ASSERT(stop == last && cause != std::errc::invalid_argument);
  bool fits = true;
  if (cause == std::errc::result_out_of_range) {
    fits = !is_too_large(parts);
    number.value = parts.minus ? -0.0 : 0.0;
  }
  if (flat) {
    fits = fits && std::abs(number.value) <= double{std::numeric_limits<float>::max()};
    fits = fits && (static_cast<float>(number.value) != 0.0f || !has_nonzero_digit(parts));
  }
  if (!fits) {
    number.out_of_range = true;
    number.fault = flat ? "zero or a magnitude from 1.4e-45 to 3.4028235e38"
                        : "a magnitude of at most 1.7976931348623157e308";
  }
  return number;
}

}  // namespace outrider
