#include "cli/stats.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace outrider::cli {

Percentiles percentiles(std::span<const double> samples) {
  Percentiles p;
  p.n = samples.size();
  if (samples.empty()) return p;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  // The smallest sample that at least this share of all samples does not exceed.
  auto at = [&](size_t percent) {
    return sorted[std::max<size_t>(1, (sorted.size() * percent + 99) / 100) - 1];
  };
  p.p50 = at(50);
  p.p90 = at(90);
  p.p95 = at(95);
  if (sorted.size() >= 100) p.p99 = at(99);
  p.min = sorted.front();
  p.max = sorted.back();
  for (double sample : sorted) p.mean += sample;
  p.mean /= static_cast<double>(sorted.size());
  return p;
}

Report percentiles_report(const Percentiles& p) {
  auto value = [&](double x) { return p.n == 0 ? Report(nullptr) : Report(x); };
  return {{"n", p.n},
          {"p50", value(p.p50)},
          {"p90", value(p.p90)},
          {"p95", value(p.p95)},
          {"p99", p.p99 ? Report(*p.p99) : Report(nullptr)},
          {"max", value(p.max)},
          {"min", value(p.min)},
          {"mean", value(p.mean)}};
}

Difference difference(std::span<const float> got, std::span<const float> wanted) {
  OUTRIDER_ASSERT(got.size() == wanted.size());
  Difference d;
  double dot = 0, got2 = 0, wanted2 = 0, square = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double a = got[i], b = wanted[i], gap = std::abs(a - b);
    if (!std::isfinite(gap)) d.finite = false;
    if (!(gap <= d.max_abs)) d.max_abs = gap, d.worst_index = i;
    dot += a * b;
    got2 += a * a;
    wanted2 += b * b;
    square += gap * gap;
  }
  if (!got.empty()) d.rms = std::sqrt(square / static_cast<double>(got.size()));
  d.cosine = got2 > 0 && wanted2 > 0 ? dot / std::sqrt(got2 * wanted2) : (got2 == wanted2 ? 1 : 0);
  return d;
}

uint64_t checksum(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (std::byte b : bytes) hash = (hash ^ static_cast<uint64_t>(b)) * 0x100000001b3u;
  return hash;
}

}  // namespace outrider::cli
