#include "cli/limits.h"

#include "kernels/peak.h"

namespace outrider::cli {

Result<Limits> measure_limits(int n_threads) {
  auto measured = outrider::measure_limits(n_threads);
  if (!measured) return measured.error();
  const auto& [one, all, n] = measured.value();
  return Limits{{one.f32_gops, all.f32_gops},
                {one.bf16_gops, all.bf16_gops},
                {one.int8_gops, all.int8_gops},
                {one.read_gbs, all.read_gbs}};
}

Report limits_report(const std::optional<Limits>& limits) {
  auto pair = [&](Limits::Pair Limits::*member) -> Report {
    if (!limits) return {{"one", nullptr}, {"all", nullptr}};
    const Limits::Pair& p = (*limits).*member;
    auto value = [](double x) { return x > 0 ? Report(x) : Report(nullptr); };
    return {{"one", value(p.one)}, {"all", value(p.all)}};
  };
  return {{"f32_gops", pair(&Limits::f32_gops)},
          {"bf16_gops", pair(&Limits::bf16_gops)},
          {"int8_gops", pair(&Limits::int8_gops)},
          {"read_gbs", pair(&Limits::read_gbs)}};
}

double peak_gops(const Limits& limits, std::string_view precision) {
  if (precision == "int8") return limits.int8_gops.all;
  if (precision == "bf16")
    return limits.bf16_gops.all > 0 ? limits.bf16_gops.all : limits.f32_gops.all;
  return limits.f32_gops.all;
}

}  // namespace outrider::cli
