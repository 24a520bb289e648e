#include "models/flow_time.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace outrider {

std::vector<float> flow_times(int64_t n, bool exact) {
  std::vector<float> times(static_cast<size_t>(n));
  const float dt = static_cast<float>(-1.0 / static_cast<double>(n));
  float t = 1;
  for (int64_t k = 0; k < n; ++k) {
    times[static_cast<size_t>(k)] =
        exact ? static_cast<float>(1.0 - static_cast<double>(k) / static_cast<double>(n)) : t;
    t += dt;
  }
  return times;
}

void embed_time(float t, std::span<float> out) {
  constexpr double kMinPeriod = 4e-3, kMaxPeriod = 4.0;
  const size_t half = out.size() / 2;
  const double last = static_cast<double>(std::max<size_t>(half, 2) - 1);
  for (size_t j = 0; j < half; ++j) {
    const double period =
        kMinPeriod * std::pow(kMaxPeriod / kMinPeriod, static_cast<double>(j) / last);
    const double angle = 2 * std::numbers::pi * static_cast<double>(t) / period;
    out[j] = static_cast<float>(std::sin(angle));
    out[half + j] = static_cast<float>(std::cos(angle));
  }
}

}  // namespace outrider
