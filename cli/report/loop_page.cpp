#include "cli/report/loop_page.h"

#include <algorithm>

#include "cli/loop_report.h"
#include "cli/machine.h"
#include "cli/report/html.h"
#include "cli/report/svg.h"

namespace outrider::cli {
namespace {

constexpr size_t kPoints = 1000;  // of a line: more cannot be seen

const loop::Slot* first_f32(const loop::Payload& payload) {
  for (const loop::Slot& slot : payload.slots)
    if (slot.is_f32()) return &slot;
  return nullptr;
}

// Every step-th sample; of durations the worst of each step, so that no peak is lost.
template <class Value>
std::vector<double> thinned(const std::vector<loop::Sample>& samples, size_t step, bool worst,
                            Value value) {
  std::vector<double> out;
  for (size_t i = 0; i < samples.size(); i += step) {
    double v = value(samples[i]);
    for (size_t j = i + 1; worst && j < std::min(i + step, samples.size()); ++j)
      v = std::max(v, value(samples[j]));
    out.push_back(v);
  }
  return out;
}

std::string signal_chart(const std::vector<loop::Sample>& samples, const loop::Slot& slot,
                         double hz, bool out) {
  const size_t step = samples.size() / kPoints + 1;
  LineChart chart{"s",
                  slot.name,
                  {},
                  static_cast<double>(samples.front().tick) / hz,
                  static_cast<double>(step) / hz,
                  std::nullopt,
                  "",
                  false,
                  1040,
                  260};
  const size_t n = std::min<size_t>(slot.bytes / sizeof(float), loop::Sample::kSignals);
  for (size_t k = 0; k < n; ++k)
    chart.series.push_back({fmt::format("{}[{}]", slot.name, k),
                            thinned(samples, step, false,
                                    [&](const loop::Sample& s) {
                                      return static_cast<double>(out ? s.out[k] : s.in[k]);
                                    }),
                            series_colour(k)});
  return line_chart(chart);
}

}  // namespace

std::string loop_page(const Report& r, const loop::Runner& runner, const loop::Payload& inputs,
                      const loop::Payload& outputs) {
  const double hz = r["hz"].get<double>();
  const auto text = [](const Report& value) { return fmt::format("{:.1f}", value.get<double>()); };
  Page page("Outrider loop",
            fmt::format("{} ticks at {:g} a second, input {}.", r["ticks"].get<int64_t>(), hz,
                        r["input"].get<std::string>()));
  const int64_t overruns = r["overruns"].get<int64_t>();
  page.figures({{text(r["run_us"]["p50"]), "us", "median run"},
                {text(r["run_us"]["p99"]), "us", "99 % of runs"},
                {text(r["jitter_us"]["p99"]), "us", "99 % of wake-ups"},
                {text(r["latency_us"]["max"]), "us", "latest answer"},
                {std::to_string(overruns), "", "overruns", overruns > 0},
                {std::to_string(r["safe_actions"].get<int64_t>()), "", "safe actions"}});
  const std::vector<loop::Sample> samples = runner.samples();
  if (!samples.empty()) {
    if (const loop::Slot* slot = first_f32(inputs))
      page.section("Observation", "The first values of what went in.",
                   signal_chart(samples, *slot, hz, false), true);
    if (const loop::Slot* slot = first_f32(outputs))
      page.section("Action",
                   "The first values of what was sent; the safe action where the model gave none.",
                   signal_chart(samples, *slot, hz, true), true);
    const size_t step = samples.size() / kPoints + 1;
    LineChart chart{"s",
                    "us",
                    {},
                    static_cast<double>(samples.front().tick) / hz,
                    static_cast<double>(step) / hz,
                    std::nullopt,
                    "",
                    true,
                    1040,
                    260};
    chart.series.push_back(
        {"answer after due",
         thinned(samples, step, true,
                 [](const loop::Sample& s) { return static_cast<double>(s.latency_ns) * 1e-3; }),
         series_colour(0)});
    chart.series.push_back(
        {"wake-up after due",
         thinned(samples, step, true,
                 [](const loop::Sample& s) { return static_cast<double>(s.wake_ns) * 1e-3; }),
         series_colour(1)});
    page.section("Punctuality",
                 "Microseconds after each tick was due; the worst where several share a point.",
                 line_chart(chart), true);
  }
  std::vector<std::pair<std::string, std::string>> facts;
  for (const char* key : {"deadline_us", "answered", "late", "skipped", "waiting", "stale",
                          "bad_observations", "failed", "held_actions", "observations"})
    facts.emplace_back(key, r[key].dump());
  page.section("Counters", "", facts_table(facts));
  page.section("Machine", "", facts_table(machine_facts(this_machine())));
  return page.html();
}

}  // namespace outrider::cli
