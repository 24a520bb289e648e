#include "providers/gguf/pi_runtime.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/cpu_budget.h"
#include "base/rng.h"
#include "kernels/cpu_ops.h"
#include "outrider/frt_v1.h"
#include "vision/image.h"

namespace outrider {
namespace {

constexpr size_t kMaxTextBytes =
    PiRuntime::kMaxPromptBytes + 256;  // "Task: ..., State: ...;\nAction: "

constexpr const char* kViewNames[] = {"images: view 0", "images: view 1", "images: view 2"};

PiNumerics choose_numerics(const PiOpenConfig& config, PiFamily family) {
  PiNumerics numerics = config.numerics == NumericsChoice::kJetsonPi ? PiNumerics::jetson_pi(family)
                                                                     : PiNumerics::reference();
  if (config.rope_bf16 != SwitchChoice::kAuto)
    numerics.rope_bf16 = config.rope_bf16 == SwitchChoice::kOn;
  return numerics;
}

struct Threads {
  int n = 1;
  std::string note;
};

// Threads beyond the CPUs of this process only wait for each other: a wish above them is cut, which
// changes no bit of a result, and the note says so.
Threads choose_useful_threads(int64_t wanted) {
  const CpuBudget budget = cpu_budget();
  const ThreadChoice choice = choose_threads(wanted, budget);
  uint32_t most = std::max(budget.n_allowed_cpus, 1u);
  if (budget.quota_cpus > 0)
    most = std::min(most, static_cast<uint32_t>(std::ceil(budget.quota_cpus)));
  if (choice.n_threads <= most) {
    return {static_cast<int>(choice.n_threads),
            choice.warning.empty() ? budget.reason : choice.warning};
  }
  return {static_cast<int>(most), "warning: " + std::to_string(choice.n_threads) +
                                      " threads wanted, " + std::to_string(most) +
                                      " used: " + budget.reason};
}

// For text inside a JSON string of ours.
std::string plain(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '"' || c == '\\' || c < ' '; }, '.');
  return text;
}

const char* precision_name(Precision precision) {
  return precision == Precision::kInt8 ? "int8" : precision == Precision::kBf16 ? "bf16" : "f32";
}

}  // namespace

// ---- open ---------------------------------------------------------------------------------------

Result<std::unique_ptr<PiRuntime>> PiRuntime::open(const PiOpenConfig& config) {
  std::unique_ptr<PiRuntime> runtime(new PiRuntime);
  runtime->config_ = config;
  auto files = open_pi_files(config);
  if (!files) return files.error();
  runtime->files_ = files.value();
  runtime->pi_config_ = files.value()->config;
  OUTRIDER_TRY(check_pi_sizes(config, runtime->pi_config_, config.model_path));
  if (config.num_steps > 0) runtime->pi_config_.n_denoise_steps = config.num_steps;
  auto precision = resolve_precision(config, *files.value());
  if (!precision) return precision.error();
  runtime->options_ = {choose_numerics(config, runtime->pi_config_.family), precision.value()};
  OUTRIDER_TRY(runtime->prepare());
  runtime->warm_up();
  return runtime;
}

Result<void> PiRuntime::prepare() {
  const Threads threads = choose_useful_threads(config_.n_threads);
  threads_note_ = threads.note;
  auto ops = make_cpu_ops({.n_threads = threads.n});
  if (!ops) return ops.error();
  ops_ = std::move(ops.value());
  const int64_t prefix = PiRun::max_prefix(pi_config_, config_.n_views, kMaxTextTokens);
  OUTRIDER_TRY(ops_->reserve(pi_limits(pi_config_, config_.n_views, prefix)));
  auto model = open_pi_model(files_, pi_config_, options_, config_.cache_dir, *ops_);
  if (!model) return model.error();
  cached_ = model.value();
  auto run = PiRun::make(
      cached_->model, *ops_,
      {.max_views = config_.n_views, .max_text_tokens = kMaxTextTokens, .reuse = config_.reuse});
  if (!run) return run.error();
  run_ = std::move(run.value());

  const int64_t size = pi_config_.vision.image_size;
  if (config_.image_width != size || config_.image_height != size) {
    const ResizeRule rule =
        config_.numerics == NumericsChoice::kJetsonPi ? ResizeRule::kJetsonPi : ResizeRule::kPil;
    auto resizer = Resizer::make(rule, static_cast<int>(config_.image_width),
                                 static_cast<int>(config_.image_height), static_cast<int>(size),
                                 static_cast<int>(size));
    if (!resizer) return resizer.error();
    resizer_.push_back(std::move(resizer.value()));
    raw_rgb_.resize(static_cast<size_t>(config_.image_width * config_.image_height * 3));
  }
  views_.resize(static_cast<size_t>(config_.n_views * size * size * 3));
  scratch_ = std::make_unique<SpmTokenizer::Scratch>(kMaxTextBytes);
  prompt_.resize(kMaxPromptBytes);
  text_.resize(kMaxTextBytes);
  ids_.resize(static_cast<size_t>(kMaxTextTokens));
  state_.resize(static_cast<size_t>(std::max(pi_config_.action_dim, kMaxTextState)));
  padded_state_.resize(static_cast<size_t>(pi_config_.action_dim));
  noise_.resize(static_cast<size_t>(pi_config_.action_dim * pi_config_.action_steps));
  actions_.resize(noise_.size());
  fill_normal_noise(noise_, static_cast<uint64_t>(config_.noise_seed));
  return {};
}

// Touches every weight and every code path once, so that the first tick is like the thousandth. A
// model too large to run whole at open reads its weights through a short prefix and one Euler step.
void PiRuntime::warm_up() {
  constexpr int64_t kWholeTickValues = int64_t{64} << 20;
  const GemmaConfig& b = pi_config_.backbone;
  const bool whole = b.n_layers * b.width * b.mlp <= kWholeTickValues;
  const int64_t view_bytes = pi_config_.vision.image_size * pi_config_.vision.image_size * 3;
  std::vector<const uint8_t*> views;
  for (int64_t i = 0; whole && i < config_.n_views; ++i)
    views.push_back(views_.data() + i * view_bytes);
  const std::vector<int32_t> ids(16, 0);
  run_->encode_views(views);
  run_->encode_prefix(ids);
  run_->start(noise_, padded_state_);
  for (int64_t k = 0; k < (whole ? pi_config_.n_denoise_steps : 1); ++k) run_->denoise(k);
  run_->forget();
  counters_.warm_ups.fetch_add(1, std::memory_order_relaxed);
}

// ---- inputs -------------------------------------------------------------------------------------

Code PiRuntime::fail(Code code, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  std::vsnprintf(error_, sizeof error_, format, args);
  va_end(args);
  return code;
}

void PiRuntime::drop_results() noexcept {
  context_pending_ = false;
  actions_ready_ = false;
}

Code PiRuntime::set_input(uint32_t port, const void* data, uint64_t bytes) noexcept {
  drop_results();
  Code code = Code::kInvalid;
  switch (port) {
    case kImages:
      images_set_ = (code = stage_images(data, bytes)) == Code::kOk;
      break;
    case kPrompt:
      prompt_set_ = (code = stage_prompt(data, bytes)) == Code::kOk;
      break;
    case kState:
      state_set_ = (code = stage_state(data, bytes)) == Code::kOk;
      break;
    case kActions:
      fail(code, "set_input: port 3 (actions) is an output; inputs are ports 0..2");
      break;
    default:
      fail(code, "set_input: port %u does not exist; inputs are ports 0..2 (images, prompt, state)",
           port);
  }
  if (code == Code::kOk) {
    error_[0] = 0;
  } else {
    counters_.refused_inputs.fetch_add(1, std::memory_order_relaxed);
  }
  return code;
}

Code PiRuntime::stage_images(const void* data, uint64_t bytes) noexcept {
  const auto n_views = static_cast<uint64_t>(config_.n_views);
  if (data == nullptr || bytes != n_views * sizeof(frt_image_view)) {
    return fail(Code::kInvalid, "images: %llu bytes at %s, wanted %llu views of %zu bytes each",
                static_cast<unsigned long long>(bytes),
                data == nullptr ? "NULL" : "the given address",
                static_cast<unsigned long long>(n_views), sizeof(frt_image_view));
  }
  const int64_t start_ns = clock_.now_ns();
  ImageView views[3];
  for (uint64_t i = 0; i < n_views; ++i) {
    frt_image_view in;  // the caller's array may lie at any address
    std::memcpy(&in, static_cast<const std::byte*>(data) + i * sizeof in, sizeof in);
    if (in.struct_size < sizeof in) {
      return fail(Code::kInvalid, "images: view %llu has struct_size %u, wanted at least %zu",
                  static_cast<unsigned long long>(i), in.struct_size, sizeof in);
    }
    views[i] = {static_cast<PixelFormat>(in.pixel_format),
                in.data,
                in.bytes,
                in.width,
                in.height,
                in.stride_bytes};
    const char* what = kViewNames[i];
    if (const auto checked = check_image(views[i], what); !checked)
      return fail(checked.code(), "%s", checked.error().text);
    if (in.width != config_.image_width || in.height != config_.image_height) {
      return fail(Code::kShape, "%s is %d x %d (width x height), opened for %lld x %lld", what,
                  in.width, in.height, static_cast<long long>(config_.image_width),
                  static_cast<long long>(config_.image_height));
    }
    if (looks_like_float_buffer(views[i])) {
      return fail(Code::kInvalid,
                  "%s has %llu bytes, a whole multiple of what 8-bit pixels need: float pixels? "
                  "Give 8-bit ones",
                  what, static_cast<unsigned long long>(in.bytes));
    }
  }
  const int64_t size = pi_config_.vision.image_size;
  for (uint64_t i = 0; i < n_views; ++i) {
    uint8_t* out = views_.data() + static_cast<int64_t>(i) * size * size * 3;
    if (resizer_.empty()) {
      to_rgb(views[i], out);
    } else {
      to_rgb(views[i], raw_rgb_.data());
      resizer_[0].run(raw_rgb_.data(), out);
      counters_.resized_views.fetch_add(1, std::memory_order_relaxed);
    }
  }
  counters_.ns_images.store(clock_.now_ns() - start_ns, std::memory_order_relaxed);
  return Code::kOk;
}

Code PiRuntime::stage_prompt(const void* data, uint64_t bytes) noexcept {
  if (data == nullptr || bytes == 0)
    return fail(Code::kInvalid, "prompt: empty, wanted UTF-8 text");
  if (bytes > kMaxPromptBytes) {
    return fail(Code::kShape, "prompt: %llu bytes, at most %zu are taken; it is never cut",
                static_cast<unsigned long long>(bytes), kMaxPromptBytes);
  }
  // Tokenised here once, so that text which cannot be a prompt is refused before a run.
  const std::string_view text(static_cast<const char*>(data), bytes);
  const auto encoded = encode_pi0(files_->tokenizer, text, *scratch_, ids_);
  if (encoded.code != Code::kOk) return fail(encoded.code, "prompt: not valid UTF-8");
  if (encoded.n_ids > ids_.size()) {
    return fail(Code::kShape, "prompt: %zu tokens, the prefix holds %zu; it is never cut",
                encoded.n_ids, ids_.size());
  }
  std::memcpy(prompt_.data(), data, bytes);
  prompt_bytes_ = bytes;
  return Code::kOk;
}

Code PiRuntime::stage_state(const void* data, uint64_t bytes) noexcept {
  if (data == nullptr || bytes == 0 || bytes % sizeof(float) != 0) {
    return fail(Code::kInvalid,
                "state: %llu bytes%s, wanted a positive whole number of 4-byte floats",
                static_cast<unsigned long long>(bytes), data == nullptr ? " at NULL" : "");
  }
  const uint64_t n = bytes / sizeof(float);
  if (n > kMaxStateValues) {
    return fail(Code::kShape, "state: %llu values, at most %llu are taken",
                static_cast<unsigned long long>(n),
                static_cast<unsigned long long>(kMaxStateValues));
  }
  for (uint64_t i = 0; i < n; ++i) {
    float value;
    std::memcpy(&value, static_cast<const std::byte*>(data) + i * sizeof value, sizeof value);
    if (!std::isfinite(value)) {
      return fail(Code::kInvalid, "state: value %llu is %g, allowed are finite numbers",
                  static_cast<unsigned long long>(i), static_cast<double>(value));
    }
    if (i < state_.size()) state_[i] = value;
  }
  n_state_ = n;
  return Code::kOk;
}

// ---- stages -------------------------------------------------------------------------------------

Code PiRuntime::check_ready() noexcept {
  const char* missing = !images_set_   ? "images"
                        : !prompt_set_ ? "prompt"
                        : !state_set_  ? "state"
                                       : nullptr;
  if (missing == nullptr) return check_state();
  return fail(Code::kInvalid, "context: port %s is not staged; set images, prompt and state first",
              missing);
}

// PI0.5: at most 8 values, or action_dim wide with zeros behind the eighth. PI0: at most
// action_dim.
Code PiRuntime::check_state() noexcept {
  const auto dim = static_cast<uint64_t>(pi_config_.action_dim);
  if (pi_config_.family == PiFamily::kPi0) {
    if (n_state_ <= dim) return Code::kOk;
    return fail(Code::kShape, "state: %llu values, PI0 with action_dim %llu takes 1..%llu",
                static_cast<unsigned long long>(n_state_), static_cast<unsigned long long>(dim),
                static_cast<unsigned long long>(dim));
  }
  if (n_state_ <= static_cast<uint64_t>(kMaxTextState)) return Code::kOk;
  const bool tail_is_zero =
      n_state_ == dim &&
      std::all_of(state_.begin() + kMaxTextState, state_.begin() + static_cast<int64_t>(dim),
                  [](float v) { return v == 0; });
  if (tail_is_zero) return Code::kOk;
  return fail(Code::kShape,
              "state: %llu values, PI0.5 takes 1..%lld, or %llu with zeros behind the first %lld",
              static_cast<unsigned long long>(n_state_), static_cast<long long>(kMaxTextState),
              static_cast<unsigned long long>(dim), static_cast<long long>(kMaxTextState));
}

Code PiRuntime::tokenize(size_t& n_ids) noexcept {
  const std::string_view prompt(prompt_.data(), prompt_bytes_);
  SpmTokenizer::Encoded encoded;
  if (pi_config_.family == PiFamily::kPi0) {
    encoded = encode_pi0(files_->tokenizer, prompt, *scratch_, ids_);
  } else {
    const size_t n_text_state =
        std::min(static_cast<size_t>(n_state_), static_cast<size_t>(kMaxTextState));
    const StateBins rule = config_.numerics == NumericsChoice::kJetsonPi ? StateBins::kJetsonPi
                                                                         : StateBins::kReference;
    const size_t bytes =
        write_pi05_text(prompt, std::span(state_).first(n_text_state), rule, text_);
    if (bytes > text_.size())
      return fail(Code::kShape, "prompt: %zu bytes with the state, at most %zu", bytes,
                  text_.size());
    encoded = encode_pi05(files_->tokenizer, {text_.data(), bytes}, *scratch_, ids_);
  }
  if (encoded.code != Code::kOk)
    return fail(Code::kFailed, "prompt: tokenizer failed (%s)", code_name(encoded.code));
  if (encoded.n_ids > ids_.size()) {
    return fail(Code::kShape,
                "prompt: %zu tokens with the state, the prefix holds %zu; it is never cut",
                encoded.n_ids, ids_.size());
  }
  n_ids = encoded.n_ids;
  for (size_t i = 0; i < n_ids; ++i) {
    if (ids_[i] < 0 || ids_[i] >= pi_config_.vocab) {
      return fail(Code::kFailed,
                  "prompt: token id %d is outside the %lld rows of token_embd.weight", ids_[i],
                  static_cast<long long>(pi_config_.vocab));
    }
  }
  return Code::kOk;
}

Code PiRuntime::run_context() noexcept {
  drop_results();
  const int64_t start_ns = clock_.now_ns();
  size_t n_ids = 0;
  if (const Code code = check_ready(); code != Code::kOk) return code;
  if (const Code code = tokenize(n_ids); code != Code::kOk) return code;
  const uint8_t* views[3];
  const int64_t view_bytes = pi_config_.vision.image_size * pi_config_.vision.image_size * 3;
  for (int64_t i = 0; i < config_.n_views; ++i) views[i] = views_.data() + i * view_bytes;
  if (taps_on_) tap_inputs(n_ids);
  run_->encode_views(std::span(views).first(static_cast<size_t>(config_.n_views)));
  run_->encode_prefix(std::span(ids_).first(n_ids));
  context_pending_ = true;
  const PiRun::ReuseCounts& reuse = run_->reuse_counts();
  counters_.computed_views.store(reuse.computed_views, std::memory_order_relaxed);
  counters_.reused_views.store(reuse.reused_views, std::memory_order_relaxed);
  counters_.reused_prefixes.store(reuse.reused_prefixes, std::memory_order_relaxed);
  counters_.prefix_tokens.store(run_->prefix_tokens(), std::memory_order_relaxed);
  counters_.ns_context.store(clock_.now_ns() - start_ns, std::memory_order_relaxed);
  return Code::kOk;
}

Code PiRuntime::run_action() noexcept {
  actions_ready_ = false;
  if (!context_pending_) {
    return fail(
        Code::kNotReady,
        "action: no pending context; run stage context first (each context serves one action)");
  }
  context_pending_ = false;
  const int64_t start_ns = clock_.now_ns();
  if (pi_config_.family == PiFamily::kPi0) {
    std::fill(padded_state_.begin(), padded_state_.end(), 0.0f);
    std::copy_n(state_.begin(), n_state_, padded_state_.begin());
    if (n_state_ < padded_state_.size())
      counters_.padded_states.fetch_add(1, std::memory_order_relaxed);
  }
  run_->start(noise_, padded_state_);
  for (int64_t k = 0; k < pi_config_.n_denoise_steps; ++k) run_->denoise(k);
  if (!run_->finite()) {
    counters_.nonfinite_outputs.fetch_add(1, std::memory_order_relaxed);
    return fail(Code::kFailed,
                "action: the chunk holds NaN or infinite values and is not delivered; check "
                "weights and inputs");
  }
  std::copy(run_->actions().begin(), run_->actions().end(), actions_.begin());
  actions_ready_ = true;
  counters_.runs.fetch_add(1, std::memory_order_relaxed);
  counters_.ns_action.store(clock_.now_ns() - start_ns, std::memory_order_relaxed);
  return Code::kOk;
}

Code PiRuntime::run_stage(uint32_t executor_ref) noexcept {
  Code code;
  switch (executor_ref) {
    case kContextRef:
      code = run_context();
      break;
    case kActionRef:
      code = run_action();
      break;
    default:
      return fail(
          Code::kNotFound,
          "run_opaque: executor_ref %u is unknown; this plan has context (%u) and action (%u)",
          executor_ref, kContextRef, kActionRef);
  }
  if (code == Code::kOk) {
    error_[0] = 0;
  } else {
    counters_.failed_runs.fetch_add(1, std::memory_order_relaxed);
  }
  return code;
}

Code PiRuntime::step() noexcept {
  const Code code = run_stage(kContextRef);
  return code == Code::kOk ? run_stage(kActionRef) : code;
}

Code PiRuntime::prepare_graph() noexcept {
  return fail(Code::kUnsupported,
              "prepare: this provider has no graph variants; everything is prepared by open");
}

// ---- outputs ------------------------------------------------------------------------------------

Code PiRuntime::get_output(uint32_t port, void* out, uint64_t capacity,
                           uint64_t* written) noexcept {
  if (written == nullptr) return fail(Code::kInvalid, "get_output: written is NULL");
  *written = 0;
  if (port != kActions) {
    return fail(Code::kInvalid, "get_output: port %u is %s; the output is port 3 (actions)", port,
                port < kPortCount ? "an input" : "unknown");
  }
  const uint64_t needed = actions_.size() * sizeof(float);
  if (out == nullptr)
    return fail(Code::kInvalid, "actions: out is NULL; the size is fixed: %llu bytes",
                static_cast<unsigned long long>(needed));
  if (capacity < needed) {
    *written = needed;
    return fail(Code::kNoMemory, "actions: %llu bytes of storage, %llu needed",
                static_cast<unsigned long long>(capacity), static_cast<unsigned long long>(needed));
  }
  if (!actions_ready_) {
    *written = needed;
    return fail(
        Code::kNotReady,
        "actions: no chunk since the inputs changed; run context and action (or step) first");
  }
  std::memcpy(out, actions_.data(), needed);
  *written = needed;
  error_[0] = 0;
  return Code::kOk;
}

// ---- taps and status ----------------------------------------------------------------------------

void PiRuntime::enable_taps(bool on) {
  taps_on_ = on;
  taps_.clear();
  run_->record_to(on ? &taps_ : nullptr);
}

void PiRuntime::tap_inputs(size_t n_ids) {
  const int64_t size = pi_config_.vision.image_size, values = size * size * 3;
  std::vector<float> pixels(static_cast<size_t>(values));
  for (int64_t i = 0; i < config_.n_views; ++i) {
    for (int64_t p = 0; p < values; ++p) {
      pixels[static_cast<size_t>(p)] =
          static_cast<float>(views_[static_cast<size_t>(i * values + p)]) / 255.0f * 2.0f - 1.0f;
    }
    const std::string name = "pixels_" + std::to_string(i);
    taps_.record(name, View<const float>(pixels.data(), size * size, 3));
    taps_.reshape(name, {size, size, 3, 0}, 3);
  }
  const std::vector<float> ids(ids_.begin(), ids_.begin() + static_cast<int64_t>(n_ids));
  taps_.record("tokens", View<const float>(ids.data(), 1, static_cast<int64_t>(n_ids)));
  taps_.reshape("tokens", {static_cast<int64_t>(n_ids), 0, 0, 0}, 1);
}

// A model that a living runtime shares was opened by that runtime's cache_dir.
std::string PiRuntime::cache_text() const {
  if (config_.cache_dir.empty()) return "off";
  if (cached_->cache != "off") return cached_->cache;
  return "miss: not written, the weights are shared with a runtime without cache_dir";
}

std::string PiRuntime::describe() const {
  char text[2048];
  const PiConfig& c = pi_config_;
  std::snprintf(
      text, sizeof text,
      "{\"family\":\"%s\",\"numerics\":\"%s\",\"precision\":\"%s\",\"kernel_table\":\"%s\","
      "\"threads\":%d,\"threads_note\":\"%s\","
      "\"num_steps\":%lld,\"noise_seed\":%lld,\"rope_bf16\":%s,\"units\":\"normalised\",\"image_"
      "size\":%lld,"
      "\"resize\":\"%s\",\"max_prompt_bytes\":%zu,\"max_text_tokens\":%lld,\"packed_bytes\":%lld,"
      "\"state_bytes\":%lld,\"warmed_up\":true,\"reuse\":\"%s\",\"cache\":\"%s\",\"digests\":\"%"
      "s\"}",
      pi_family_name(c.family), choice_name(config_.numerics), precision_name(options_.precision),
      ops_->kernel_table(), ops_->n_threads(), plain(threads_note_).c_str(),
      static_cast<long long>(c.n_denoise_steps), static_cast<long long>(config_.noise_seed),
      options_.numerics.rope_bf16 ? "true" : "false", static_cast<long long>(c.vision.image_size),
      resizer_.empty()                                ? "none"
      : config_.numerics == NumericsChoice::kJetsonPi ? "jetson-pi"
                                                      : "pil",
      kMaxPromptBytes, static_cast<long long>(kMaxTextTokens),
      static_cast<long long>(run_->model().resident_bytes()),
      static_cast<long long>(run_->state_bytes()), config_.reuse ? "on" : "off",
      cache_text().c_str(), files_->digests_remembered ? "remembered" : "computed");
  return text;
}

}  // namespace outrider
