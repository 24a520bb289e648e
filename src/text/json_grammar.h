// From a JSON schema to the set of texts that follow it: a subset of the schema language, each
// keyword either done exactly or refused.
#pragma once
#include <cstdint>

#include "base/json.h"
#include "base/result.h"
#include "text/byte_automaton.h"

namespace outrider {

struct JsonGrammarLimits {
  uint32_t max_depth = 32;  // of the schema
  uint32_t free_depth = 2;  // of a value without a schema of its own
};

// [setup] Properties come in the order of the schema, those not in `required` may be left out, no
// others come. One blank may stand in front of the document, behind ':' and behind ','. Integers
// have at most 18 digits, other numbers 15 before and behind the point and 2 in the exponent.
// Errors: kUnsupported naming the keyword and where it stands, kInvalid.
Result<ByteNfa::Part> json_grammar(const Json& schema, const JsonGrammarLimits& limits,
                                   ByteNfa& nfa);

}  // namespace outrider
