// The tokenizer's rules written down as they read, without any concern for speed.
#pragma once
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace outrider::text_test {

struct OracleFragment {
  std::string_view text;
  int32_t id = -1;  // of a special piece, -1 for raw text
};

// Special pieces one after the other, longest first, each cutting every raw fragment.
std::vector<OracleFragment> oracle_cut(const SpmVocab& vocab, std::string_view text,
                                       bool parse_special);

// text: valid UTF-8.
std::vector<int32_t> oracle_encode(const SpmVocab& vocab, std::string_view text,
                                   EncodeOptions options);

// A vocabulary that provokes ties, overlaps and fall-backs: few characters, many short pieces of
// every type, few different scores.
SpmVocab random_vocab(uint64_t seed);
// Characters of that alphabet and a few outside it; n characters.
std::string random_text(uint64_t seed, size_t n_chars);

}  // namespace outrider::text_test
