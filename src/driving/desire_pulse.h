// What the driving stack wishes for (a lane change, a turn) as the policy wants to hear it: once,
// at the moment it begins.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace outrider::driving {

// pulse_i = d_i where d_i - previous_i > 0.99, else 0; element 0 counts as 0; then previous = d.
class DesirePulse {
 public:
  // [setup]
  explicit DesirePulse(int64_t n_desire) : previous_(static_cast<size_t>(n_desire), 0.0f) {}
  // [hot] Both of n_desire values; they may be the same array.
  void step(std::span<const float> desire, std::span<float> pulse) noexcept {
    for (size_t i = 0; i < previous_.size(); ++i) {
      const float now = i == 0 ? 0.0f : desire[i];
      pulse[i] = now - previous_[i] > 0.99f ? now : 0.0f;
      previous_[i] = now;
    }
  }
  // [hot] In place.
  void reset() noexcept {
    for (float& value : previous_) value = 0;
  }

 private:
  std::vector<float> previous_;
};

}  // namespace outrider::driving
