#include "providers/gguf/pi_face.h"

#include <cstdio>
#include <cstring>

namespace outrider {

Code PiFace::fail(Code code, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  std::vsnprintf(error_, sizeof error_, format, args);
  va_end(args);
  return code;
}

Code PiFace::staged(Code code) noexcept {
  if (code == Code::kOk) {
    error_[0] = 0;
  } else {
    engine_->counters().refused_inputs.fetch_add(1, std::memory_order_relaxed);
  }
  return code;
}

// ---- stages -------------------------------------------------------------------------------------

Code PiFace::check_ids(std::span<const int32_t> ids) noexcept {
  const int32_t unknown = engine_->unknown_id(ids);
  if (unknown < 0) return Code::kOk;
  return fail(Code::kFailed, "prompt: token id %d is outside the %lld rows of token_embd.weight",
              unknown, static_cast<long long>(engine_->pi_config().vocab));
}

Code PiFace::run_context() noexcept {
  drop_results();
  const int64_t start_ns = engine_->now_ns();
  if (const Code code = context(); code != Code::kOk) return code;
  context_pending_ = true;
  engine_->counters().ns_context.store(engine_->now_ns() - start_ns, std::memory_order_relaxed);
  return Code::kOk;
}

Code PiFace::denoise(std::span<const float> noise, std::span<const float> state,
                     const PiConditions& conditions) noexcept {
  const PiEnd end = engine_->denoise(noise, state, conditions);
  if (end == PiEnd::kDone) return Code::kOk;
  return end == PiEnd::kCancelled ? refuse_cancelled("action") : refuse_nonfinite();
}

Code PiFace::encode(std::span<const PiPixels> views, std::span<const int32_t> ids) noexcept {
  return engine_->encode(views, ids) ? Code::kOk : refuse_cancelled("context");
}

Code PiFace::refuse_cancelled(const char* stage) noexcept {
  engine_->counters().cancelled_runs.fetch_add(1, std::memory_order_relaxed);
  return fail(Code::kFailed, "%s: cancelled; the inputs are still staged, run the tick again",
              stage);
}

Code PiFace::refuse_nonfinite() noexcept {
  engine_->counters().nonfinite_outputs.fetch_add(1, std::memory_order_relaxed);
  return fail(Code::kFailed,
              "action: the chunk holds NaN or infinite values and is not delivered; check "
              "weights and inputs");
}

Code PiFace::run_action() noexcept {
  actions_ready_ = false;
  if (!context_pending_) {
    return fail(
        Code::kNotReady,
        "action: no pending context; run stage context first (each context serves one action)");
  }
  context_pending_ = false;
  if (engine_->cancelled()) return refuse_cancelled("action");
  const int64_t start_ns = engine_->now_ns();
  if (const Code code = action(); code != Code::kOk) return code;
  actions_ready_ = true;
  engine_->counters().runs.fetch_add(1, std::memory_order_relaxed);
  engine_->counters().ns_action.store(engine_->now_ns() - start_ns, std::memory_order_relaxed);
  return Code::kOk;
}

Code PiFace::run_stage(uint32_t executor_ref) noexcept {
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
    engine_->counters().failed_runs.fetch_add(1, std::memory_order_relaxed);
  }
  return code;
}

Code PiFace::step() noexcept {
  const Code code = run_stage(kContextRef);
  return code == Code::kOk ? run_stage(kActionRef) : code;
}

Code PiFace::prepare_graph() noexcept {
  return fail(Code::kUnsupported,
              "prepare: this provider has no graph variants; everything is prepared by open");
}

// ---- outputs ------------------------------------------------------------------------------------

Code PiFace::get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept {
  if (written == nullptr) return fail(Code::kInvalid, "get_output: written is NULL");
  *written = 0;
  if (port != actions_port()) {
    return fail(Code::kInvalid, "get_output: port %u is no output; the output is port %u (actions)",
                port, actions_port());
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

// ---- facts --------------------------------------------------------------------------------------

std::string PiFace::describe() const {
  return "{" + engine_->describe() + describe_face() + "}";
}

// Optional keys enter the identity when they can change a result and differ from their default.
std::vector<std::pair<std::string, std::string>> PiFace::identity() const {
  const PiOpenConfig& c = engine_->open_config();
  const PiFiles& files = engine_->files();
  std::vector<std::pair<std::string, std::string>> pairs = {{"provider", "outrider"},
                                                            {"model_family", "pi0"}};
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) pairs.emplace_back(key, value);
  };
  add("model_path", c.model_path);
  add("mmproj_path", c.mmproj_path);
  add("policy_dir", c.policy_dir);
  add("weights_sha256", files.policy_sha256);
  add("mmproj_sha256", files.vision_sha256);
  if (!c.plain_face()) add("policy_sha256", files.robot_sha256);
  add("backend", c.backend);
  add("stage_plan", "context_action");
  const PiOpenConfig defaults;
  if (c.numerics != defaults.numerics) add("numerics", choice_name(c.numerics));
  if (c.precision != defaults.precision) add("precision", choice_name(c.precision));
  if (c.num_steps != defaults.num_steps && c.num_steps != files.config.n_denoise_steps)
    add("num_steps", std::to_string(c.num_steps));
  if (c.noise_seed != defaults.noise_seed) add("noise_seed", std::to_string(c.noise_seed));
  if (c.rope_bf16 != defaults.rope_bf16) add("rope_bf16", choice_name(c.rope_bf16));
  return pairs;
}

}  // namespace outrider
