// The part of a SentencePiece model file (.model, one protocol buffer) that a BPE tokenizer needs:
// pieces with score and type, the special ids, the rules about blanks. Hostile input: every length
// is checked against what is left of its message, nothing is allocated by a claimed size.
// Source: the public description of the format, sentencepiece_model.proto.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "text/tokenizer.h"

namespace outrider {

inline constexpr size_t kMaxSentencePieceBytes = size_t{64} << 20;
inline constexpr size_t kMaxSentencePieces = size_t{1} << 21;

// [setup] Errors: kNotFound (damaged: field, byte, what is wrong; no pieces), kUnsupported
// (unigram, word or character models; a normaliser that rewrites text; blanks squeezed or put
// behind words).
Result<SpmVocab> read_sentencepiece(std::span<const std::byte> bytes, const std::string& name);

}  // namespace outrider
