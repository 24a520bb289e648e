// A vocabulary in the manner of Gemma's, made for synthetic policies: the same ids where a policy
// depends on them, its own words, as many spare pieces as the wanted size asks for.
#pragma once
#include <span>
#include <string_view>

#include "text/tokenizer.h"

namespace outrider {

// Ids below 109 are Gemma's: 0 pad, 1 eos, 2 bos, 3 unk, 67..70 the four file markers, 106 and 107
// the turns, 108 the newline (user defined). Then 256 byte pieces, word pieces with every prefix
// that merging passes through (falling scores), single printable characters, spares ("unused").
// Digits have no longer piece, so each is a token of its own.
//   n_pieces   at least kSyntheticVocabMin (asserted); small ones hold fewer words
inline constexpr int64_t kSyntheticVocabMin = 512;
SpmVocab synthetic_vocab(int64_t n_pieces);

// The words, most wanted first: a small vocabulary holds a leading part of them. A word stands for
// a piece with a leading blank; one that begins with '=' for a piece without.
std::span<const std::string_view> synthetic_words();

}  // namespace outrider
