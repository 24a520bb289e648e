#include "providers/gguf/robot_face.h"

#include <algorithm>
#include <cmath>
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

Result<void> RobotFace::open_robot(const PiOpenConfig& config,
                                   std::shared_ptr<const PiFiles> files) {
  const PolicyDescription& robot = *files->robot;
  const PiConfig& model = files->config;
  const int64_t columns = config.action_dim > 0 ? config.action_dim : robot.action_width;
  auto pipeline = PolicyPipeline::make(robot, model.family, model.action_dim, columns);
  if (!pipeline) return pipeline.error();
  auto prompt = PolicyPrompt::make(
      robot, model.family, files->tokenizer, kMaxPromptBytes,
      config.numerics == NumericsChoice::kJetsonPi ? StateBins::kJetsonPi : StateBins::kReference);
  if (!prompt) return prompt.error();
  every_slot_ = model.is_fast() && !lerobot_fast(robot, model.family);
  const auto n_views = every_slot_ ? kMaxCameras : static_cast<int64_t>(robot.cameras.size());
  auto engine = PiEngine::open(config, std::move(files), n_views);
  if (!engine) return engine.error();
  engine_ = std::move(engine.value());
  pipeline_ = std::make_unique<PolicyPipeline>(std::move(pipeline.value()));
  prompt_writer_ = std::make_unique<PolicyPrompt>(std::move(prompt.value()));
  return prepare(config);
}

Result<void> RobotFace::prepare(const PiOpenConfig& config) {
  for (const PolicyCamera& spec : robot().cameras) OUTRIDER_TRY(prepare_camera(config, spec));
  prompt_.resize(kMaxPromptBytes);
  ids_.resize(static_cast<size_t>(PiEngine::kMaxTextTokens));
  state_.values.resize(static_cast<size_t>(pipeline_->state_width()));
  if (every_slot_) black_.resize(static_cast<size_t>(engine_->image_values()));
  shortest_state_.assign(pipeline_->normalised_state().size(), -0.999);
  actions_.resize(static_cast<size_t>(pi_config().action_steps * pipeline_->columns()));
  return {};
}

// Sizes: the configuration's for all cameras, else the description's, else the model's own.
Result<void> RobotFace::prepare_camera(const PiOpenConfig& config, const PolicyCamera& spec) {
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

Code RobotFace::set_input(uint32_t port, const void* data, uint64_t bytes) noexcept {
  drop_results();
  if (port < cameras_.size()) return staged(stage_camera(cameras_[port], data, bytes));
  return staged(stage_after(port - static_cast<uint32_t>(cameras_.size()), data, bytes));
}

Code RobotFace::stage_after(uint32_t after, const void* data, uint64_t bytes) noexcept {
  if (after == kPrompt) return stage_prompt(data, bytes);
  if (after == kState) return stage_values(state_, "state", data, bytes, false);
  if (after == kActions)
    return fail(Code::kInvalid, "set_input: port %u (actions) is an output", port_of(kActions));
  if (after < kOwn + n_own()) return stage_own(after - kOwn, data, bytes);
  return fail(Code::kInvalid, "set_input: port %zu does not exist; there are ports 0..%u",
              after + cameras_.size(), port_of(kOwn + n_own()) - 1);
}

Code RobotFace::stage_own(uint32_t, const void*, uint64_t) noexcept {
  return Code::kInvalid;  // a face without ports of its own is never asked
}

Code RobotFace::stage_camera(Camera& camera, const void* data, uint64_t bytes) noexcept {
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

Code RobotFace::stage_prompt(const void* data, uint64_t bytes) noexcept {
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

Code RobotFace::stage_values(Values& input, const char* name, const void* data, uint64_t bytes,
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

Code RobotFace::check_ready() noexcept {
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

Code RobotFace::write_prompt(std::span<const double> state, size_t& n_ids) noexcept {
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

// What the model sees, in the order of the slots.
size_t RobotFace::collect_views(PiPixels views[kMaxCameras]) noexcept {
  PiCounters& counters = engine_->counters();
  size_t n = 0;
  const auto put = [&](const Camera& camera) {
    views[n++] = {camera.pixels.data(), camera.scaled.empty() ? nullptr : camera.scaled.data()};
  };
  if (!every_slot_) {
    for (const Camera& camera : cameras_) {
      if (camera.set) {
        put(camera);
      } else {  // its tokens would be masked: leaving them out is the same
        counters.masked_views.fetch_add(1, std::memory_order_relaxed);
      }
    }
    return n;
  }
  for (int64_t slot = 0; slot < kMaxCameras; ++slot) {
    const auto camera = std::find_if(cameras_.begin(), cameras_.end(),
                                     [&](const Camera& c) { return c.set && c.spec.slot == slot; });
    if (camera != cameras_.end()) {
      put(*camera);
    } else {  // the reference does not mask it
      views[n++] = {black_.data(), nullptr};
      counters.black_views.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return n;
}

Code RobotFace::context() noexcept {
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
  const size_t n_views = collect_views(views);
  if (const Code code =
          encode(std::span<const PiPixels>(views).first(n_views), std::span(ids_).first(n_ids));
      code != Code::kOk)
    return code;
  if (engine_->taps_on()) {
    const auto state = pipeline_->normalised_state();
    const std::vector<float> values(state.begin(), state.end());
    engine_->tap("normalised_state",
                 View<const float>(values.data(), 1, static_cast<int64_t>(values.size())));
  }
  return Code::kOk;
}

}  // namespace outrider
