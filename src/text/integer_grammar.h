// Decimal integers between two bounds, without leading zeros and without "-0".
#pragma once
#include <cstdint>

#include "text/byte_automaton.h"

namespace outrider {

inline constexpr int64_t kMaxInteger = 999'999'999'999'999'999;  // 18 digits

// low <= high, both within +-kMaxInteger.
ByteNfa::Part integer_between(ByteNfa& nfa, int64_t low, int64_t high);

}  // namespace outrider
