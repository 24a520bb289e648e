// How often a duration was how long, in bounded memory for any number of ticks.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace outrider::loop {

// Steps of 1/64 of the value: a percentile is told at most 1.6 % too high, never too low.
class Histogram {
 public:
  // [hot] Negative durations count as 0.
  void add(int64_t ns) noexcept {
    ns = std::max<int64_t>(ns, 0);
    ++counts_[index(static_cast<uint64_t>(ns))];
    ++n_;
    max_ns_ = std::max(max_ns_, ns);
  }
  int64_t n() const { return n_; }
  int64_t max_ns() const { return max_ns_; }
  // The smallest bound that at least this share (0 to 1) of the durations keep; 0 when there are
  // none.
  int64_t percentile_ns(double share) const {
    if (n_ == 0) return 0;
    const auto wanted = std::clamp<int64_t>(
        static_cast<int64_t>(share * static_cast<double>(n_) + 0.999999), 1, n_);
    int64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= wanted) return std::min(upper(i), max_ns_);
    }
    return max_ns_;
  }

 private:
  static constexpr int kStepBits = 6;
  static constexpr uint64_t kSteps = uint64_t{1} << kStepBits;
  static size_t index(uint64_t v) {
    if (v < kSteps) return v;
    const int shift = std::bit_width(v) - 1 - kStepBits;
    return static_cast<size_t>((static_cast<uint64_t>(shift) + 1) * kSteps + (v >> shift) - kSteps);
  }
  static int64_t upper(size_t i) {
    if (i < kSteps) return static_cast<int64_t>(i);
    const uint64_t shift = i / kSteps - 1, step = i % kSteps + kSteps;
    return static_cast<int64_t>(((step + 1) << shift) - 1);
  }
  std::array<int64_t, (64 - kStepBits) * kSteps> counts_{};
  int64_t n_ = 0, max_ns_ = 0;
};

}  // namespace outrider::loop
