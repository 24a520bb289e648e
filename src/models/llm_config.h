// Sizes and switches of a text model of the decoder kind. Source: gguf-models.md C.2.
#pragma once
#include <cstdint>

#include "tensor/ops.h"

namespace outrider {

enum class LlmArch : uint8_t { kLlama, kQwen2, kQwen3, kGemma, kGemma2, kGemma3, kQwen2Vl };
const char* llm_arch_name(LlmArch arch);

struct LlmConfig {
  LlmArch arch = LlmArch::kLlama;
  int64_t vocab = 0, width = 0, mlp = 0, n_layers = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0;
  int64_t trained_context = 0;  // 0: the file does not say
  float norm_eps = 1e-6f;
  // Positions of global layers are divided by rope_factor; local layers have their own base.
  double rope_base = 10000, rope_factor = 1, rope_base_local = 10000;
  bool adjacent_pairs = false;  // rotary pairs (2j, 2j + 1) as the file has them, else (j, j + d/2)
  // Rotary pairs that turn by time, row and column of a token; all 0: by its position.
  int64_t sections[3] = {0, 0, 0};
  int64_t window = 0;   // keys that a local layer sees; 0: every layer is global
  int64_t pattern = 0;  // layer i is local unless (i + 1) % pattern == 0
  float attention_scale = 1;
  float attention_cap = 0, logit_cap = 0;  // 0: none
  float embed_scale = 1;
  bool qk_norm = false, post_norms = false, tied = false;
  Activation activation = Activation::kSilu;

  int64_t q_width() const { return n_heads * head_dim; }
  int64_t kv_width() const { return n_kv_heads * head_dim; }
  bool has_sections() const { return sections[0] + sections[1] + sections[2] > 0; }
  bool is_local(int64_t layer) const { return window > 0 && (layer + 1) % pattern != 0; }
};

}  // namespace outrider
