// Small vocabularies of language models, as tokenizer.json texts.
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "text/language_tokenizer.h"

namespace outrider::text_test {

// A JSON string literal.
std::string json_string(std::string_view text);

// Byte-level BPE: ids 0..255 are the bytes, then `words` (bytes, made by merging from the left),
// then <|begin|> (BOS, added), <|end|> and <|user|> as control pieces and <tool> as user-defined.
// Words are cut as GPT-2 cuts them.
std::string byte_bpe_json(const std::vector<std::string>& words = {});
LanguageTokenizer byte_bpe_tokenizer(const std::vector<std::string>& words = {});

// SentencePiece style with byte pieces: <unk> <s> </s>, 256 bytes.
LanguageTokenizer byte_piece_tokenizer();

// The id that stands for one byte in either of the two.
int32_t byte_id(const LanguageTokenizer& tokenizer, uint8_t byte);

// Where tests/text/vocabularies.sh puts what it fetches: $OUTRIDER_VOCABULARIES, or in the cache.
std::filesystem::path vocabularies_dir();
// Folder of one vocabulary that tests/text/vocabularies.sh fetched; empty where there is none.
// OUTRIDER_VOCABULARIES names another place than the cache.
std::filesystem::path vocabulary_dir(const std::string& name);

LanguageTokenizer from_json_text(const std::string& text, const std::string& config = "");

}  // namespace outrider::text_test
