// The metadata keys that a PI0 / PI0.5 file carries, for those who write one.
// Source: gguf-models.md B.2, B.4, C.1.
#pragma once
#include <cstdint>
#include <span>
#include <utility>

#include "gguf/writer.h"
#include "models/pi_config.h"
#include "text/tokenizer.h"

namespace outrider {

// general.file_type of a file whose large matrices have this type.
uint32_t gguf_file_type(DType dtype);
// pi0.*: sizes of both stacks, chunk, steps; of PI0-FAST pi0_fast.*, with the longest answer.
void add_pi_size_keys(GgufWriter& keys, const PiConfig& config, uint32_t context_length);
// clip.*: the vision tower and its projector.
void add_pi_vision_keys(GgufWriter& keys, const PiConfig& config);
// tokenizer.ggml.*; further ids by name behind the usual ones.
void add_vocab_keys(GgufWriter& keys, const SpmVocab& vocab,
                    std::span<const std::pair<const char*, int32_t>> further_ids = {});

}  // namespace outrider
