#include "providers/gguf/pi_runtime.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "outrider/frt_v1.h"

namespace outrider {
namespace {

constexpr size_t kMaxTextBytes =
    PiFace::kMaxPromptBytes + 256;  // "Task: ..., State: ...;\nAction: "

constexpr const char* kViewNames[] = {"images: view 0", "images: view 1", "images: view 2"};

}  // namespace

// ---- open ---------------------------------------------------------------------------------------

Result<std::unique_ptr<PiFace>> PiRuntime::open(const PiOpenConfig& config,
                                                std::shared_ptr<const PiFiles> files) {
  OUTRIDER_TRY(check_pi_sizes(config, files->config, config.model_path));
  std::unique_ptr<PiRuntime> runtime(new PiRuntime);
  runtime->config_ = config;
  auto engine = PiEngine::open(config, std::move(files), config.n_views);
  if (!engine) return engine.error();
  runtime->engine_ = std::move(engine.value());
  OUTRIDER_TRY(runtime->prepare());
  return std::unique_ptr<PiFace>(std::move(runtime));
}

Result<void> PiRuntime::prepare() {
  const int64_t size = pi_config().vision.image_size;
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
  state_.resize(static_cast<size_t>(std::max(pi_config().action_dim, kMaxTextState)));
  padded_state_.resize(static_cast<size_t>(pi_config().action_dim));
  actions_.resize(static_cast<size_t>(pi_config().action_dim * pi_config().action_steps));
  return {};
}

// ---- inputs -------------------------------------------------------------------------------------

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
  return staged(code);
}

Result<ImageView> read_image_view(const void* data, int64_t height, int64_t width,
                                  const char* what) noexcept {
  frt_image_view in;  // the caller's array may lie at any address
  std::memcpy(&in, data, sizeof in);
  if (in.struct_size < sizeof in)
    return make_error(Code::kInvalid, "%s has struct_size %u, wanted at least %zu", what,
                      in.struct_size, sizeof in);
  const ImageView view = {static_cast<PixelFormat>(in.pixel_format),
                          in.data,
                          in.bytes,
                          in.width,
                          in.height,
                          in.stride_bytes};
  OUTRIDER_TRY(check_image(view, what));
  if (in.width != width || in.height != height)
    return make_error(Code::kShape, "%s is %d x %d (width x height), opened for %lld x %lld", what,
                      in.width, in.height, static_cast<long long>(width),
                      static_cast<long long>(height));
  if (looks_like_float_buffer(view))
    return make_error(
        Code::kInvalid,
        "%s has %llu bytes, a whole multiple of what 8-bit pixels need: float pixels? "
        "Give 8-bit ones",
        what, static_cast<unsigned long long>(in.bytes));
  return view;
}

Code PiRuntime::stage_images(const void* data, uint64_t bytes) noexcept {
  const auto n_views = static_cast<uint64_t>(config_.n_views);
  if (data == nullptr || bytes != n_views * sizeof(frt_image_view)) {
    return fail(Code::kInvalid, "images: %llu bytes at %s, wanted %llu views of %zu bytes each",
                static_cast<unsigned long long>(bytes),
                data == nullptr ? "NULL" : "the given address",
                static_cast<unsigned long long>(n_views), sizeof(frt_image_view));
  }
  const int64_t start_ns = engine_->now_ns();
  ImageView views[3];
  for (uint64_t i = 0; i < n_views; ++i) {
    const auto view =
        read_image_view(static_cast<const std::byte*>(data) + i * sizeof(frt_image_view),
                        config_.image_height, config_.image_width, kViewNames[i]);
    if (!view) return fail(view.code(), "%s", view.error().text);
    views[i] = view.value();
  }
  const int64_t size = pi_config().vision.image_size;
  for (uint64_t i = 0; i < n_views; ++i) {
    uint8_t* out = views_.data() + static_cast<int64_t>(i) * size * size * 3;
    if (resizer_.empty()) {
      to_rgb(views[i], out);
    } else {
      to_rgb(views[i], raw_rgb_.data());
      resizer_[0].run(raw_rgb_.data(), out);
      engine_->counters().resized_views.fetch_add(1, std::memory_order_relaxed);
    }
  }
  engine_->counters().ns_images.store(engine_->now_ns() - start_ns, std::memory_order_relaxed);
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
  const auto encoded = encode_pi0(engine_->files().tokenizer, text, *scratch_, ids_);
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
  const auto dim = static_cast<uint64_t>(pi_config().action_dim);
  if (pi_config().family == PiFamily::kPi0) {
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
  if (pi_config().family == PiFamily::kPi0) {
    encoded = encode_pi0(engine_->files().tokenizer, prompt, *scratch_, ids_);
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
    encoded = encode_pi05(engine_->files().tokenizer, {text_.data(), bytes}, *scratch_, ids_);
  }
  if (encoded.code != Code::kOk)
    return fail(Code::kFailed, "prompt: tokenizer failed (%s)", code_name(encoded.code));
  if (encoded.n_ids > ids_.size()) {
    return fail(Code::kShape,
                "prompt: %zu tokens with the state, the prefix holds %zu; it is never cut",
                encoded.n_ids, ids_.size());
  }
  n_ids = encoded.n_ids;
  return check_ids(std::span(ids_).first(n_ids));
}

Code PiRuntime::context() noexcept {
  size_t n_ids = 0;
  if (const Code code = check_ready(); code != Code::kOk) return code;
  if (const Code code = tokenize(n_ids); code != Code::kOk) return code;
  PiPixels views[3];
  for (int64_t i = 0; i < config_.n_views; ++i)
    views[i].rgb = views_.data() + i * engine_->image_values();
  return encode(std::span<const PiPixels>(views).first(static_cast<size_t>(config_.n_views)),
                std::span(ids_).first(n_ids));
}

Code PiRuntime::action() noexcept {
  if (pi_config().family == PiFamily::kPi0) {
    std::fill(padded_state_.begin(), padded_state_.end(), 0.0f);
    std::copy_n(state_.begin(), n_state_, padded_state_.begin());
    if (n_state_ < padded_state_.size())
      engine_->counters().padded_states.fetch_add(1, std::memory_order_relaxed);
  }
  if (const Code code = denoise(engine_->seeded_noise(), padded_state_, {}); code != Code::kOk)
    return code;
  std::copy(engine_->chunk().begin(), engine_->chunk().end(), actions_.begin());
  return Code::kOk;
}

// ---- facts --------------------------------------------------------------------------------------

std::vector<PiFace::Port> PiRuntime::ports() const {
  const PiOpenConfig& c = config_;
  return {
      {"images",
       FRT_MODALITY_IMAGE,
       FRT_DTYPE_U8,
       FRT_LAYOUT_NHWC,
       FRT_PORT_IN,
       1,
       {c.n_views, c.image_height, c.image_width, c.image_channels}},
      {"prompt", FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, FRT_PORT_IN, 1, {-1}},
      {"state", FRT_MODALITY_STATE, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, FRT_PORT_IN, 1, {-1}},
      {"actions",
       FRT_MODALITY_ACTION,
       FRT_DTYPE_F32,
       FRT_LAYOUT_FLAT,
       FRT_PORT_OUT,
       0,
       {c.action_steps, c.action_dim}},
  };
}

std::string PiRuntime::describe_face() const {
  const char* resize = resizer_.empty()                                ? "none"
                       : config_.numerics == NumericsChoice::kJetsonPi ? "jetson-pi"
                                                                       : "pil";
  return std::string(",\"units\":\"normalised\",\"resize\":\"") + resize +
         "\",\"max_prompt_bytes\":" + std::to_string(kMaxPromptBytes);
}

}  // namespace outrider
