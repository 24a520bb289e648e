// Sizes of a vision tower whose picture tokens a text model reads. Source: gguf-models.md B.4, D.
#pragma once
#include <algorithm>
#include <cstdint>

#include "tensor/ops.h"

namespace outrider {

// By the projector: "gemma3" (average pooling), "qwen2.5vl_merger" (pictures of any size, windows),
// "idefics3" (tiles, pixel shuffle).
enum class VlmKind : uint8_t { kGemma3, kQwen25Vl, kIdefics3 };
const char* vlm_kind_name(VlmKind kind);  // as in clip.projector_type

struct VlmConfig {
  VlmKind kind = VlmKind::kGemma3;
  int64_t image_size = 0, patch_size = 0;  // pixels, square; of kQwen25Vl the size means nothing
  int64_t width = 0, mlp = 0, n_layers = 0, n_heads = 0;
  int64_t out_width = 0;  // of a picture token: the text model's width
  int64_t merge = 1;      // patches a side that become one token
  int64_t longest = 0;    // kIdefics3: pixels of a tiled picture's longest side; 0: no tiles
  int64_t full_every =
      0;  // kQwen25Vl: block i sees the whole picture when (i + 1) % it == 0; 0: all
  float eps = 1e-6f;
  Activation activation = Activation::kGeluTanh;
  float mean[3] = {}, deviation[3] = {1, 1, 1};

  // kQwen25Vl: merged tokens of one picture, at least and at most, and of a window's side.
  static constexpr int64_t kLeastTokens = 8, kMostTokens = 4096;
  static constexpr int64_t kWindowPixels = 112;
  int64_t window() const { return std::max<int64_t>(kWindowPixels / patch_size / merge, 1); }

  int64_t head_dim() const { return width / n_heads; }
  int64_t patch_values() const { return 3 * patch_size * patch_size; }
  // Patches of one frame of image_size; what is not whole after merging is filled up (kIdefics3).
  int64_t side() const { return image_size / patch_size; }
  int64_t tokens_a_side() const { return (side() + merge - 1) / merge; }
  // Tokens of one frame: of kQwen25Vl the most there can be.
  int64_t most_tokens() const {
    return kind == VlmKind::kQwen25Vl ? kMostTokens : tokens_a_side() * tokens_a_side();
  }
  // Pixels that become one token of a frame of whole tokens, as packed RGB.
  bool fixed_size() const { return kind != VlmKind::kQwen25Vl; }
};

}  // namespace outrider
