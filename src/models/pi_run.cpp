#include "models/pi_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "models/guidance.h"

namespace outrider {

// Counts of values per buffer, so that the plan and the taking cannot disagree.
struct PiRun::Sizes {
  size_t patches, vision_rows_width, vision_qkv, vision_mlp;
  size_t prefix_width, prefix_qkv, prefix_att, prefix_mlp;
  size_t suffix_width, suffix_qkv, suffix_att, suffix_mlp, chunk;
  size_t vision_cache_bytes, cache_bytes, n_layers, suffix_rows, state_token, extra;
  size_t answer_width, logits;
  size_t n_slots, slot_pixels, slot_tokens, kept_ids;
  int64_t vision_capacity, capacity;

  Sizes(const PiConfig& c, const Ops& ops, DType kv_type, const Options& options) {
    const int64_t max_views = options.max_views,
                  max_prefix = PiRun::max_prefix(c, max_views, options.max_text_tokens);
    const auto n = [](int64_t a, int64_t b) {
      return static_cast<size_t>(a) * static_cast<size_t>(b);
    };
    const VisionConfig& v = c.vision;
    const GemmaConfig &b = c.backbone, &e = c.expert;
    const int64_t rows = max_views * v.n_tokens(), suffix = c.suffix_tokens() + kMaxExtraTokens;
    patches = n(rows, 3 * v.patch_size * v.patch_size);
    vision_rows_width = n(rows, v.width);
    vision_qkv = n(rows, 3 * v.width);
    vision_mlp = n(rows, v.mlp);
    prefix_width = n(max_prefix, b.width);
    prefix_qkv = n(max_prefix, b.q_width() + 2 * b.kv_width());
    prefix_att = n(max_prefix, b.q_width());
    prefix_mlp = n(max_prefix, b.mlp);
    suffix_width = n(suffix, e.width);
    suffix_qkv = n(suffix, e.q_width() + 2 * e.kv_width());
    suffix_att = n(suffix, e.q_width());
    suffix_mlp = n(suffix, e.mlp);
    chunk = n(c.action_steps, c.action_dim);
    suffix_rows = static_cast<size_t>(suffix);
    state_token = static_cast<size_t>(e.width);
    extra = n(kMaxExtraTokens, e.width);
    answer_width = c.is_fast() ? static_cast<size_t>(b.width) : 0;
    logits = c.is_fast() ? static_cast<size_t>(c.vocab) : 0;
    n_layers = static_cast<size_t>(b.n_layers);
    vision_capacity = v.n_tokens();
    capacity = max_prefix + suffix;
    vision_cache_bytes = ops.kv_bytes(vision_capacity, static_cast<int32_t>(v.n_heads),
                                      static_cast<int32_t>(v.head_dim()), kv_type);
    cache_bytes = ops.kv_bytes(capacity, static_cast<int32_t>(b.n_kv_heads),
                               static_cast<int32_t>(b.head_dim), kv_type);
    n_slots = options.reuse ? static_cast<size_t>(max_views) : 0;
    slot_pixels = n(v.image_size, v.image_size) * 3;
    slot_tokens = n(v.n_tokens(), b.width);
    kept_ids = options.reuse ? static_cast<size_t>(options.max_text_tokens) : 0;
  }

  size_t total_bytes() const {
    const auto floats = [](size_t n) { return Arena::cost<float>(n); };
    return floats(patches) + 2 * floats(vision_rows_width) + floats(vision_qkv) +
           floats(vision_mlp) + 2 * floats(prefix_width) + floats(prefix_qkv) + floats(prefix_att) +
           floats(prefix_mlp) + 2 * floats(suffix_width) + floats(suffix_qkv) + floats(suffix_att) +
           floats(suffix_mlp) + floats(state_token) + 3 * floats(chunk) + floats(extra) +
           2 * floats(answer_width) + floats(logits) + Arena::cost<int32_t>(suffix_rows) +
           Arena::cost<KvCache>(n_layers) + Arena::cost<std::byte>(vision_cache_bytes) +
           n_layers * Arena::cost<std::byte>(cache_bytes) +
           n_slots * (Arena::cost<uint8_t>(slot_pixels) + floats(slot_tokens)) +
           Arena::cost<int32_t>(kept_ids);
  }
};

Result<std::unique_ptr<PiRun>> PiRun::make(std::shared_ptr<const PiModel> model, Ops& ops,
                                           const Options& options) {
  OUTRIDER_ASSERT(options.max_views >= 0 && options.max_views <= kMaxSlots);
  std::unique_ptr<PiRun> run(new PiRun);
  const PiConfig& config = model->config;
  const int64_t prefix = max_prefix(config, options.max_views, options.max_text_tokens);
  run->model_ = std::move(model);
  run->ops_ = &ops;
  run->reuse_ = options.reuse;
  const Sizes sizes(config, ops, run->kv_type(), options);
  OUTRIDER_TRY(run->arena_.reserve(sizes.total_bytes()));
  run->take_views(sizes);
  run->rope_ =
      RopeTable::make(prefix + config.suffix_tokens() + kMaxExtraTokens, config.backbone.head_dim,
                      config.rope_base, run->model_->options.numerics.rope_bf16);
  for (int i = 0; i < 256; ++i) run->pixel_[i] = static_cast<float>(i) / 255.0f * 2.0f - 1.0f;
  return run;
}

void PiRun::take_views(const Sizes& sizes) {
  const auto floats = [&](size_t n) { return arena_.take<float>(n).data(); };
  const VisionConfig& v = model_->config.vision;
  const GemmaConfig& b = model_->config.backbone;
  patches_ = floats(sizes.patches);
  vision_h_ = floats(sizes.vision_rows_width);
  vision_y_ = floats(sizes.vision_rows_width);
  vision_qkv_ = floats(sizes.vision_qkv);
  vision_mlp_ = floats(sizes.vision_mlp);
  prefix_ = floats(sizes.prefix_width);
  prefix_y_ = floats(sizes.prefix_width);
  prefix_qkv_ = floats(sizes.prefix_qkv);
  prefix_att_ = floats(sizes.prefix_att);
  prefix_mlp_ = floats(sizes.prefix_mlp);
  suffix_ = floats(sizes.suffix_width);
  suffix_y_ = floats(sizes.suffix_width);
  suffix_qkv_ = floats(sizes.suffix_qkv);
  suffix_att_ = floats(sizes.suffix_att);
  suffix_mlp_ = floats(sizes.suffix_mlp);
  state_token_ = floats(sizes.state_token);
  velocity_ = floats(sizes.chunk);
  x_ = arena_.take<float>(sizes.chunk);
  hard_chunk_ = arena_.take<float>(sizes.chunk);
  extra_ = arena_.take<float>(sizes.extra);
  last_row_ = arena_.take<float>(sizes.answer_width);
  answer_row_ = arena_.take<float>(sizes.answer_width);
  logits_ = arena_.take<float>(sizes.logits);
  visible_ = arena_.take<int32_t>(sizes.suffix_rows);
  vision_cache_ = {arena_.take_bytes(sizes.vision_cache_bytes), sizes.vision_capacity,
                   static_cast<int32_t>(v.n_heads), static_cast<int32_t>(v.head_dim()), kv_type()};
  caches_ = arena_.take<KvCache>(sizes.n_layers);
  for (KvCache& cache : caches_) {
    cache = {arena_.take_bytes(sizes.cache_bytes), sizes.capacity,
             static_cast<int32_t>(b.n_kv_heads), static_cast<int32_t>(b.head_dim), kv_type()};
  }
  n_slots_ = static_cast<int64_t>(sizes.n_slots);
  for (int64_t i = 0; i < n_slots_; ++i)
    slots_[i] = {arena_.take<uint8_t>(sizes.slot_pixels).data(), floats(sizes.slot_tokens), false};
  prefix_ids_ = arena_.take<int32_t>(sizes.kept_ids);
  arena_.seal();
}

// ---- reuse --------------------------------------------------------------------------------------

void PiRun::forget() noexcept {
  drop_kept();
  reuse_counts_ = {};
}

void PiRun::drop_kept() noexcept {
  for (Slot& slot : slots_) slot.filled = false;
  prefix_kept_ = false;
}

// Is this pass wanted no more? Nothing of it is kept then.
bool PiRun::stop_here() noexcept {
  if (!stopped_ && stop_wish_ != nullptr && stop_wish_->load(std::memory_order_relaxed)) {
    stopped_ = true;
    drop_kept();
  }
  return stopped_;
}

int64_t PiRun::find_slot(const uint8_t* rgb) const noexcept {
  const int64_t size = model_->config.vision.image_size;
  for (int64_t i = 0; i < n_slots_; ++i) {
    if (slots_[i].filled &&
        std::memcmp(slots_[i].pixels, rgb, static_cast<size_t>(size * size * 3)) == 0)
      return i;
  }
  return kNoSlot;
}

// A slot that no view of this pass lies in. There are as many slots as views, so there is one.
int64_t PiRun::free_slot() const noexcept {
  const int64_t* views_end = slot_of_view_ + n_views_;
  for (int64_t i = 0; i < n_slots_; ++i) {
    if (std::find(slot_of_view_, views_end, i) == views_end) return i;
  }
  OUTRIDER_ASSERT(false);
  return kNoSlot;
}

// Finds the views that are kept, computes the others together and keeps them. A row of a product
// does not depend on the rows beside it, so the mix does not show in the bits.
void PiRun::place_views(std::span<const uint8_t* const> views) noexcept {
  OUTRIDER_ASSERT(n_views_ <= n_slots_);
  const VisionConfig& v = model_->config.vision;
  // All kept views are found first: a changed one must not take the slot of a later one.
  for (int64_t i = 0; i < n_views_; ++i)
    slot_of_view_[i] = find_slot(views[static_cast<size_t>(i)]);
  PiPixels changed[kMaxSlots];
  int64_t slot_of_changed[kMaxSlots];
  int64_t n_changed = 0;
  for (int64_t i = 0; i < n_views_; ++i) {
    const uint8_t* rgb = views[static_cast<size_t>(i)];
    if (slot_of_view_[i] == kNoSlot) slot_of_view_[i] = find_slot(rgb);  // the same view twice
    if (slot_of_view_[i] != kNoSlot) continue;
    const int64_t slot = free_slot();
    std::memcpy(slots_[slot].pixels, rgb, static_cast<size_t>(v.image_size * v.image_size * 3));
    slots_[slot].filled = true;
    slot_of_view_[i] = slot;
    changed[n_changed] = {slots_[slot].pixels, nullptr};
    slot_of_changed[n_changed++] = slot;
  }
  reuse_counts_.reused_views += n_views_ - n_changed;
  if (n_changed == 0) return;
  prefix_kept_ = false;
  compute_views(std::span<const PiPixels>(changed).first(static_cast<size_t>(n_changed)));
  const int64_t values = v.n_tokens() * model_->config.backbone.width;
  for (int64_t i = 0; i < n_changed; ++i)
    std::copy_n(prefix_ + i * values, values, slots_[slot_of_changed[i]].tokens);
}

// Puts the kept tokens of all views in front, and notes of what the keys and values will be.
void PiRun::keep_prefix(std::span<const int32_t> tokens) noexcept {
  OUTRIDER_ASSERT(tokens.size() <= prefix_ids_.size());
  const int64_t values = model_->config.vision.n_tokens() * model_->config.backbone.width;
  for (int64_t i = 0; i < n_views_; ++i) {
    OUTRIDER_ASSERT(slots_[slot_of_view_[i]].filled);
    std::copy_n(slots_[slot_of_view_[i]].tokens, values, prefix_ + i * values);
  }
  prefix_kept_ = true;
  prefix_views_ = n_views_;
  std::copy_n(slot_of_view_, n_views_, prefix_slots_);
  std::copy(tokens.begin(), tokens.end(), prefix_ids_.begin());
  n_prefix_ids_ = tokens.size();
}

// Slots hold different pixels, so the same slots are the same pictures.
bool PiRun::same_prefix(std::span<const int32_t> tokens) const noexcept {
  return prefix_kept_ && prefix_views_ == n_views_ &&
         std::equal(prefix_slots_, prefix_slots_ + n_views_, slot_of_view_) &&
         std::equal(tokens.begin(), tokens.end(), prefix_ids_.begin(),
                    prefix_ids_.begin() + static_cast<int64_t>(n_prefix_ids_));
}

// ---- vision -------------------------------------------------------------------------------------

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
  ops_->layer_norm(h, layer.ln1.weight.data(), layer.ln1.bias.data(), eps, y);
  ops_->linear(y, layer.qkv.w, {.y = qkv, .bias = layer.qkv.bias.data()});
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
  ops_->layer_norm(h, layer.ln2.weight.data(), layer.ln2.bias.data(), eps, y);
  const bool quick = model_->options.numerics.quick_gelu_by_flag && !v.use_gelu;
  ops_->linear(y, layer.fc1.w,
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
  const View<float> patches(patches_, rows, patch_values), h(vision_h_, rows, v.width),
      y(vision_y_, rows, v.width);
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
  ops_->layer_norm(h, m.post_ln.weight.data(), m.post_ln.bias.data(), 1e-6f, y);
  const View<float> out(prefix_, rows, m.config.backbone.width);
  ops_->linear(y, m.projector.w, {.y = out, .bias = m.projector.bias.data()});
}

// ---- prefix -------------------------------------------------------------------------------------

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
  const View<float> y(prefix_y_, x.rows, x.cols),
      mlp(prefix_mlp_, x.rows, model_->config.backbone.mlp);
  ops_->linear(attended, layer.o, {.y = x, .add = true});
  ops_->rms_norm(x, layer.norm2.data(), nullptr, 1e-6f, y);
  ops_->gated_linear(y, layer.gate_up, Activation::kGeluTanh, mlp);
  ops_->linear(mlp, layer.down, {.y = x, .add = true});
}

void PiRun::backbone_layer(size_t i) noexcept {
  const GemmaConfig& config = model_->config.backbone;
  const GemmaLayer& layer = model_->backbone[i];
  const int64_t n = n_prefix_, kv_width = config.kv_width();
  const float eps = 1e-6f;
  const View<float> x(prefix_, n, config.width), y(prefix_y_, n, config.width);
  ops_->rms_norm(x, layer.norm1.data(), nullptr, eps, y);
  const bool last = i + 1 == model_->backbone.size(), fast = model_->config.is_fast();
  if (last && !fast) {
    const View<float> kv(prefix_qkv_, n, 2 * kv_width);
    ops_->linear(y, layer.qkv, {.y = kv});
    ops_->rope(kv.cols_from(0, kv_width), static_cast<int32_t>(config.head_dim), rope_.cos(0, n),
               rope_.sin(0, n));
    ops_->kv_store(caches_[i], 0, kv.cols_from(0, kv_width), kv.cols_from(kv_width, kv_width));
    return;
  }
  // Behind the last layer only the last row is read.
  const int64_t from = last ? n - 1 : 0;
  const View<float> qkv(prefix_qkv_, n, config.q_width() + 2 * kv_width),
      att(prefix_att_, n - from, config.q_width());
  ops_->linear(y, layer.qkv, {.y = qkv});
  attend(config, qkv, caches_[i], {.n_keys = n, .asks_from = from}, nullptr, att);
  finish_layer(layer, att, x.rows_from(from, n - from));
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

// ---- suffix -------------------------------------------------------------------------------------

void PiRun::start(std::span<const float> noise, std::span<const float> state) noexcept {
  const PiConfig& c = model_->config;
  OUTRIDER_ASSERT(noise.size() == x_.size());
  std::copy(noise.begin(), noise.end(), x_.begin());
  n_hard_ = n_extra_ = 0;
  const auto all = static_cast<int32_t>(n_prefix_ + c.suffix_tokens());
  std::fill(visible_.begin(), visible_.end(), all);
  if (c.family != PiFamily::kPi0) return;
  OUTRIDER_ASSERT(static_cast<int64_t>(state.size()) == c.action_dim);
  visible_[0] = static_cast<int32_t>(n_prefix_ + 1);  // the state token does not see the actions
  ops_->linear(
      View<const float>(state.data(), 1, c.action_dim), model_->state.w,
      {.y = View<float>(state_token_, 1, c.expert.width), .bias = model_->state.bias.data()});
}

void PiRun::condition(const PiHardPrefix& prefix, std::span<const float> extra) noexcept {
  const PiConfig& c = model_->config;
  OUTRIDER_ASSERT(prefix.n_rows >= 0 && prefix.n_rows < c.action_steps);
  OUTRIDER_ASSERT(extra.size() <= extra_.size() &&
                  static_cast<int64_t>(extra.size()) % c.expert.width == 0);
  n_hard_ = prefix.n_rows;
  std::copy_n(prefix.chunk.begin(), n_hard_ * c.action_dim, hard_chunk_.begin());
  n_extra_ = static_cast<int64_t>(extra.size()) / c.expert.width;
  std::copy(extra.begin(), extra.end(), extra_.begin());
  const auto front = static_cast<int32_t>(n_prefix_ + n_extra_);
  std::fill(visible_.begin(), visible_.end(), static_cast<int32_t>(n_prefix_ + suffix_rows()));
  std::fill_n(visible_.begin(), n_extra_, front);
  if (c.family == PiFamily::kPi0) visible_[static_cast<size_t>(n_extra_)] = front + 1;
  place_hard_prefix();
}

void PiRun::place_hard_prefix() noexcept {
  std::copy_n(hard_chunk_.begin(), n_hard_ * model_->config.action_dim, x_.begin());
}

size_t PiRun::timed_rows(int64_t step, TimedRows out[3]) const noexcept {
  const PiConfig& c = model_->config;
  const int64_t all = suffix_rows(), front = all - c.action_steps;
  if (n_hard_ == 0) {
    out[0] = {0, all, step};
    return 1;
  }
  size_t n = 0;
  if (front > 0) out[n++] = {0, front, step};
  out[n++] = {front, n_hard_, c.n_denoise_steps};
  out[n++] = {front + n_hard_, c.action_steps - n_hard_, step};
  return n;
}

void PiRun::embed_suffix(int64_t step) noexcept {
  const PiModel& m = *model_;
  const int64_t width = m.config.expert.width, n = m.config.action_steps;
  const View<const float> x(x_.data(), n, m.config.action_dim);
  float* const behind = suffix_ + n_extra_ * width;
  std::copy_n(extra_.begin(), n_extra_ * width, suffix_);
  if (m.config.family == PiFamily::kPi05) {
    ops_->linear(x, m.action_in.w,
                 {.y = View<float>(behind, n, width), .bias = m.action_in.bias.data()});
    return;
  }
  std::copy_n(state_token_, width, behind);
  const View<float> tokens(behind + width, n, width), hidden(suffix_y_, n, width);
  ops_->linear(x, m.action_in.w, {.y = tokens, .bias = m.action_in.bias.data()});
  for (const auto& [first, rows, time] :
       {TimedRows{0, n_hard_, m.config.n_denoise_steps}, TimedRows{n_hard_, n - n_hard_, step}}) {
    if (rows == 0) continue;
    ops_->linear(tokens.rows_from(first, rows), m.action_time_in,
                 {.y = hidden.rows_from(first, rows),
                  .bias = m.action_time_bias.data() + time * width,
                  .activation = Activation::kSilu});
  }
  ops_->linear(hidden, m.action_time_out.w, {.y = tokens, .bias = m.action_time_out.bias.data()});
}

void PiRun::expert_layer(size_t i, int64_t step) noexcept {
  const PiModel& m = *model_;
  const GemmaConfig& config = m.config.expert;
  const GemmaLayer& layer = m.expert[i];
  const bool adaptive = m.config.family == PiFamily::kPi05;
  const int64_t n = suffix_rows();
  const float eps = 1e-6f;
  const View<float> h(suffix_, n, config.width), y(suffix_y_, n, config.width);
  const View<float> qkv(suffix_qkv_, n, config.q_width() + 2 * config.kv_width()),
      att(suffix_att_, n, config.q_width());
  const View<float> mlp(suffix_mlp_, n, config.mlp);
  TimedRows parts[3];
  const size_t n_parts = timed_rows(step, parts);
  const auto norm = [&](const std::vector<float>& stored,
                        const std::vector<Modulation>& modulation) {
    if (!adaptive) return ops_->rms_norm(h, stored.data(), nullptr, eps, y);
    for (size_t p = 0; p < n_parts; ++p) {
      const auto [first, rows, time] = parts[p];
      ops_->rms_norm(h.rows_from(first, rows), modulation[i].scale(time), modulation[i].shift(time),
                     eps, y.rows_from(first, rows));
    }
  };
  // h += gate * (in W)
  const auto branch = [&](View<float> in, const Weight& w,
                          const std::vector<Modulation>& modulation) {
    if (!adaptive) return ops_->linear(in, w, {.y = h, .add = true});
    for (size_t p = 0; p < n_parts; ++p) {
      const auto [first, rows, time] = parts[p];
      ops_->linear(in.rows_from(first, rows), w,
                   {.y = h.rows_from(first, rows), .add = true, .gate = modulation[i].gate(time)});
    }
  };
  norm(layer.norm1, m.modulation1);
  ops_->linear(y, layer.qkv, {.y = qkv});
  attend(config, qkv, caches_[i],
         {.slot = n_prefix_, .position = n_prefix_, .n_keys = n_prefix_ + n}, visible_.data(), att);
  branch(att, layer.o, m.modulation1);
  norm(layer.norm2, m.modulation2);
  ops_->gated_linear(y, layer.gate_up, Activation::kGeluTanh, mlp);
  branch(mlp, layer.down, m.modulation2);
}

void PiRun::guide(int64_t step, const PiGuidance& guidance) noexcept {
  OUTRIDER_ASSERT(static_cast<int64_t>(guidance.weights.size()) == model_->config.action_steps);
  guide_velocity(guidance.chunk, guidance.weights, x_, model_->times[static_cast<size_t>(step)],
                 static_cast<double>(guidance.most), std::span(velocity_, x_.size()));
}

void PiRun::denoise(int64_t step, const PiGuidance& guidance) noexcept {
  const PiModel& m = *model_;
  const PiConfig& c = m.config;
  const int64_t width = c.expert.width, n = suffix_rows();
  OUTRIDER_ASSERT(step >= 0 && step < c.n_denoise_steps);
  embed_suffix(step);
  if (taps_ != nullptr) tap("suffix_embd", step, View<const float>(suffix_, n, width));
  for (size_t i = 0; i < m.expert.size(); ++i) expert_layer(i, step);
  // Only the action rows go through the last norm and the output projection.
  const View<float> h(suffix_ + (n - c.action_steps) * width, c.action_steps, width),
      y(suffix_y_, c.action_steps, width);
  if (c.family == PiFamily::kPi05) {
    for (const auto& [first, rows, time] : {TimedRows{0, n_hard_, c.n_denoise_steps},
                                            TimedRows{n_hard_, c.action_steps - n_hard_, step}}) {
      if (rows == 0) continue;
      ops_->rms_norm(h.rows_from(first, rows), m.final_modulation.scale(time),
                     m.final_modulation.shift(time), 1e-6f, y.rows_from(first, rows));
    }
  } else {
    ops_->rms_norm(h, m.expert_norm.data(), nullptr, 1e-6f, y);
  }
  const View<float> velocity(velocity_, c.action_steps, c.action_dim);
  ops_->linear(y, m.action_out.w, {.y = velocity, .bias = m.action_out.bias.data()});
  if (guidance.on()) guide(step, guidance);
  const float dt = static_cast<float>(-1.0 / static_cast<double>(c.n_denoise_steps));
  for (size_t i = 0; i < x_.size(); ++i) x_[i] += dt * velocity_[i];
  place_hard_prefix();
  if (taps_ == nullptr) return;
  tap("velocity", step, velocity);
  tap("x", step, View<const float>(x_.data(), c.action_steps, c.action_dim));
}

bool PiRun::finite() const noexcept {
  return std::all_of(x_.begin(), x_.end(), [](float v) { return std::isfinite(v); });
}

// ---- taps ---------------------------------------------------------------------------------------

void PiRun::tap(const char* name, int64_t index, View<const float> rows) {
  taps_->record(index < 0 ? std::string(name) : std::string(name) + "_" + std::to_string(index),
                rows);
}

void PiRun::tap_cache(size_t layer) {
  const int64_t width = model_->config.backbone.kv_width();
  std::vector<float> k(static_cast<size_t>(n_prefix_ * width)), v(k.size());
  ops_->kv_load(caches_[layer], 0, n_prefix_, k.data(), v.data());
  tap("prefix_k", static_cast<int64_t>(layer), View<const float>(k.data(), n_prefix_, width));
  tap("prefix_v", static_cast<int64_t>(layer), View<const float>(v.data(), n_prefix_, width));
}

}  // namespace outrider
