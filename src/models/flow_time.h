// Times of the Euler steps and their embedding. Source: pi-policy.md 8, 9; gguf-models.md B.8.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace outrider {

// n values of t, from 1 towards 0. exact: float(1 - k/n); otherwise accumulated in float32 with
// dt = float(-1/n), as the reference does.
std::vector<float> flow_times(int64_t n, bool exact);

// out: [width] = width/2 sines then width/2 cosines of 2 pi t / period(j), periods 0.004 to 4 in
// geometric progression, computed in double. width even, >= 2.
void embed_time(float t, std::span<float> out);

}  // namespace outrider
