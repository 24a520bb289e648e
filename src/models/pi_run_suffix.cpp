// The suffix pass: Euler steps of the action expert over the keys and values of the prefix.
#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "models/guidance.h"
#include "models/pi_run.h"

namespace outrider {

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
  // Where rows are modulated for several times a product cannot take the norm along.
  const auto normed = [&](const std::vector<float>& stored,
                          const std::vector<Modulation>& modulation) {
    if (!adaptive) return LinearIn(h, {RowNorm::Kind::kRms, stored.data(), nullptr, eps});
    if (n_parts == 1)
      return LinearIn(h, {RowNorm::Kind::kRms, modulation[i].scale(parts[0].time),
                          modulation[i].shift(parts[0].time), eps});
    for (size_t p = 0; p < n_parts; ++p) {
      const auto [first, rows, time] = parts[p];
      ops_->rms_norm(h.rows_from(first, rows), modulation[i].scale(time), modulation[i].shift(time),
                     eps, y.rows_from(first, rows));
    }
    return LinearIn(y);
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
  ops_->linear(normed(layer.norm1, m.modulation1), layer.qkv, {.y = qkv});
  attend(config, qkv, caches_[i],
         {.slot = n_prefix_, .position = n_prefix_, .n_keys = n_prefix_ + n}, visible_.data(), att);
  branch(att, layer.o, m.modulation1);
  ops_->gated_linear(normed(layer.norm2, m.modulation2), layer.gate_up, Activation::kGeluTanh, mlp);
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

}  // namespace outrider
