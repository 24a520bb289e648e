#include "text/char_class.h"

#include <algorithm>

namespace outrider {

void CharClass::add_range(uint32_t first, uint32_t last) {
  Term term;
  term.first = first;
  term.last = last;
  terms_.push_back(term);
}

void CharClass::fold_ascii_case() {
  const auto add_other = [&](const Term& term, uint32_t low, uint32_t high, uint32_t other) {
    const uint32_t from = std::max(term.first, low), to = std::min(term.last, high);
    if (from <= to) add_range(from - low + other, to - low + other);
  };
  const std::vector<Term> written = terms_;
  for (const Term& term : written) {
    add_other(term, 'a', 'z', 'A');
    add_other(term, 'A', 'Z', 'a');
  }
}

void CharClass::seal() {
  for (CharClass& other : also_) other.seal();
  for (uint32_t code = 0; code < 128; ++code) ascii_[code] = slow_contains(code);
}

bool CharClass::slow_contains(uint32_t code) const noexcept {
  const uint32_t category = uint32_t{1} << static_cast<uint32_t>(unicode_category(code));
  const bool found = std::any_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    const bool in = (term.categories & category) != 0 || (term.space && unicode_space(code)) ||
                    (code >= term.first && code <= term.last);
    return in != term.negated;
  });
  return found != negated_ && std::all_of(also_.begin(), also_.end(), [&](const CharClass& other) {
           return other.contains(code);
         });
}

}  // namespace outrider
