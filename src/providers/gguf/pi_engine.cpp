#include "providers/gguf/pi_engine.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/json_text.h"
#include "base/rng.h"
#include "kernels/cpu_ops.h"
#include "providers/gguf/open_choices.h"

namespace outrider {
namespace {

PiNumerics choose_numerics(const PiOpenConfig& config, PiFamily family) {
  PiNumerics numerics = config.numerics == NumericsChoice::kJetsonPi ? PiNumerics::jetson_pi(family)
                                                                     : PiNumerics::reference();
  if (config.rope_bf16 != SwitchChoice::kAuto)
    numerics.rope_bf16 = config.rope_bf16 == SwitchChoice::kOn;
  return numerics;
}

}  // namespace

// ---- open ---------------------------------------------------------------------------------------

Result<std::unique_ptr<PiEngine>> PiEngine::open(const PiOpenConfig& config,
                                                 std::shared_ptr<const PiFiles> files,
                                                 int64_t max_views) {
  std::unique_ptr<PiEngine> engine(new PiEngine);
  engine->config_ = config;
  engine->files_ = std::move(files);
  engine->pi_config_ = engine->files_->config;
  if (config.num_steps > 0 && !engine->pi_config_.is_fast())
    engine->pi_config_.n_denoise_steps = config.num_steps;
  auto precision = resolve_precision(config, *engine->files_);
  if (!precision) return precision.error();
  engine->options_ = {choose_numerics(config, engine->pi_config_.family), precision.value()};
  OUTRIDER_TRY(engine->prepare(max_views));
  engine->warm_up(max_views);
  return engine;
}

Result<void> PiEngine::prepare(int64_t max_views) {
  const UsefulThreads threads = choose_useful_threads(config_.n_threads);
  threads_note_ = threads.note;
  auto ops = make_cpu_ops({.n_threads = threads.n,
                           .wishes = {.pin = config_.pin_threads,
                                      .rt_priority = static_cast<int>(config_.rt_priority)}});
  if (!ops) return ops.error();
  ops_ = std::move(ops.value());
  const int64_t prefix = PiRun::max_prefix(pi_config_, max_views, kMaxTextTokens);
  OUTRIDER_TRY(ops_->reserve(pi_limits(pi_config_, max_views, prefix)));
  auto model = open_pi_model(files_, pi_config_, options_, config_.cache_dir, *ops_);
  if (!model) return model.error();
  cached_ = model.value();
  auto run = PiRun::make(
      cached_->model, *ops_,
      {.max_views = max_views, .max_text_tokens = kMaxTextTokens, .reuse = config_.reuse});
  if (!run) return run.error();
  run_ = std::move(run.value());
  run_->stop_when(&cancel_);
  noise_.resize(static_cast<size_t>(pi_config_.action_dim * pi_config_.action_steps));
  fill_normal_noise(noise_, static_cast<uint64_t>(config_.noise_seed));
  return {};
}

// Touches every weight and every code path once, so that the first tick is like the thousandth. A
// model too large to run whole at open reads its weights through a short prefix and one Euler step.
void PiEngine::warm_up(int64_t max_views) {
  constexpr int64_t kWholeTickValues = int64_t{64} << 20;
  const GemmaConfig& b = pi_config_.backbone;
  const bool whole = b.n_layers * b.width * b.mlp <= kWholeTickValues;
  const std::vector<uint8_t> picture(static_cast<size_t>(image_values()));
  const std::vector<float> state(static_cast<size_t>(pi_config_.action_dim));
  const std::vector<const uint8_t*> views(static_cast<size_t>(whole ? max_views : 0),
                                          picture.data());
  const std::vector<int32_t> ids(16, 0);
  run_->encode_views(views);
  run_->encode_prefix(ids);
  if (pi_config_.is_fast()) {
    run_->next_token(-1);
    run_->next_token(0);
    run_->forget();
    counters_.warm_ups.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  run_->start(noise_, state);
  for (int64_t k = 0; k < (whole ? pi_config_.n_denoise_steps : 1); ++k) run_->denoise(k);
  run_->forget();
  counters_.warm_ups.fetch_add(1, std::memory_order_relaxed);
}

// ---- passes -------------------------------------------------------------------------------------

int32_t PiEngine::unknown_id(std::span<const int32_t> ids) const noexcept {
  for (const int32_t id : ids) {
    if (id < 0 || id >= pi_config_.vocab) return id < 0 ? INT32_MAX : id;
  }
  return -1;
}

bool PiEngine::encode(std::span<const PiPixels> views, std::span<const int32_t> ids) noexcept {
  if (taps_on_) tap_inputs(views, ids);
  run_->encode_views(views);
  run_->encode_prefix(ids);
  const PiRun::ReuseCounts& reuse = run_->reuse_counts();
  counters_.computed_views.store(reuse.computed_views, std::memory_order_relaxed);
  counters_.reused_views.store(reuse.reused_views, std::memory_order_relaxed);
  counters_.reused_prefixes.store(reuse.reused_prefixes, std::memory_order_relaxed);
  counters_.prefix_tokens.store(run_->prefix_tokens(), std::memory_order_relaxed);
  return !run_->stopped();
}

PiEnd PiEngine::denoise(std::span<const float> noise, std::span<const float> state,
                        const PiConditions& conditions) noexcept {
  run_->start(noise, state);
  if (conditions.prefix.n_rows > 0 || !conditions.extra.empty())
    run_->condition(conditions.prefix, conditions.extra);
  for (int64_t k = 0; k < pi_config_.n_denoise_steps; ++k) {
    if (cancelled()) return PiEnd::kCancelled;
    run_->denoise(k, conditions.guidance);
  }
  return run_->finite() ? PiEnd::kDone : PiEnd::kNotFinite;
}

// ---- taps and facts -----------------------------------------------------------------------------

void PiEngine::enable_taps(bool on) {
  taps_on_ = on;
  taps_.clear();
  run_->record_to(on ? &taps_ : nullptr);
}

void PiEngine::tap_inputs(std::span<const PiPixels> views, std::span<const int32_t> ids) {
  const int64_t size = pi_config_.vision.image_size;
  std::vector<float> pixels(static_cast<size_t>(image_values()));
  for (size_t i = 0; i < views.size(); ++i) {
    for (size_t p = 0; p < pixels.size(); ++p) {
      pixels[p] = views[i].scaled != nullptr
                      ? views[i].scaled[p]
                      : static_cast<float>(views[i].rgb[p]) / 255.0f * 2.0f - 1.0f;
    }
    const std::string name = "pixels_" + std::to_string(i);
    taps_.record(name, View<const float>(pixels.data(), size * size, 3));
    taps_.reshape(name, {size, size, 3, 0}, 3);
  }
  const std::vector<float> numbers(ids.begin(), ids.end());
  const auto n = static_cast<int64_t>(numbers.size());
  taps_.record("tokens", View<const float>(numbers.data(), 1, n));
  taps_.reshape("tokens", {n, 0, 0, 0}, 1);
}

// A model that a living runtime shares was opened by that runtime's cache_dir.
std::string PiEngine::cache_text() const {
  if (config_.cache_dir.empty()) return "off";
  if (cached_->cache != "off") return cached_->cache;
  return "miss: not written, the weights are shared with a runtime without cache_dir";
}

std::string PiEngine::describe() const {
  char text[2048];
  const PiConfig& c = pi_config_;
  std::snprintf(
      text, sizeof text,
      "\"family\":\"%s\",\"numerics\":\"%s\",\"precision\":\"%s\",\"kernel_table\":\"%s\","
      "\"threads\":%d,\"threads_note\":%s,\"pin_threads\":\"%s\",\"rt_priority\":%lld,\"num_"
      "steps\":%lld,\"noise_seed\":%lld,"
      "\"rope_bf16\":%s,\"image_size\":%lld,\"max_text_tokens\":%lld,\"weights_bytes\":%llu,"
      "\"packed_bytes\":%lld,"
      "\"state_bytes\":%lld,\"warmed_up\":true,\"reuse\":\"%s\",\"cache\":\"%s\",\"digests\":\"%"
      "s\"",
      pi_family_name(c.family), choice_name(config_.numerics), precision_name(options_.precision),
      ops_->kernel_table(), ops_->n_threads(), json_quoted(threads_note_).c_str(),
      config_.pin_threads ? "on" : "off", static_cast<long long>(config_.rt_priority),
      static_cast<long long>(c.n_denoise_steps), static_cast<long long>(config_.noise_seed),
      options_.numerics.rope_bf16 ? "true" : "false", static_cast<long long>(c.vision.image_size),
      static_cast<long long>(kMaxTextTokens), static_cast<unsigned long long>(files_->policy_bytes),
      static_cast<long long>(run_->model().resident_bytes()),
      static_cast<long long>(run_->state_bytes()), config_.reuse ? "on" : "off",
      cache_text().c_str(), files_->digests_remembered ? "remembered" : "computed");
  return text;
}

}  // namespace outrider
