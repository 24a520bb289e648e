// A set of characters as a split pattern writes it: [^\r\n\p{L}], \s, \p{N}, a, [a-z&&[^b]].
#pragma once
#include <cstdint>
#include <vector>

#include "text/unicode.h"

namespace outrider {

class CharClass {
 public:
  // One member; a class holds a character that any of them holds.
  struct Term {
    bool negated = false;
    uint32_t categories = 0;       // bit per Category
    bool space = false;            // White_Space
    uint32_t first = 1, last = 0;  // a range; empty when first > last
  };
  void add(const Term& term) { terms_.push_back(term); }
  void add_range(uint32_t first, uint32_t last);
  void fold_ascii_case();  // adds the other case of each ASCII letter in a range
  void negate() { negated_ = !negated_; }
  void intersect(CharClass with) { also_.push_back(std::move(with)); }
  // [setup] Call last: makes the table of the first 128 characters.
  void seal();

  // [hot]
  bool contains(uint32_t code) const noexcept {
    return code < 128 ? ascii_[code] : slow_contains(code);
  }

 private:
  bool slow_contains(uint32_t code) const noexcept;

  std::vector<Term> terms_;
  std::vector<CharClass> also_;
  bool negated_ = false;
  bool ascii_[128] = {};
};

}  // namespace outrider
