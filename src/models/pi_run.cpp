#include "models/pi_run.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

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
