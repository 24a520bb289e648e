#include "text/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/assert.h"

namespace outrider {
namespace {

bool allows(TokenMask mask, size_t id) noexcept {
  return mask.empty() || (mask[id / 64] >> (id % 64) & 1) != 0;
}

uint32_t system_seed() {
  try {
    std::random_device entropy;
    return entropy() | 1;  // never 0, which means "none"
  } catch (const std::exception&) {
    return 0x9E3779B9u;  // no source of entropy: still random enough to be reported and repeated
  }
}

// Another one, for the next session of an unseeded sampler.
uint32_t next_seed(uint32_t seed) noexcept {
  uint64_t x = uint64_t{seed} * 0x9E3779B97F4A7C15u + 0xD1B54A32D192ED03u;
  x ^= x >> 32;
  return static_cast<uint32_t>(x) | 1;
}

}  // namespace

Result<Sampler> Sampler::make(const SamplerOptions& options, size_t n_vocab) {
  if (!std::isfinite(options.temperature))
    return make_error(Code::kInvalid, "temperature: not a finite number; 0 is greedy");
  if (!std::isfinite(options.top_p))
    return make_error(Code::kInvalid, "top_p: not a finite number; 0 and 1 keep everything");
  if (n_vocab == 0 || n_vocab > INT32_MAX)
    return make_error(Code::kInvalid, "sampler: a vocabulary of %zu, wanted 1 .. %d", n_vocab,
                      INT32_MAX);
  try {
    Sampler sampler;
    sampler.options_ = options;
    sampler.candidates_.resize(n_vocab);
    sampler.weights_.resize(n_vocab);
    sampler.seed_ = options.seed != 0 ? options.seed : system_seed();
    sampler.random_.seed(sampler.seed_);
    return sampler;
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "sampler: no memory for %zu candidates", n_vocab);
  }
}

void Sampler::reset() noexcept {
  if (options_.seed == 0) seed_ = next_seed(seed_);
  random_.seed(seed_);
}

Sampler::Sampled Sampler::sample(std::span<const float> logits, TokenMask allowed) noexcept {
  if (logits.empty() || logits.size() > candidates_.size() ||
      (!allowed.empty() && allowed.size() < (logits.size() + 63) / 64))
    return {Code::kShape, -1};
  if (!collect(logits, allowed)) return {Code::kFailed, -1};
  if (options_.temperature <= 0) {
    const auto first = candidates_.begin();
    const auto best =
        std::max_element(first, first + static_cast<ptrdiff_t>(n_),
                         [](const Candidate& a, const Candidate& b) { return a.logit < b.logit; });
    return {Code::kOk, best->id};  // max_element: the first of equals
  }
  if (options_.top_k > 0) keep_top_k();
  if (options_.top_p > 0 && options_.top_p < 1) keep_top_p();
  return {Code::kOk, draw()};
}

// False: a NaN, +infinity, or nothing to choose from.
bool Sampler::collect(std::span<const float> logits, TokenMask allowed) noexcept {
  n_ = 0;
  sorted_ = false;
  float largest = -std::numeric_limits<float>::infinity();
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!allows(allowed, id)) continue;
    if (std::isnan(logits[id])) return false;
    largest = std::max(largest, logits[id]);
    candidates_[n_++] = {logits[id], static_cast<int32_t>(id)};
  }
  return n_ > 0 && std::isfinite(largest);
}

namespace {

// Larger first; equal logits by id.
constexpr auto kBefore = [](const auto& a, const auto& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
};

}  // namespace

void Sampler::keep_top_k() noexcept {
  const auto first = candidates_.begin();
  const auto k = std::min(static_cast<ptrdiff_t>(options_.top_k), static_cast<ptrdiff_t>(n_));
  std::partial_sort(first, first + k, first + static_cast<ptrdiff_t>(n_), kBefore);
  n_ = static_cast<size_t>(k);
  sorted_ = true;
}

// The shortest descending prefix whose probabilities reach top_p. Not more is sorted than is kept.
void Sampler::keep_top_p() noexcept {
  const auto first = candidates_.begin();
  const auto end = first + static_cast<ptrdiff_t>(n_);
  const auto after = [](const Candidate& a, const Candidate& b) { return kBefore(b, a); };
  const float largest = std::max_element(first, end, [](const Candidate& a, const Candidate& b) {
                          return a.logit < b.logit;
                        })->logit;
  double sum = 0;
  for (size_t i = 0; i < n_; ++i) sum += std::exp(candidates_[i].logit - largest);
  const double wanted = static_cast<double>(options_.top_p) * sum;
  double reached = 0;
  size_t n_kept = 0;
  if (sorted_) {
    while (n_kept < n_ && (n_kept == 0 || reached < wanted))
      reached += std::exp(candidates_[n_kept++].logit - largest);
    n_ = n_kept;
    return;
  }
  // A heap whose top is the largest; what is taken gathers behind its end, ascending.
  std::make_heap(first, end, after);
  while (n_kept < n_ && (n_kept == 0 || reached < wanted)) {
    std::pop_heap(first, end - static_cast<ptrdiff_t>(n_kept), after);
    ++n_kept;
    reached += std::exp(candidates_[n_ - n_kept].logit - largest);
  }
  std::reverse(first, end);
  n_ = n_kept;
  sorted_ = true;
}

int32_t Sampler::draw() noexcept {
  size_t best = 0;
  for (size_t i = 1; i < n_; ++i)
    if (candidates_[i].logit > candidates_[best].logit) best = i;
  const float largest = candidates_[best].logit / options_.temperature;
  // One candidate, or a temperature so low that nothing else has a chance that f32 can tell.
  if (n_ == 1 || !std::isfinite(largest)) return candidates_[best].id;
  double sum = 0;
  for (size_t i = 0; i < n_; ++i) {
    weights_[i] = std::exp(candidates_[i].logit / options_.temperature - largest);
    sum += weights_[i];
  }
  const double aim = sum * uniform();
  double running = 0;
  for (size_t i = 0; i < n_; ++i) {
    running += weights_[i];
    if (weights_[i] > 0 && running >= aim) return candidates_[i].id;
  }
  return candidates_[best].id;
}

// [0, 1) from two words, the low one first.
double Sampler::uniform() noexcept {
  const double low = random_(), high = random_();
  const double value = (low + high * 4294967296.0) / 18446744073709551616.0;
  return value < 1 ? value : std::nextafter(1.0, 0.0);
}

}  // namespace outrider
