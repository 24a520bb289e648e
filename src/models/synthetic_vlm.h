// Writes vision-language pairs with random weights: for tests and for trying without a download.
// Every key and tensor of a converted checkpoint is there. Source: gguf-models.md D.
#pragma once
#include "models/synthetic_llm.h"
#include "models/vlm_config.h"

namespace outrider {

struct SyntheticVlm {
  VlmKind kind = VlmKind::kGemma3;
  // False: a million weights, a picture is 4 tokens (kGemma3), any number (kQwen25Vl) or 4 a tile
  // (kIdefics3). True: the tower of a 400-million-weight SigLIP (kQwen25Vl: of 32 blocks of 1280).
  bool full = false;
  DType dtype = DType::kF16;
  uint64_t seed = 1;
};

VlmConfig synthetic_vlm_config(const SyntheticVlm& what);
SyntheticLlm synthetic_vlm_text(const SyntheticVlm& what);

// Errors: those of write_synthetic_llm; kInvalid when both paths are one file. Nothing is left
// behind on failure.
Result<void> write_synthetic_vlm(const SyntheticVlm& what, const char* text_path,
                                 const char* vision_path);
// The vision file alone.
Result<void> write_synthetic_vision(const SyntheticVlm& what, const char* path);

}  // namespace outrider
