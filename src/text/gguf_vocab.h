// The vocabulary keys of a GGUF file, for the readers of both kinds.
#pragma once
#include "base/result.h"
#include "gguf/gguf.h"
#include "text/tokenizer.h"

namespace outrider {

// An absent key leaves *id or *flag alone. Errors: kNotFound naming file and key (another type, an
// id that is none of n_pieces).
Result<void> read_vocab_id(const GgufFile& file, const char* key, size_t n_pieces, int32_t* id);
Result<void> read_vocab_flag(const GgufFile& file, const char* key, bool* flag);

// [setup] tokenizer.ggml.model "llama".
Result<SpmVocab> read_spm_vocab(const GgufFile& file);

}  // namespace outrider
