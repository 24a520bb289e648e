#include "models/synthetic_file.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

namespace outrider {
namespace {

// Rows drawn for one matrix: about this many values, an odd count so that repeats do not fall on
// the borders of heads or layers.
constexpr int64_t kTileValues = int64_t{1} << 20;

uint64_t mix(uint64_t z) {  // finaliser of SplitMix64
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

uint64_t stream_of(std::string_view name, uint64_t seed) {
  uint64_t h = mix(seed + 0x5851F42D4C957F2Du);
  for (const char c : name) h = mix(h + uint8_t(c) + 1);
  return h;
}

// Sum of four 16-bit uniforms, centred. Integer up to one product and one sum, so that every
// compiler gives the same bytes; each row has its own start, so rows can be asked for in any order.
void draw_row(uint64_t stream, int64_t row, Spread spread, std::span<float> values) {
  constexpr float kSumDeviation = 37837.227f;  // 65536 / sqrt(3)
  const float scale = spread.deviation / kSumDeviation;
  uint64_t state = mix(stream ^ mix(uint64_t(row) + 1));
  for (float& value : values) {
    state += 0x9E3779B97F4A7C15u;
    const uint64_t z = mix(state);
    const int32_t sum =
        int32_t((z & 0xFFFF) + ((z >> 16) & 0xFFFF) + ((z >> 32) & 0xFFFF) + (z >> 48));
    value = float(sum - 2 * 65535) * scale + spread.offset;
  }
}

}  // namespace

void SyntheticFile::tensor(const std::string& name, DType type, std::initializer_list<int64_t> ne,
                           Spread spread) {
  const int64_t n_in = *ne.begin();
  const uint64_t stream = stream_of(name, seed_);
  const auto rows = [stream, spread](int64_t row, std::span<float> values) {
    draw_row(stream, row, spread, values);
  };
  writer_.add_tensor(name, type, std::span(ne.begin(), ne.size()), rows,
                     std::max<int64_t>(kTileValues / n_in, 1) | 1);
}

void SyntheticFile::matrix(const std::string& name, DType type, int64_t n_in, int64_t n_out,
                           float gain) {
  tensor(name, type, {n_in, n_out}, {gain / std::sqrt(float(n_in))});
}

}  // namespace outrider
