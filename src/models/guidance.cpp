#include "models/guidance.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace outrider {

std::vector<float> row_weights(RowSchedule schedule, int64_t n_rows, int64_t start, int64_t end) {
  std::vector<float> out(static_cast<size_t>(n_rows), 0.0f);
  start = std::min(start, end);
  for (int64_t i = 0; i < std::min(end, n_rows); ++i) {
    double w = 1;
    if (i >= start) {
      w = std::clamp(static_cast<double>(end - i) / static_cast<double>(end - start + 1), 0.0, 1.0);
      if (schedule == RowSchedule::kZeros) w = 0;
      if (schedule == RowSchedule::kOnes) w = 1;
    }
    if (schedule == RowSchedule::kExp) w = w * std::expm1(w) / std::expm1(1.0);
    out[static_cast<size_t>(i)] = static_cast<float>(w);
  }
  return out;
}

double guidance_weight(double t, double most) noexcept {
  const double tau = 1 - t;  // 0 at the noise
  if (!(tau > 0)) return most;
  if (!(t > 0)) return 0;
  return std::min(most, t / tau * (tau * tau + t * t) / (t * t));
}

void guide_velocity(std::span<const float> chunk, std::span<const float> weights,
                    std::span<const float> x, float t, double most,
                    std::span<float> velocity) noexcept {
  OUTRIDER_ASSERT(chunk.size() == x.size() && velocity.size() == x.size() && !weights.empty());
  const size_t columns = x.size() / weights.size();
  const auto g = static_cast<float>(guidance_weight(static_cast<double>(t), most));
  for (size_t r = 0; r < weights.size(); ++r) {
    const float w = g * weights[r];
    for (size_t i = r * columns; i < (r + 1) * columns; ++i)
      velocity[i] -= w * (chunk[i] - (x[i] - t * velocity[i]));
  }
}

}  // namespace outrider
