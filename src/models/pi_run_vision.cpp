// The vision pass: pictures to rows of the prefix.
#include <cmath>

#include "base/assert.h"
#include "models/pi_run.h"

namespace outrider {

// Patch p of a view: [channel][row][column], patches row by row over the image.
void PiRun::patchify(const PiPixels& pixels, View<float> patches) noexcept {
  const int64_t size = model_->config.vision.image_size, patch = model_->config.vision.patch_size;
  const int64_t per_side = size / patch;
  for (int64_t p = 0; p < patches.rows; ++p) {
    const int64_t top = p / per_side * patch, left = p % per_side * patch;
    float* out = patches.row(p);
    for (int64_t channel = 0; channel < 3; ++channel) {
      for (int64_t y = 0; y < patch; ++y) {
        const int64_t first = ((top + y) * size + left) * 3 + channel;
        if (pixels.scaled != nullptr) {
          for (int64_t x = 0; x < patch; ++x) *out++ = pixels.scaled[first + x * 3];
        } else {
          for (int64_t x = 0; x < patch; ++x) *out++ = pixel_[pixels.rgb[first + x * 3]];
        }
      }
    }
  }
}

void PiRun::vision_layer(const VisionLayer& layer, int64_t n_views) noexcept {
  const VisionConfig& v = model_->config.vision;
  const int64_t tokens = v.n_tokens(), rows = n_views * tokens, width = v.width;
  const float eps = 1e-6f;
  const View<float> h(vision_h_, rows, width), y(vision_y_, rows, width);
  const View<float> qkv(vision_qkv_, rows, 3 * width), mlp(vision_mlp_, rows, v.mlp);
  const auto normed = [&](const auto& norm) {
    return LinearIn(h, {RowNorm::Kind::kLayer, norm.weight.data(), norm.bias.data(), eps});
  };
  ops_->linear(normed(layer.ln1), layer.qkv.w, {.y = qkv, .bias = layer.qkv.bias.data()});
  for (int64_t i = 0; i < n_views; ++i) {
    const View<float> mine = qkv.rows_from(i * tokens, tokens);
    ops_->kv_store(vision_cache_, 0, mine.cols_from(width, width),
                   mine.cols_from(2 * width, width));
    AttentionArgs args;
    args.q = mine.cols_from(0, width);
    args.n_heads = static_cast<int32_t>(v.n_heads);
    args.scale = 1.0f / std::sqrt(static_cast<float>(v.head_dim()));
    args.n_keys = tokens;
    args.out = y.rows_from(i * tokens, tokens);
    ops_->attention(args, vision_cache_);
  }
  ops_->linear(y, layer.out.w, {.y = h, .bias = layer.out.bias.data(), .add = true});
  const bool quick = model_->options.numerics.quick_gelu_by_flag && !v.use_gelu;
  ops_->linear(normed(layer.ln2), layer.fc1.w,
               {.y = mlp,
                .bias = layer.fc1.bias.data(),
                .activation = quick ? Activation::kGeluQuick : Activation::kGeluTanh});
  ops_->linear(mlp, layer.fc2.w, {.y = h, .bias = layer.fc2.bias.data(), .add = true});
}

void PiRun::encode_views(std::span<const uint8_t* const> views) noexcept {
  stopped_ = false;
  n_views_ = static_cast<int64_t>(views.size());
  views_placed_ = reuse_ && taps_ == nullptr;
  if (views_placed_) return place_views(views);
  PiPixels pixels[kMaxSlots];
  OUTRIDER_ASSERT(n_views_ <= kMaxSlots);
  for (size_t i = 0; i < views.size(); ++i) pixels[i].rgb = views[i];
  encode_computed(std::span<const PiPixels>(pixels).first(views.size()));
}

void PiRun::encode_views(std::span<const PiPixels> views) noexcept {
  const uint8_t* bytes[kMaxSlots];
  OUTRIDER_ASSERT(static_cast<int64_t>(views.size()) <= kMaxSlots);
  bool all_bytes = true;
  for (size_t i = 0; i < views.size(); ++i) {
    bytes[i] = views[i].rgb;
    all_bytes = all_bytes && views[i].scaled == nullptr;
  }
  if (all_bytes) return encode_views(std::span<const uint8_t* const>(bytes, views.size()));
  stopped_ = false;
  n_views_ = static_cast<int64_t>(views.size());
  views_placed_ = false;
  encode_computed(views);
}

void PiRun::encode_computed(std::span<const PiPixels> views) noexcept {
  prefix_kept_ = false;
  compute_views(views);
  if (taps_ == nullptr) return;
  const int64_t tokens = model_->config.vision.n_tokens(), width = model_->config.backbone.width;
  for (int64_t i = 0; i < n_views_; ++i)
    tap("image_embd", i, View<const float>(prefix_ + i * tokens * width, tokens, width));
}

// The tokens of `views`, one after the other, to the first rows of prefix_.
void PiRun::compute_views(std::span<const PiPixels> views) noexcept {
  const PiModel& m = *model_;
  const VisionConfig& v = m.config.vision;
  const int64_t tokens = v.n_tokens(), patch_values = 3 * v.patch_size * v.patch_size;
  const auto n_views = static_cast<int64_t>(views.size());
  const int64_t rows = n_views * tokens;
  reuse_counts_.computed_views += n_views;
  if (rows == 0) return;
  const View<float> patches(patches_, rows, patch_values), h(vision_h_, rows, v.width);
  for (int64_t i = 0; i < n_views; ++i)
    patchify(views[static_cast<size_t>(i)], patches.rows_from(i * tokens, tokens));
  ops_->linear(patches, m.patch.w, {.y = h, .bias = m.patch.bias.data()});
  for (int64_t i = 0; i < rows; ++i) {
    const float* position = m.position.data() + i % tokens * v.width;
    for (int64_t j = 0; j < v.width; ++j) h.row(i)[j] += position[j];
  }
  for (const VisionLayer& layer : m.vision) {
    if (stop_here()) return;
    vision_layer(layer, n_views);
  }
  const View<float> out(prefix_, rows, m.config.backbone.width);
  const RowNorm post{RowNorm::Kind::kLayer, m.post_ln.weight.data(), m.post_ln.bias.data(), 1e-6f};
  ops_->linear({h, post}, m.projector.w, {.y = out, .bias = m.projector.bias.data()});
}

}  // namespace outrider
