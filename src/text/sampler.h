// From logits to the next id: top_k, then top_p, then temperature, then one draw.
// Source: gguf-models.md C.3; vectors in tests/text/sampler_test.cpp.
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "base/result.h"

namespace outrider {

struct SamplerOptions {
  float temperature = 0;  // <= 0: the largest logit, lowest id on a tie; nothing else counts then
  int32_t top_k = 0;      // <= 0: all
  float top_p = 0;        // <= 0 or >= 1: all
  uint32_t seed = 0;      // 0: one from the system, told by seed()
};

// Bit i % 64 of word i / 64 set: id i may be chosen. Empty: every id may.
using TokenMask = std::span<const uint64_t>;

class Sampler {
 public:
  // [setup] Takes all memory for logits of up to n_vocab values. Errors: kInvalid naming the option
  // (not finite, n_vocab 0).
  static Result<Sampler> make(const SamplerOptions& options, size_t n_vocab);

  // [hot] One id; no heap. One random number for each draw, none when a single candidate is left.
  // Errors: kShape (more logits than n_vocab, none, mask too short), kFailed (a NaN or +infinity
  // among the allowed logits, or none allowed that is above -infinity).
  struct Sampled {
    Code code = Code::kOk;
    int32_t id = -1;
  };
  Sampled sample(std::span<const float> logits, TokenMask allowed = {}) noexcept;

  // [hot] Back to the first random number of the seed. With seed 0 in the options: on to a new
  // seed, which seed() tells.
  void reset() noexcept;
  uint32_t seed() const { return seed_; }

 private:
  struct Candidate {
    float logit;
    int32_t id;
  };
  Sampler() = default;
  bool collect(std::span<const float> logits, TokenMask allowed) noexcept;
  void keep_top_k() noexcept;
  void keep_top_p() noexcept;
  int32_t draw() noexcept;
  double uniform() noexcept;

  SamplerOptions options_;
  uint32_t seed_ = 0;
  std::mt19937 random_;
  std::vector<Candidate> candidates_;
  std::vector<float> weights_;
  size_t n_ = 0;         // candidates left
  bool sorted_ = false;  // descending
};

}  // namespace outrider
