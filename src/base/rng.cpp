#include "base/rng.h"

#include <cmath>
#include <random>

namespace outrider {
namespace {

// [0, 1): one draw, rounded to float before the division; the rounding may give 1.
float unit(std::mt19937_64& twister) noexcept {
  const float u = static_cast<float>(twister()) * 0x1p-64f;
  return u < 1.0f ? u : 0x1.fffffep-1f;
}

}  // namespace

void fill_normal_noise(std::span<float> out, uint64_t seed) noexcept {
  std::mt19937_64 twister(seed);  // the standard fixes its outputs, unlike the distributions'
  for (size_t i = 0; i < out.size(); i += 2) {
    float a, b, r2;
    do {  // each round succeeds with probability pi/4
      a = 2.0f * unit(twister) - 1.0f;
      b = 2.0f * unit(twister) - 1.0f;
      r2 = a * a + b * b;
    } while (r2 > 1.0f || r2 == 0.0f);
    const float m = std::sqrt(-2.0f * std::log(r2) / r2);
    out[i] = b * m;
    if (i + 1 < out.size()) out[i + 1] = a * m;
  }
}

}  // namespace outrider
