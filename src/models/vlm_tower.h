// Pictures to the tokens that a text model reads: one vision tower with its memory.
// Source of the maths: gguf-models.md B.5, D.1 to D.3.
#pragma once
#include <atomic>
#include <memory>
#include <span>

#include "base/arena.h"
#include "models/rope_table.h"
#include "models/vlm_model.h"

namespace outrider {

// Packed RGB of width x height: image_size square, or of kQwen25Vl any multiple of 2 * patch_size.
struct VlmFrame {
  const uint8_t* rgb = nullptr;
  const uint8_t* second = nullptr;  // kQwen25Vl: what follows in time; null: the first once more
  int64_t width = 0, height = 0;
  int64_t stride = 0;  // pixels from one row to the next; 0: width
};

class VlmTower {
 public:
  // [setup] `ops` must be reserved for limits() and outlive the tower. most_tokens: of the largest
  // picture, for kQwen25Vl; at least 1. Errors: kNoMemory.
  static Result<std::unique_ptr<VlmTower>> make(std::shared_ptr<const VlmModel> model, Ops& ops,
                                                int64_t most_tokens);
  static OpsLimits limits(const VlmConfig& config, int64_t most_tokens);
  // Tokens of a frame.
  static int64_t n_tokens(const VlmConfig& config, const VlmFrame& frame);

  // [hot] out [n_tokens, out_width]. False when `cancel` was seen set, between layers.
  bool encode(const VlmFrame& frame, View<float> out,
              const std::atomic<bool>* cancel = nullptr) noexcept;

  const VlmModel& model() const { return *model_; }
  int64_t state_bytes() const { return static_cast<int64_t>(arena_.used_bytes()); }

 private:
  VlmTower() = default;
  struct Sizes;
  void take_views(const Sizes& sizes);
  void norm(View<float> x, const VlmNormRef& norm, View<float> y) noexcept;
  void order_windows(int64_t columns, int64_t lines) noexcept;
  void read_patches(const VlmFrame& frame, int64_t first, View<float> out) noexcept;
  void embed(const VlmFrame& frame) noexcept;
  void keys(const VlmLayer& layer) noexcept;
  void layer(size_t i) noexcept;
  void feed_forward(const VlmLayer& layer, View<float> h, View<float> y) noexcept;
  void pool(View<float> out) noexcept;
  void shuffle(View<float> out) noexcept;
  void merge(View<float> out) noexcept;

  std::shared_ptr<const VlmModel> model_;
  Ops* ops_ = nullptr;
  Arena arena_;
  RopeTable rope_;  // kQwen25Vl: a quarter of a head, by patch row or column
  float pixel_[3][256];

  // Of the picture at hand.
  int64_t rows_ = 0;  // patches
  // Named views of the arena.
  float *h_ = nullptr, *q_ = nullptr;  // [rows, width]
  float *y_ = nullptr, *qkv_ = nullptr, *mlp_ = nullptr, *gate_ = nullptr, *patches_ = nullptr,
        *joined_ = nullptr, *tokens_ = nullptr;
  float *cos_ = nullptr, *sin_ = nullptr;  // [rows, head_dim / 2]
  std::span<int32_t> order_;               // [tokens] raster index of the i-th in window order
  std::span<int32_t> first_, visible_;     // [rows] the window of a patch
  KvCache cache_;
};

}  // namespace outrider
