#include "onnx/plan.h"

namespace outrider::onnx {

Result<std::unique_ptr<Run>> Run::make(std::shared_ptr<const Plan> plan, Ops& ops) {
  std::unique_ptr<Run> run(new Run);
  OUTRIDER_TRY(ops.reserve(plan->limits_));
  OUTRIDER_TRY(run->arena_.reserve(std::max<size_t>(plan->arena_bytes_, 64)));
  run->base_ =
      static_cast<std::byte*>(run->arena_.take_bytes(std::max<size_t>(plan->arena_bytes_, 64)));
  run->arena_.seal();
  for (const Step& step : plan->steps_) {
    for (const auto* list : {&step.in, &step.out}) {
      for (const int value : *list) {
        if (value < 0) {
          run->addresses_.push_back(nullptr);
          continue;
        }
        const Plan::Place& place = plan->places_[static_cast<size_t>(value)];
        // Kernels never write their inputs.
        run->addresses_.push_back(place.constant != nullptr ? const_cast<std::byte*>(place.constant)
                                                            : run->base_ + place.offset);
      }
    }
  }
  run->ops_ = &ops;
  run->plan_ = std::move(plan);
  return run;
}

std::span<std::byte> Run::input(size_t i) {
  const auto value = static_cast<size_t>(plan_->input_values_[i]);
  return {base_ + plan_->places_[value].offset, plan_->inputs_[i].type.n_bytes()};
}

std::span<const std::byte> Run::output(size_t i) const {
  const auto value = static_cast<size_t>(plan_->output_values_[i]);
  return {base_ + plan_->places_[value].offset, plan_->outputs_[i].type.n_bytes()};
}

void Run::run() noexcept {
  std::byte* const* at = addresses_.data();
  for (const Step& step : plan_->steps_) {
    std::byte* const* out = at + step.in.size();
    step.kernel->run({at, out, base_ + step.scratch_offset, ops_});
    at = out + step.out.size();
  }
}

}  // namespace outrider::onnx
