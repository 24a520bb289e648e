// Random numbers that are the same on every machine.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "base/fnv.h"

namespace outrider {

// Bijective finaliser of SplitMix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom
// number generators", 2014, figure 17 with the constants of variant 13.
constexpr uint64_t splitmix64_mix(uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// A stream of which value i can be computed alone, in any order, by any thread: for synthetic
// models, one stream per tensor name. bits(i) is the i-th output of SplitMix64 seeded with the key.
class UniformStream {
 public:
  constexpr explicit UniformStream(uint64_t key) noexcept : key_(key) {}
  constexpr UniformStream(uint64_t seed, std::string_view name) noexcept
      : key_(splitmix64_mix(seed ^ fnv1a64(name))) {}

  constexpr uint64_t bits(uint64_t i) const noexcept {
    return splitmix64_mix(key_ + (i + 1) * 0x9e3779b97f4a7c15);
  }
  // [0, 1), a multiple of 2^-24: exact in float.
  constexpr float unit(uint64_t i) const noexcept {
    return static_cast<float>(bits(i) >> 40) * 0x1p-24f;
  }
  // [-1, 1), a multiple of 2^-23.
  constexpr float symmetric(uint64_t i) const noexcept { return 2.0f * unit(i) - 1.0f; }

 private:
  uint64_t key_;
};

inline constexpr uint64_t kDefaultNoiseSeed = 41;

// [hot] Starting noise of the flow-matching policies: standard normal values, the same ones for the
// same seed on every call (about 20 ns a value; the state lives on the stack).
//   out   any length; a longer fill begins with the values of a shorter one
// Source: gguf-models.md B.8: 64-bit Mersenne twister, polar method in float32. Bit for bit what
// std::normal_distribution<float> of libstdc++ draws from std::mt19937_64, as far as the libm's
// logf is the one of glibc.
void fill_normal_noise(std::span<float> out, uint64_t seed = kDefaultNoiseSeed) noexcept;

}  // namespace outrider
