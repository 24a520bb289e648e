// PI0-FAST: the answer, one token after the other. Source: pi-policy.md 12.
#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "models/pi_run.h"

namespace outrider {

// The row lives apart from the prefix: a prefix that is taken again keeps it.
void PiRun::keep_last_row() noexcept {
  OUTRIDER_ASSERT(n_prefix_ > 0);
  const int64_t width = model_->config.backbone.width;
  std::copy_n(prefix_ + (n_prefix_ - 1) * width, width, last_row_.begin());
}

// One row through one layer. It stands behind all that was answered; its position is one further
// than its place where the policy was trained so: the position right behind the prefix is unused.
void PiRun::answer_layer(size_t i) noexcept {
  const GemmaConfig& config = model_->config.backbone;
  const GemmaLayer& layer = model_->backbone[i];
  const int64_t slot = n_prefix_ + n_answered_;
  const View<float> x(answer_row_.data(), 1, config.width), y(prefix_y_, 1, config.width),
      qkv(prefix_qkv_, 1, config.q_width() + 2 * config.kv_width()),
      att(prefix_att_, 1, config.q_width());
  ops_->rms_norm(x, layer.norm1.data(), nullptr, 1e-6f, y);
  ops_->linear(y, layer.qkv, {.y = qkv});
  attend(config, qkv, caches_[i],
         {.slot = slot, .position = slot + answer_gap_, .n_keys = slot + 1}, nullptr, att);
  if (taps_ != nullptr && i == 0) {
    std::vector<float> key(static_cast<size_t>(config.kv_width()));
    ops_->kv_load(caches_[i], slot, 1, key.data(), nullptr);
    tap("answer_k", n_answered_, View<const float>(key.data(), 1, config.kv_width()));
  }
  finish_layer(layer, att, x);
}

int32_t PiRun::next_token(int32_t previous) noexcept {
  const PiModel& m = *model_;
  const int64_t width = m.config.backbone.width;
  OUTRIDER_ASSERT(m.config.is_fast() && n_prefix_ > 0);
  if (previous < 0) {
    n_answered_ = 0;
    std::copy(last_row_.begin(), last_row_.end(), answer_row_.begin());
  } else {
    OUTRIDER_ASSERT(n_answered_ < m.config.answer_tokens);
    embed_text({&previous, 1}, answer_row_.data());
    for (size_t i = 0; i < m.backbone.size(); ++i) answer_layer(i);
    ++n_answered_;
  }
  const View<float> x(answer_row_.data(), 1, width), y(prefix_y_, 1, width),
      logits(logits_.data(), 1, m.config.vocab);
  ops_->rms_norm(x, m.backbone_norm.data(), nullptr, 1e-6f, y);
  ops_->linear(y, m.head, {.y = logits});
  if (taps_ != nullptr) tap("logits", n_answered_, logits);
  float best = logits_[0];
  int32_t id = 0;
  bool finite = true;
  for (size_t i = 0; i < logits_.size(); ++i) {
    finite = finite && std::isfinite(logits_[i]);
    if (logits_[i] > best) best = logits_[i], id = static_cast<int32_t>(i);
  }
  return finite ? id : -1;
}

}  // namespace outrider
