// Which known name a misspelt one was meant to be, for "did you mean".
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace outrider {

// Letters to change, insert, drop, or exchange with their neighbour.
size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `known`; nullptr when none is so near that it was meant: at most one letter in
// three differs. Naming a far one would send the reader the wrong way.
const char* nearest_name(std::string_view word, std::span<const char* const> known);

// [setup] kInvalid: a configuration key that its family does not have, with the near one or with
// where the keys are listed.
Error unknown_key_error(const char* family, const std::string& key,
                        std::span<const char* const> known);

}  // namespace outrider
