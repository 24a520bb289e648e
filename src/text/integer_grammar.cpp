#include "text/integer_grammar.h"

#include <string>
#include <vector>

#include "base/assert.h"

namespace outrider {
namespace {

using Part = ByteNfa::Part;

Part digits(ByteNfa& nfa, size_t n) {
  return nfa.repeat(static_cast<uint32_t>(n), static_cast<uint32_t>(n),
                    [&] { return nfa.range('0', '9'); });
}

// Numbers with as many digits as both bounds, which share their first `at` digits.
Part same_length(ByteNfa& nfa, const std::string& low, const std::string& high, size_t at) {
  if (at == low.size()) return nfa.nothing();
  // Free from here on. Without this the two bounds would be told apart in every branch.
  if (low.find_first_not_of('0', at) == low.npos && high.find_first_not_of('9', at) == high.npos)
    return digits(nfa, low.size() - at);
  const auto digit = [&](char c) { return nfa.bytes(std::string_view(&c, 1)); };
  if (low[at] == high[at]) return nfa.then(digit(low[at]), same_length(nfa, low, high, at + 1));
  // The lowest first digit with a bound below, those between free, the highest with one above.
  const std::string nines(low.size(), '9'), zeros(low.size(), '0');
  const size_t left = low.size() - at - 1;
  std::vector<Part> ways;
  ways.push_back(nfa.then(
      digit(low[at]), same_length(nfa, low, low.substr(0, at + 1) + nines.substr(at + 1), at + 1)));
  if (low[at] + 1 < high[at])
    ways.push_back(
        nfa.then(nfa.range(static_cast<uint8_t>(low[at] + 1), static_cast<uint8_t>(high[at] - 1)),
                 digits(nfa, left)));
  ways.push_back(
      nfa.then(digit(high[at]),
               same_length(nfa, high.substr(0, at + 1) + zeros.substr(at + 1), high, at + 1)));
  return nfa.either(ways);
}

// 0 <= low <= high.
Part natural(ByteNfa& nfa, int64_t low, int64_t high) {
  std::vector<Part> ways;
  int64_t smallest = 1;  // with this many digits
  for (size_t n = 1; n <= 18; ++n, smallest *= 10) {
    const int64_t from = n == 1 ? low : std::max(low, smallest);
    const int64_t to = std::min(high, smallest * 10 - 1);
    if (from <= to) ways.push_back(same_length(nfa, std::to_string(from), std::to_string(to), 0));
  }
  return nfa.either(ways);
}

}  // namespace

ByteNfa::Part integer_between(ByteNfa& nfa, int64_t low, int64_t high) {
  OUTRIDER_ASSERT(low <= high && low >= -kMaxInteger && high <= kMaxInteger);
  std::vector<Part> ways;
  if (low < 0) ways.push_back(nfa.then(nfa.bytes("-"), natural(nfa, high < 0 ? -high : 1, -low)));
  if (high >= 0) ways.push_back(natural(nfa, low > 0 ? low : 0, high));
  return nfa.either(ways);
}

}  // namespace outrider
