#include "host/stages.h"

#include <algorithm>
#include <utility>

namespace outrider::host {

StageOrder::StageOrder(std::vector<Stage> stages)
    : stages_(std::move(stages)), done_(stages_.size(), 0), ns_(stages_.size(), 0) {}

void StageOrder::begin_tick() noexcept {
  std::fill(done_.begin(), done_.end(), uint8_t{0});
}

int64_t StageOrder::first_missing(uint64_t stage) const noexcept {
  for (uint32_t before : stages_[stage].after)
    if (done_[before] == 0) return before;
  return -1;
}

void StageOrder::started(uint64_t stage) noexcept {
  done_[stage] = 0;
  // Dependencies point backwards, so one pass forward reaches everything downstream.
  for (uint64_t later = stage + 1; later < stages_.size(); ++later)
    if (first_missing(later) >= 0) done_[later] = 0;
}

void StageOrder::finished(uint64_t stage) noexcept {
  done_[stage] = 1;
}

}  // namespace outrider::host
