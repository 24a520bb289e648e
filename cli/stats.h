// Percentiles that do not flatter: nearest rank, and none that the sample count cannot carry.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cli/output.h"

namespace outrider::cli {

struct Percentiles {
  size_t n = 0;
  double p50 = 0, p90 = 0, p95 = 0, max = 0, min = 0, mean = 0;  // 0 when n is 0
  std::optional<double> p99;                                     // only from 100 samples on
};

// samples in any order and unit.
Percentiles percentiles(std::span<const double> samples);
// {"n":..,"p50":..,"p90":..,"p95":..,"p99":..|null,"max":..,"mean":..}; all null when n is 0.
Report percentiles_report(const Percentiles& p);

// Maximum absolute difference and cosine of two equal-length rows, sums in double.
struct Difference {
  double max_abs = 0, rms = 0, cosine = 1;
  size_t worst_index = 0;
  bool finite = true;
};
Difference difference(std::span<const float> got, std::span<const float> wanted);

// FNV-1a over bytes: tells equal outputs from different ones, nothing more.
uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace outrider::cli
