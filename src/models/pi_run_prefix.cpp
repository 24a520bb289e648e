// The prefix pass: text behind the pictures, through the backbone; keys and values stay.
#include <cmath>

#include "base/assert.h"
#include "models/pi_run.h"

namespace outrider {
namespace {

RowNorm stored_norm(const std::vector<float>& scale) {
  return {RowNorm::Kind::kRms, scale.data(), nullptr, 1e-6f};
}

}  // namespace

void PiRun::embed_text(std::span<const int32_t> tokens, float* out) noexcept {
  const Matrix& embed = model_->embed;
  const float scale = std::sqrt(static_cast<float>(embed.n_in));
  const size_t bytes = row_bytes(embed.dtype, embed.n_in);
  for (const int32_t token : tokens) {
    OUTRIDER_ASSERT(token >= 0 && token < embed.n_out);
    dequantize_row(embed.dtype,
                   static_cast<const std::byte*>(embed.data) + static_cast<size_t>(token) * bytes,
                   out, embed.n_in);
    for (int64_t j = 0; j < embed.n_in; ++j) out[j] *= scale;
    out += embed.n_in;
  }
}

// Rotates q and k of qkv in place, stores k and v, attends.
void PiRun::attend(const GemmaConfig& config, View<float> qkv, const KvCache& cache,
                   const Place& place, const int32_t* visible, View<float> out) noexcept {
  const int64_t q_width = config.q_width(), kv_width = config.kv_width(), n = qkv.rows;
  const auto cos = rope_.cos(place.position, n), sin = rope_.sin(place.position, n);
  ops_->rope(qkv.cols_from(0, q_width + kv_width), static_cast<int32_t>(config.head_dim), cos, sin);
  ops_->kv_store(cache, place.slot, qkv.cols_from(q_width, kv_width),
                 qkv.cols_from(q_width + kv_width, kv_width));
  AttentionArgs args;
  args.q = qkv.rows_from(place.asks_from, n - place.asks_from).cols_from(0, q_width);
  args.n_heads = static_cast<int32_t>(config.n_heads);
  args.scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  args.n_keys = place.n_keys;
  args.visible = visible;
  args.out = out;
  ops_->attention(args, cache);
}

// What follows attention in a layer with stored norms.
void PiRun::finish_layer(const GemmaLayer& layer, View<float> attended, View<float> x) noexcept {
  const View<float> mlp(prefix_mlp_, x.rows, model_->config.backbone.mlp);
  ops_->linear(attended, layer.o, {.y = x, .add = true});
  ops_->gated_linear({x, stored_norm(layer.norm2)}, layer.gate_up, Activation::kGeluTanh, mlp);
  ops_->linear(mlp, layer.down, {.y = x, .add = true});
}

void PiRun::backbone_layer(size_t i) noexcept {
  const GemmaConfig& config = model_->config.backbone;
  const GemmaLayer& layer = model_->backbone[i];
  const int64_t n = n_prefix_, kv_width = config.kv_width();
  const LinearIn x(View<float>(prefix_, n, config.width), stored_norm(layer.norm1));
  const bool last = i + 1 == model_->backbone.size(), fast = model_->config.is_fast();
  if (last && !fast) {
    const View<float> kv(prefix_qkv_, n, 2 * kv_width);
    ops_->linear(x, layer.qkv, {.y = kv});
    ops_->rope(kv.cols_from(0, kv_width), static_cast<int32_t>(config.head_dim), rope_.cos(0, n),
               rope_.sin(0, n));
    ops_->kv_store(caches_[i], 0, kv.cols_from(0, kv_width), kv.cols_from(kv_width, kv_width));
    return;
  }
  // Behind the last layer only the last row is read.
  const int64_t from = last ? n - 1 : 0;
  const View<float> qkv(prefix_qkv_, n, config.q_width() + 2 * kv_width),
      att(prefix_att_, n - from, config.q_width());
  ops_->linear(x, layer.qkv, {.y = qkv});
  attend(config, qkv, caches_[i], {.n_keys = n, .asks_from = from}, nullptr, att);
  finish_layer(layer, att, View<float>(prefix_, n, config.width).rows_from(from, n - from));
}

void PiRun::encode_prefix(std::span<const int32_t> tokens) noexcept {
  const int64_t n_images = n_views_ * model_->config.vision.n_tokens();
  n_answered_ = 0;
  if (stop_here()) return;
  const bool reuse = reuse_ && taps_ == nullptr && views_placed_;
  if (reuse && same_prefix(tokens)) {
    OUTRIDER_ASSERT(n_prefix_ == n_images + static_cast<int64_t>(tokens.size()));
    ++reuse_counts_.reused_prefixes;
    return;
  }
  n_prefix_ = n_images + static_cast<int64_t>(tokens.size());
  OUTRIDER_ASSERT(n_prefix_ + model_->config.suffix_tokens() <= rope_.n_positions());
  if (reuse) keep_prefix(tokens);
  embed_text(tokens, prefix_ + n_images * model_->embed.n_in);
  if (taps_ != nullptr)
    tap("prefix_embd", -1, View<const float>(prefix_, n_prefix_, model_->config.backbone.width));
  for (size_t i = 0; i < model_->backbone.size(); ++i) {
    if (stop_here()) return;
    backbone_layer(i);
    if (taps_ != nullptr) tap_cache(i);
  }
  if (model_->config.is_fast()) keep_last_row();
}

}  // namespace outrider
