#include "providers/gguf/policy_runtime.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "outrider/frt_v1.h"
#include "providers/gguf/pi_runtime.h"

namespace outrider {
namespace {

// The last pixel first: a picture turned by half a circle.
void turn_180(std::span<uint8_t> rgb) noexcept {
  const size_t n = rgb.size() / 3;
  for (size_t i = 0; i < n / 2; ++i) {
    for (size_t c = 0; c < 3; ++c) std::swap(rgb[i * 3 + c], rgb[(n - 1 - i) * 3 + c]);
  }
}

}  // namespace

// ---- open ---------------------------------------------------------------------------------------

Result<std::unique_ptr<PiFace>> PolicyRuntime::open(const PiOpenConfig& config,
                                                    std::shared_ptr<const PiFiles> files) {
  const PolicyDescription& robot = *files->robot;
  const int64_t columns = config.action_dim > 0 ? config.action_dim : robot.action_width;
  // Before the engine packs weights.
  auto pipeline =
      PolicyPipeline::make(robot, files->config.family, files->config.action_dim, columns);
  if (!pipeline) return pipeline.error();
  auto prompt = PolicyPrompt::make(
      robot, files->config.family, files->tokenizer, kMaxPromptBytes,
      config.numerics == NumericsChoice::kJetsonPi ? StateBins::kJetsonPi : StateBins::kReference);
  if (!prompt) return prompt.error();
  const auto n_cameras = static_cast<int64_t>(robot.cameras.size());
  std::unique_ptr<PolicyRuntime> runtime(new PolicyRuntime);
  auto engine = PiEngine::open(config, std::move(files), n_cameras);
  if (!engine) return engine.error();
  runtime->engine_ = std::move(engine.value());
  runtime->pipeline_ = std::make_unique<PolicyPipeline>(std::move(pipeline.value()));
  runtime->prompt_writer_ = std::make_unique<PolicyPrompt>(std::move(prompt.value()));
  OUTRIDER_TRY(runtime->prepare(config));
  return std::unique_ptr<PiFace>(std::move(runtime));
}

Result<void> PolicyRuntime::prepare(const PiOpenConfig& config) {
  for (const PolicyCamera& spec : robot().cameras) OUTRIDER_TRY(prepare_camera(config, spec));
  const auto steps = static_cast<size_t>(pi_config().action_steps);
  const size_t chunk = steps * static_cast<size_t>(pi_config().action_dim);
  prompt_.resize(kMaxPromptBytes);
  ids_.resize(static_cast<size_t>(PiEngine::kMaxTextTokens));
  state_.values.resize(static_cast<size_t>(pipeline_->state_width()));
  noise_.values.resize(chunk);
  previous_chunk_.values.resize(steps * static_cast<size_t>(pipeline_->columns()));
  prefix_weights_.values.resize(steps);
  guidance_weight_.values.resize(1);
  prefix_steps_.values.resize(1);
  extra_tokens_.values.resize(static_cast<size_t>(kMaxExtraTokens * pi_config().expert.width));
  guided_chunk_.resize(chunk);
  shortest_state_.assign(pipeline_->normalised_state().size(), -0.999);
  actions_.resize(previous_chunk_.values.size());
  return {};
}

// Sizes: the configuration's for all cameras, else the description's, else the model's own.
Result<void> PolicyRuntime::prepare_camera(const PiOpenConfig& config, const PolicyCamera& spec) {
  const int64_t size = pi_config().vision.image_size;
  Camera camera;
  camera.spec = spec;
  camera.height = config.image_height > 0 ? config.image_height
                  : spec.height > 0       ? spec.height
                                          : size;
  camera.width = config.image_width > 0 ? config.image_width : spec.width > 0 ? spec.width : size;
  camera.what = "camera " + spec.name;
  camera.pixels.resize(static_cast<size_t>(engine_->image_values()));
  const int w = static_cast<int>(camera.width), h = static_cast<int>(camera.height),
            s = static_cast<int>(size);
  if (camera.height != size || camera.width != size) {
    camera.raw.resize(static_cast<size_t>(camera.height * camera.width * 3));
    const bool jetson = config.numerics == NumericsChoice::kJetsonPi;
    if (robot().resize == ResizeChoice::kTorch && !jetson) {
      auto resizer = TorchResizer::make(w, h, s, s);
      if (!resizer) return resizer.error();
      camera.torch.push_back(std::move(resizer.value()));
      camera.scaled.resize(camera.pixels.size());
    } else {
      auto resizer = Resizer::make(jetson ? ResizeRule::kJetsonPi : ResizeRule::kPil, w, h, s, s);
      if (!resizer) return resizer.error();
      camera.pil.push_back(std::move(resizer.value()));
    }
  }
  cameras_.push_back(std::move(camera));
  return {};
}

// ---- inputs -------------------------------------------------------------------------------------

Code PolicyRuntime::set_input(uint32_t port, const void* data, uint64_t bytes) noexcept {
  drop_results();
  if (port < cameras_.size()) return staged(stage_camera(cameras_[port], data, bytes));
  return staged(stage_after(port - static_cast<uint32_t>(cameras_.size()), data, bytes));
}

Code PolicyRuntime::stage_after(uint32_t after, const void* data, uint64_t bytes) noexcept {
  switch (after) {
    case kPrompt:
      return stage_prompt(data, bytes);
    case kState:
      return stage_values(state_, "state", data, bytes, false);
    case kNoise:
      return stage_values(noise_, "noise", data, bytes, true);
    case kPreviousChunk:
      return stage_values(previous_chunk_, "previous_chunk", data, bytes, true);
    case kPrefixWeights:
      return stage_values(prefix_weights_, "prefix_weights", data, bytes, true);
    case kGuidanceWeight:
      return stage_values(guidance_weight_, "guidance_weight", data, bytes, true);
    case kPrefixSteps:
      return stage_values(prefix_steps_, "prefix_steps", data, bytes, true);
    case kExtraTokens:
      return stage_values(extra_tokens_, "extra_tokens", data, bytes, true);
    case kActions:
      return fail(Code::kInvalid, "set_input: port %u (actions) is an output", port_of(kActions));
    default:
      return fail(Code::kInvalid, "set_input: port %zu does not exist; there are ports 0..%u",
                  after + cameras_.size(), port_of(kAfterCount) - 1);
  }
}

Code PolicyRuntime::stage_camera(Camera& camera, const void* data, uint64_t bytes) noexcept {
  camera.set = false;
  if (bytes == 0 && !camera.spec.required) return Code::kOk;  // no picture from here on
  if (data == nullptr || bytes != sizeof(frt_image_view))
    return fail(Code::kInvalid, "%s: %llu bytes at %s, wanted 1 view of %zu bytes",
                camera.what.c_str(), static_cast<unsigned long long>(bytes),
                data == nullptr ? "NULL" : "the given address", sizeof(frt_image_view));
  const int64_t start_ns = engine_->now_ns();
  const auto view = read_image_view(data, camera.height, camera.width, camera.what.c_str());
  if (!view) return fail(view.code(), "%s", view.error().text);
  const bool resized = !camera.raw.empty();
  std::vector<uint8_t>& rgb = resized ? camera.raw : camera.pixels;
  to_rgb(view.value(), rgb.data());
  if (camera.spec.rotate_180) turn_180(rgb);
  if (!camera.torch.empty()) camera.torch[0].run(camera.raw.data(), camera.scaled.data());
  if (!camera.pil.empty()) camera.pil[0].run(camera.raw.data(), camera.pixels.data());
  camera.set = true;
  PiCounters& counters = engine_->counters();
  if (resized) counters.resized_views.fetch_add(1, std::memory_order_relaxed);
  counters.ns_images.store(engine_->now_ns() - start_ns, std::memory_order_relaxed);
  return Code::kOk;
}

Code PolicyRuntime::stage_prompt(const void* data, uint64_t bytes) noexcept {
  prompt_set_ = false;
  const bool has_default = !robot().default_prompt.empty();
  if (bytes == 0 && has_default) return Code::kOk;  // the default from here on
  if (data == nullptr || bytes == 0)
    return fail(Code::kInvalid, "prompt: empty, wanted UTF-8 text");
  if (bytes > kMaxPromptBytes)
    return fail(Code::kShape, "prompt: %llu bytes, at most %zu are taken",
                static_cast<unsigned long long>(bytes), kMaxPromptBytes);
  std::memcpy(prompt_.data(), data, bytes);
  prompt_bytes_ = bytes;
  // Written here once, with the shortest state there is, so that what cannot be a prompt whatever
  // the state is refused at once.
  size_t n_ids = 0;
  prompt_set_ = true;
  const Code code = write_prompt(shortest_state_, n_ids);
  prompt_set_ = code == Code::kOk;
  return code;
}

Code PolicyRuntime::stage_values(Values& input, const char* name, const void* data, uint64_t bytes,
                                 bool optional) noexcept {
  input.set = false;
  if (bytes == 0 && optional) return Code::kOk;  // taken back
  const uint64_t wanted = input.values.size() * sizeof(float);
  if (data == nullptr || bytes == 0 || bytes % sizeof(float) != 0)
    return fail(Code::kInvalid, "%s: %llu bytes%s, wanted %llu (%zu floats)", name,
                static_cast<unsigned long long>(bytes), data == nullptr ? " at NULL" : "",
                static_cast<unsigned long long>(wanted), input.values.size());
  if (bytes != wanted)
    return fail(Code::kShape, "%s: %llu values, the policy takes exactly %zu", name,
                static_cast<unsigned long long>(bytes / sizeof(float)), input.values.size());
  for (size_t i = 0; i < input.values.size(); ++i) {
    float value;
    std::memcpy(&value, static_cast<const std::byte*>(data) + i * sizeof value, sizeof value);
    if (!std::isfinite(value))
      return fail(Code::kInvalid, "%s: value %zu is %g, allowed are finite numbers", name, i,
                  static_cast<double>(value));
    input.values[i] = value;
  }
  input.set = true;
  return Code::kOk;
}

// ---- stages -------------------------------------------------------------------------------------

Code PolicyRuntime::check_ready() noexcept {
  const char* missing = nullptr;
  for (const Camera& camera : cameras_) {
    if (camera.spec.required && !camera.set && missing == nullptr)
      missing = camera.spec.name.c_str();
  }
  if (missing == nullptr && !prompt_set_ && robot().default_prompt.empty()) missing = "prompt";
  if (missing == nullptr && !state_.set) missing = "state";
  if (missing == nullptr) return Code::kOk;
  return fail(Code::kInvalid, "context: port %s is not staged; set every required input first",
              missing);
}

Code PolicyRuntime::write_prompt(std::span<const double> state, size_t& n_ids) noexcept {
  const std::string_view text = prompt_set_ ? std::string_view(prompt_.data(), prompt_bytes_)
                                            : std::string_view(robot().default_prompt);
  const auto written = prompt_writer_->write(text, state, ids_);
  const auto most = static_cast<long long>(prompt_writer_->max_tokens());
  if (written.code == Code::kInvalid) return fail(Code::kInvalid, "prompt: not valid UTF-8");
  if (written.code == Code::kShape)
    return fail(Code::kShape,
                "prompt: %zu tokens%s, the policy was trained with at most %lld; shorten it, or "
                "say too_long \"cut\" in the policy",
                written.n_wanted, prompt_writer_->reads_state() ? " with the state" : "", most);
  if (written.code != Code::kOk)
    return fail(Code::kFailed, "prompt: tokenizer failed (%s)", code_name(written.code));
  n_ids = written.n_ids;
  prompt_cut_ = written.cut();
  return check_ids(std::span(ids_).first(n_ids));
}

Code PolicyRuntime::context() noexcept {
  if (const Code code = check_ready(); code != Code::kOk) return code;
  pipeline_->take_state(state_.values);
  PiCounters& counters = engine_->counters();
  if (pipeline_->n_outside() > 0) counters.outside_states.fetch_add(1, std::memory_order_relaxed);
  if (!prompt_set_) counters.default_prompts.fetch_add(1, std::memory_order_relaxed);
  size_t n_ids = 0;
  if (const Code code = write_prompt(pipeline_->normalised_state(), n_ids); code != Code::kOk)
    return code;
  if (prompt_cut_) counters.cut_prompts.fetch_add(1, std::memory_order_relaxed);
  PiPixels views[kMaxCameras];
  size_t n_views = 0;
  for (const Camera& camera : cameras_) {
    if (!camera.set) {  // its tokens would be masked: leaving them out is the same
      counters.masked_views.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    views[n_views++] = {camera.pixels.data(),
                        camera.scaled.empty() ? nullptr : camera.scaled.data()};
  }
  engine_->encode(std::span<const PiPixels>(views).first(n_views), std::span(ids_).first(n_ids));
  if (engine_->taps_on()) {
    const auto state = pipeline_->normalised_state();
    const std::vector<float> values(state.begin(), state.end());
    engine_->tap("normalised_state",
                 View<const float>(values.data(), 1, static_cast<int64_t>(values.size())));
  }
  return Code::kOk;
}

// The previous chunk in model space, against the state of this observation.
Code PolicyRuntime::previous_chunk_for(const char* port) noexcept {
  if (!previous_chunk_.set)
    return fail(Code::kInvalid, "action: %s is staged, but port previous_chunk is not", port);
  if (!pipeline_->can_return())
    return fail(Code::kUnsupported,
                "action: this robot's action conversion reads one dimension twice, so a chunk "
                "cannot be turned back and continued");
  pipeline_->to_model(previous_chunk_.values, guided_chunk_);
  for (const float value : guided_chunk_) {
    if (!std::isfinite(value))
      return fail(Code::kInvalid, "previous_chunk: a value leaves f32 in normalised units");
  }
  return Code::kOk;
}

// On when all three inputs are there and the weight is above 0.
Code PolicyRuntime::guidance(PiConditions& out) noexcept {
  if (!guidance_weight_.set || guidance_weight_.values[0] == 0) return Code::kOk;
  if (guidance_weight_.values[0] < 0)
    return fail(Code::kInvalid, "guidance_weight: %g, allowed are numbers from 0",
                static_cast<double>(guidance_weight_.values[0]));
  if (!prefix_weights_.set)
    return fail(Code::kInvalid,
                "action: guidance_weight is staged, but port prefix_weights is not");
  if (const Code code = previous_chunk_for("guidance_weight"); code != Code::kOk) return code;
  out.guidance = {guided_chunk_, prefix_weights_.values, guidance_weight_.values[0]};
  engine_->counters().guided_runs.fetch_add(1, std::memory_order_relaxed);
  return Code::kOk;
}

Code PolicyRuntime::hard_prefix(PiConditions& out) noexcept {
  if (!prefix_steps_.set || prefix_steps_.values[0] == 0) return Code::kOk;
  const double steps = static_cast<double>(prefix_steps_.values[0]);
  if (steps < 0 || steps != std::floor(steps) ||
      steps >= static_cast<double>(pi_config().action_steps))
    return fail(Code::kInvalid, "prefix_steps: %g, allowed are whole numbers 0..%lld", steps,
                static_cast<long long>(pi_config().action_steps - 1));
  if (const Code code = previous_chunk_for("prefix_steps"); code != Code::kOk) return code;
  out.prefix = {guided_chunk_, static_cast<int64_t>(steps)};
  return Code::kOk;
}

Code PolicyRuntime::conditions(PiConditions& out) noexcept {
  if (const Code code = guidance(out); code != Code::kOk) return code;
  if (const Code code = hard_prefix(out); code != Code::kOk) return code;
  if (extra_tokens_.set) out.extra = extra_tokens_.values;
  return Code::kOk;
}

Code PolicyRuntime::action() noexcept {
  PiConditions added;
  if (const Code code = conditions(added); code != Code::kOk) return code;
  const std::span<const float> noise =
      noise_.set ? std::span<const float>(noise_.values) : engine_->seeded_noise();
  if (const Code code = denoise(noise, pipeline_->padded_state(), added); code != Code::kOk)
    return code;
  if (!pipeline_->finish(engine_->chunk(), actions_)) return refuse_nonfinite();
  return Code::kOk;
}

// ---- facts --------------------------------------------------------------------------------------

std::vector<PiFace::Port> PolicyRuntime::ports() const {
  std::vector<Port> out;
  for (const Camera& camera : cameras_)
    out.push_back({camera.spec.name,
                   FRT_MODALITY_IMAGE,
                   FRT_DTYPE_U8,
                   FRT_LAYOUT_NHWC,
                   FRT_PORT_IN,
                   camera.spec.required ? 1u : 0u,
                   {1, camera.height, camera.width, 3}});
  const int64_t steps = pi_config().action_steps, columns = pipeline_->columns();
  const auto values = [&](const char* name, uint32_t modality, uint32_t direction,
                          uint32_t required, std::vector<int64_t> shape) {
    out.push_back(
        {name, modality, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, direction, required, std::move(shape)});
  };
  out.push_back({"prompt",
                 FRT_MODALITY_TEXT,
                 FRT_DTYPE_U8,
                 FRT_LAYOUT_FLAT,
                 FRT_PORT_IN,
                 robot().default_prompt.empty() ? 1u : 0u,
                 {-1}});
  values("state", FRT_MODALITY_STATE, FRT_PORT_IN, 1, {pipeline_->state_width()});
  values("actions", FRT_MODALITY_ACTION, FRT_PORT_OUT, 0, {steps, columns});
  values("noise", FRT_MODALITY_TENSOR, FRT_PORT_IN, 0, {steps, pi_config().action_dim});
  values("previous_chunk", FRT_MODALITY_TENSOR, FRT_PORT_IN, 0, {steps, columns});
  values("prefix_weights", FRT_MODALITY_TENSOR, FRT_PORT_IN, 0, {steps});
  values("guidance_weight", FRT_MODALITY_TENSOR, FRT_PORT_IN, 0, {1});
  values("prefix_steps", FRT_MODALITY_TENSOR, FRT_PORT_IN, 0, {1});
  values("extra_tokens", FRT_MODALITY_TENSOR, FRT_PORT_IN, 0,
         {kMaxExtraTokens, pi_config().expert.width});
  return out;
}

std::string PolicyRuntime::describe_face() const {
  const PolicyDescription& r = robot();
  const PiFamily family = pi_config().family;
  const auto quoted = [](const std::string& text) { return "\"" + plain(text) + "\""; };
  std::string out = ",\"units\":\"robot\",\"robot\":" + quoted(robot_name(r.robot));
  out += ",\"cameras\":[";
  for (const Camera& camera : cameras_) {
    if (&camera != &cameras_[0]) out += ",";
    out += "{\"name\":" + quoted(camera.spec.name) +
           ",\"slot\":" + quoted(kCameraSlots[static_cast<size_t>(camera.spec.slot)]) +
           ",\"required\":" + (camera.spec.required ? "true" : "false") +
           ",\"rotate_180\":" + (camera.spec.rotate_180 ? "true" : "false") +
           ",\"height\":" + std::to_string(camera.height) +
           ",\"width\":" + std::to_string(camera.width) + "}";
  }
  out += "],\"masked_slots\":[";
  bool first = true;
  for (size_t slot = 0; slot < kCameraSlots.size(); ++slot) {
    if (std::any_of(cameras_.begin(), cameras_.end(),
                    [&](const Camera& c) { return c.spec.slot == static_cast<int64_t>(slot); }))
      continue;
    out += std::string(first ? "" : ",") + "\"" + kCameraSlots[slot] + "\"";
    first = false;
  }
  out += "],\"state_fields\":[";
  for (const StateField& field : r.state) {
    if (&field != &r.state[0]) out += ",";
    out += "{\"name\":" + quoted(field.name) + ",\"size\":" + std::to_string(field.size) +
           ",\"unit\":" + quoted(field.unit) + "}";
  }
  out += "],\"action_unit\":" + quoted(r.action_unit) + ",\"delta_mask\":[";
  for (size_t i = 0; i < r.delta_mask.size(); ++i)
    out += std::string(i > 0 ? "," : "") + (r.delta_mask[i] ? "true" : "false");
  const NormForm state = state_form(r, family), actions = action_form(r, family);
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, "],\"rate_hz\":%g,\"max_tokens\":%lld,\"epsilon\":%g",
                r.rate_hz, static_cast<long long>(prompt_writer_->max_tokens()), r.epsilon);
  out += numbers;
  out += ",\"state_in_text\":" + std::string(prompt_writer_->reads_state() ? "true" : "false") +
         ",\"prompt_rule\":" + quoted(r.prompt_rule == PromptRule::kOpenpi ? "openpi" : "lerobot") +
         ",\"default_prompt\":" + quoted(r.default_prompt) +
         ",\"resize\":" + quoted(r.resize == ResizeChoice::kPil ? "pil" : "torch") +
         ",\"normalisation\":{\"state\":" + quoted(norm_form_name(state)) +
         ",\"actions\":" + quoted(norm_form_name(actions)) +
         ",\"rule\":" + quoted(norm_rule_name(r.norm_rule)) +
         "},\"statistics\":{\"state\":" + quoted(statistics_summary(r.statistics.state, state)) +
         ",\"actions\":" + quoted(statistics_summary(r.statistics.actions, actions)) +
         ",\"origin\":" + quoted(r.statistics.origin) + "}";
  out += ",\"notes\":[";
  const std::vector<std::string>& notes = engine_->files().notes;
  for (size_t i = 0; i < notes.size(); ++i) out += (i > 0 ? "," : "") + quoted(notes[i]);
  return out + "],\"max_prompt_bytes\":" + std::to_string(kMaxPromptBytes);
}

}  // namespace outrider
