// Inside a tick: inputs, the history, the graph, what is made of its outputs.
#include <cstddef>
#include <cstring>

#include "providers/onnx/driving_runtime.h"
#include "providers/onnx/values.h"
#include "tensor/float16.h"

namespace outrider {

using driving::Layout;

// ---- ports --------------------------------------------------------------------------------------

Code DrivingRuntime::set_input(uint32_t index, const void* data, uint64_t bytes) noexcept {
  return take_input(ports_, index, data, bytes, counters_.refused_inputs, [&](PortInfo& port) {
    if (port.n_bytes > 0) std::memcpy(port.data, data, port.n_bytes);
  });
}

Code DrivingRuntime::get_output(uint32_t index, void* out, uint64_t capacity,
                                uint64_t* written) noexcept {
  return give_output(ports_, index, out, capacity, written,
                     [](const PortInfo& port) { return port.data; });
}

// ---- one frame ----------------------------------------------------------------------------------

// The state of the frame before, or zeros: here and not after the run, so that a reset costs
// nothing and a tick always the same.
void DrivingRuntime::settle_state() noexcept {
  for (const State& state : states_) {
    const auto to = run_->input(state.input);
    if (next_state_ == NextState::kCopy && !to.empty())
      std::memcpy(to.data(), run_->output(state.output).data(), to.size());
    else if (next_state_ == NextState::kZero && !to.empty())
      std::memset(to.data(), 0, to.size());
  }
  next_state_ = NextState::kKeep;
}

void DrivingRuntime::stage(const Inputs& in) noexcept {
  if (staging_) {
    staging_->stage(in.frames, in.desire);
  } else {
    settle_state();
    driving::cast_bytes(reinterpret_cast<const uint8_t*>(in.frames), spec_.frames_bytes(),
                        new_img_);
    driving::cast_floats(in.desire, spec_.n_desire, desire_in_);
  }
  driving::cast_floats(in.traffic, spec_.n_traffic, traffic_in_);
  driving::cast_floats(in.action_t, spec_.n_action, action_t_in_);
}

// False: an output value is not finite.
bool DrivingRuntime::run_graph() noexcept {
  run_->run();
  if (!outputs_.empty()) {
    const auto* halves = reinterpret_cast<const uint16_t*>(run_->output(output_index_).data());
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i] = detail::half_to_float(halves[i]);
  }
  const size_t n_bytes = static_cast<size_t>(spec_.n_outputs) * sizeof(float);
  if (!all_finite(DType::kF32, reinterpret_cast<const std::byte*>(raw_), n_bytes, bad_at_,
                  bad_value_)) {
    counters_.nonfinite_outputs.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  if (staging_) staging_->keep_hidden(raw_ + spec_.hidden.begin);
  next_state_ = NextState::kCopy;
  return true;
}

Code DrivingRuntime::infer() noexcept {
  outputs_ready_ = false;
  if (const Code code = check_staged(ports_); code != Code::kOk) return code;
  const int64_t start_ns = clock_.now_ns();
  if (config_.desire == "level")
    pulse_->step(desire_, pulse_now_);
  else
    std::memcpy(pulse_now_.data(), desire_.data(), desire_.size() * sizeof(float));
  stage({frames_.data(), pulse_now_.data(), traffic_.data(), action_t_.data()});
  counters_.ns_stage.store(clock_.now_ns() - start_ns, std::memory_order_relaxed);
  if (!run_graph())
    return fail(Code::kFailed,
                "infer: value %zu of outputs is %g and nothing is delivered; hidden and recurrent "
                "state stay as they were; check weights and inputs",
                bad_at_, bad_value_);
  if (const Code code = publish(); code != Code::kOk) return code;
  outputs_ready_ = true;
  counters_.ns_infer.store(clock_.now_ns() - start_ns, std::memory_order_relaxed);
  counters_.runs.fetch_add(1, std::memory_order_relaxed);
  return succeed();
}

Code DrivingRuntime::publish() noexcept {
  if (heads_ && !heads_->parse(raw_))
    return fail(Code::kFailed, "infer: a value of head %s is not finite and nothing is delivered",
                heads_->bad()->name.c_str());
  if (!action_) return Code::kOk;
  if (!action_->step(raw_, *heads_, v_ego_, action_t_[0], action_t_[1]))
    return fail(Code::kFailed, "infer: the action is not finite and nothing is delivered");
  const driving::Action& action = action_->last();
  action_out_[0] = action.curvature;
  action_out_[1] = action.acceleration;
  action_out_[2] = action.stop;
  return Code::kOk;
}

Code DrivingRuntime::reset() noexcept {
  outputs_ready_ = false;
  if (staging_) staging_->reset();
  next_state_ = NextState::kZero;
  pulse_->reset();
  if (action_) action_->reset();
  counters_.resets.fetch_add(1, std::memory_order_relaxed);
  return succeed();
}

Code DrivingRuntime::run_stage(uint32_t executor_ref) noexcept {
  if (executor_ref == kResetRef) return reset();
  if (executor_ref != kInferRef)
    return fail(Code::kNotFound, "run_opaque: no stage %u; there are 4 (reset) and 37 (infer)",
                executor_ref);
  const Code code = infer();
  if (code != Code::kOk) counters_.failed_runs.fetch_add(1, std::memory_order_relaxed);
  return code;
}

Code DrivingRuntime::step() noexcept {
  (void)reset();
  return run_stage(kInferRef);
}

// ---- the driving extension ----------------------------------------------------------------------

void DrivingRuntime::forget_hidden() noexcept {
  if (staging_) staging_->forget_hidden();
  counters_.forgotten_hidden.fetch_add(1, std::memory_order_relaxed);
}

Code DrivingRuntime::frame(const outrider_driving_frame_v1* frame,
                           outrider_driving_answer_v1* answer) noexcept {
  constexpr size_t kLeastBytes = offsetof(outrider_driving_frame_v1, hidden);
  if (frame == nullptr || answer == nullptr || frame->struct_size < kLeastBytes ||
      answer->struct_size < sizeof *answer)
    return fail(Code::kInvalid, "driving frame: a struct is NULL or shorter than version 1");
  outputs_ready_ = false;
  *answer = {sizeof *answer, OUTRIDER_DRIVING_BAD_SHAPE, 0, 0, 0, nullptr};
  const size_t packed_bytes = packed_.size() * sizeof(float);
  const size_t hidden_bytes = static_cast<size_t>(spec_.feature_floats) * sizeof(float);
  const bool brings_hidden =
      staging_ && frame->struct_size >= sizeof *frame && frame->hidden != nullptr;
  if ((brings_hidden && frame->hidden_bytes != hidden_bytes) || frame->frames == nullptr ||
      frame->packed == nullptr || frame->frames_bytes != frames_.size() ||
      frame->packed_bytes != packed_bytes) {
    counters_.refused_inputs.fetch_add(1, std::memory_order_relaxed);
    return Code::kOk;
  }
  // A graph that reads more than a frame carries cannot be run by frames alone.
  for (const PortInfo& port : ports_)
    if (port.is_input && !port.staged && &port >= ports_.data() + 4 && port.name != "v_ego") {
      answer->status = OUTRIDER_DRIVING_INFER_FAILED;
      counters_.failed_runs.fetch_add(1, std::memory_order_relaxed);
      fail(Code::kInvalid, "driving frame: the graph reads %s, which no frame carries",
           port.name.c_str());
      return Code::kOk;
    }
  const int64_t start_ns = clock_.now_ns();
  if ((frame->flags & OUTRIDER_DRIVING_RESET) != 0) (void)reset();
  if (brings_hidden) staging_->take_hidden(static_cast<const std::byte*>(frame->hidden));
  std::memcpy(packed_.data(), frame->packed, packed_bytes);
  const float* desire = packed_.data();
  stage({static_cast<const std::byte*>(frame->frames), desire, desire + spec_.n_desire,
         desire + spec_.n_desire + spec_.n_traffic});
  const int64_t staged_ns = clock_.now_ns();
  const bool finite = run_graph();
  const int64_t run_ns = clock_.now_ns();
  // By frames the recurrent state goes on whatever came out, as queues do.
  next_state_ = NextState::kCopy;
  answer->status = finite ? OUTRIDER_DRIVING_OK : OUTRIDER_DRIVING_NOT_FINITE;
  answer->outputs = raw_;
  answer->stage_ns = static_cast<uint64_t>(staged_ns - start_ns);
  answer->run_ns = static_cast<uint64_t>(run_ns - staged_ns);
  answer->total_ns = static_cast<uint64_t>(clock_.now_ns() - start_ns);
  counters_.ns_stage.store(staged_ns - start_ns, std::memory_order_relaxed);
  counters_.ns_infer.store(run_ns - start_ns, std::memory_order_relaxed);
  (finite ? counters_.runs : counters_.failed_runs).fetch_add(1, std::memory_order_relaxed);
  return succeed();
}

}  // namespace outrider
