#include "providers/gguf/policy_runtime.h"

#include <cmath>

#include "outrider/frt_v1.h"

namespace outrider {

Result<std::unique_ptr<PiFace>> PolicyRuntime::open(const PiOpenConfig& config,
                                                    std::shared_ptr<const PiFiles> files) {
  std::unique_ptr<PolicyRuntime> runtime(new PolicyRuntime);
  OUTRIDER_TRY(runtime->open_robot(config, std::move(files)));
  runtime->prepare_own();
  return std::unique_ptr<PiFace>(std::move(runtime));
}

void PolicyRuntime::prepare_own() {
  const auto steps = static_cast<size_t>(pi_config().action_steps);
  const size_t chunk = steps * static_cast<size_t>(pi_config().action_dim);
  noise_.values.resize(chunk);
  previous_chunk_.values.resize(steps * static_cast<size_t>(pipeline().columns()));
  prefix_weights_.values.resize(steps);
  guidance_weight_.values.resize(1);
  prefix_steps_.values.resize(1);
  extra_tokens_.values.resize(static_cast<size_t>(kMaxExtraTokens * pi_config().expert.width));
  guided_chunk_.resize(chunk);
}

// ---- inputs -------------------------------------------------------------------------------------

Code PolicyRuntime::stage_own(uint32_t own, const void* data, uint64_t bytes) noexcept {
  switch (own) {
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
    default:
      return stage_values(extra_tokens_, "extra_tokens", data, bytes, true);
  }
}

void PolicyRuntime::add_own_ports(std::vector<Port>& ports) const {
  const int64_t steps = pi_config().action_steps, columns = pipeline().columns();
  const auto input = [&](const char* name, std::vector<int64_t> shape) {
    ports.push_back({name, FRT_MODALITY_TENSOR, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, FRT_PORT_IN, 0,
                     std::move(shape)});
  };
  input("noise", {steps, pi_config().action_dim});
  input("previous_chunk", {steps, columns});
  input("prefix_weights", {steps});
  input("guidance_weight", {1});
  input("prefix_steps", {1});
  input("extra_tokens", {kMaxExtraTokens, pi_config().expert.width});
}

// ---- stage action -------------------------------------------------------------------------------

// The previous chunk in model space, against the state of this observation.
Code PolicyRuntime::previous_chunk_for(const char* port) noexcept {
  if (!previous_chunk_.set)
    return fail(Code::kInvalid, "action: %s is staged, but port previous_chunk is not", port);
  if (!pipeline().can_return())
    return fail(Code::kUnsupported,
                "action: this robot's action conversion reads one dimension twice, so a chunk "
                "cannot be turned back and continued");
  pipeline().to_model(previous_chunk_.values, guided_chunk_);
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
  if (const Code code = denoise(noise, pipeline().padded_state(), added); code != Code::kOk)
    return code;
  if (!pipeline().finish(engine_->chunk(), actions_)) return refuse_nonfinite();
  return Code::kOk;
}

}  // namespace outrider
