// Sizes and numerics of a PI0, PI0.5 or PI0-FAST policy. Source: pi-policy.md 1, 12; gguf-models.md
// B.
#pragma once
#include <cstdint>

#include "tensor/ops.h"

namespace outrider {

// Tokens from elsewhere that may stand in front of the suffix.
inline constexpr int64_t kMaxExtraTokens = 4;

// kPi0Fast writes its actions token by token with the language model itself: it has no expert.
enum class PiFamily : uint8_t { kPi0, kPi05, kPi0Fast };
inline const char* pi_family_name(PiFamily family) {
  return family == PiFamily::kPi0 ? "PI0" : family == PiFamily::kPi05 ? "PI0.5" : "PI0-FAST";
}

struct VisionConfig {
  int64_t image_size = 0, patch_size = 0;  // pixels, square
  int64_t width = 0, mlp = 0, n_layers = 0, n_heads = 0;
  bool use_gelu = true;  // the file's flag; what it means is a matter of numerics
  int64_t n_tokens() const { return (image_size / patch_size) * (image_size / patch_size); }
  int64_t head_dim() const { return width / n_heads; }
};

struct GemmaConfig {
  int64_t width = 0, mlp = 0, n_layers = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0;
  int64_t q_width() const { return n_heads * head_dim; }
  int64_t kv_width() const { return n_kv_heads * head_dim; }
};

struct PiConfig {
  PiFamily family = PiFamily::kPi05;
  VisionConfig vision;
  GemmaConfig backbone, expert;
  int64_t vocab = 0;
  int64_t action_dim = 0, action_steps = 0;  // one chunk is [action_steps, action_dim]
  int64_t n_denoise_steps = 10;              // Euler steps
  int64_t answer_tokens = 0;                 // PI0-FAST: most tokens of one answer
  bool own_head = false;  // PI0-FAST: the output head is no copy of the embedding
  double rope_base = 10000;

  bool is_fast() const { return family == PiFamily::kPi0Fast; }
  // What stands behind the prefix. PI0 has one state token in front of the action tokens; PI0-FAST
  // has its answer there.
  int64_t suffix_tokens() const {
    return is_fast() ? answer_tokens : action_steps + (family == PiFamily::kPi0 ? 1 : 0);
  }
};

// Where the reference (openpi) and Jetson-PI-Edge differ inside the model. pi-policy.md 13.
struct PiNumerics {
  bool rope_bf16 = false;    // rotary frequencies rounded to bfloat16
  bool exact_times = false;  // t = 1 - k/N; otherwise accumulated in float32 like the reference
  bool quick_gelu_by_flag = false;  // vision: quick GELU where the file says use_gelu = false

  static PiNumerics reference() { return {}; }
  static PiNumerics jetson_pi(PiFamily family) { return {family == PiFamily::kPi05, true, true}; }
};

struct PiOptions {
  PiNumerics numerics;
  Precision precision = Precision::kF32;
};

}  // namespace outrider
