// Real-time chunking in its identity form, as arithmetic: how much each row of a new chunk is held
// to the chunk that is being carried out, and what that does to a velocity. Source:
// async-control.md 5.1, 5.2.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace outrider {

enum class RowSchedule : uint8_t { kZeros, kOnes, kLinear, kExp };

// [setup] Weights of n_rows: 1 in front of start, 0 from end on, in between as the schedule says.
// start beyond end counts as end.
std::vector<float> row_weights(RowSchedule schedule, int64_t n_rows, int64_t start, int64_t end);

// [hot] Weight of the step at time t (1: noise), capped at `most`.
double guidance_weight(double t, double most) noexcept;

// [hot] v' = v - g W (Y - x1), x1 = x - t v: in place. chunk, x, velocity [rows, columns], weights
// [rows].
void guide_velocity(std::span<const float> chunk, std::span<const float> weights,
                    std::span<const float> x, float t, double most,
                    std::span<float> velocity) noexcept;

}  // namespace outrider
