#include "cli/report/bench_page.h"

#include "cli/machine.h"
#include "cli/report/html.h"
#include "cli/report/svg.h"

namespace outrider::cli {
namespace {

std::string ms(const Report& value) {
  return value.is_number() ? fmt::format("{:.2f}", value.get<double>()) : "-";
}
std::string number(const Report& value, int digits) {
  return value.is_number() ? fmt::format("{:.{}f}", value.get<double>(), digits) : "-";
}

std::string stage_table(const Report& report) {
  std::vector<std::vector<Cell>> rows;
  auto add = [&](const std::string& name, const Report& p, const Report& stage) {
    auto cell = [&](const char* key, int digits) {
      return Cell{stage.is_object() && stage.contains(key) ? number(stage[key], digits) : "-",
                  true};
    };
    rows.push_back({{name, false},
                    {ms(p["p50"]), true},
                    {ms(p["p95"]), true},
                    {ms(p["p99"]), true},
                    {ms(p["max"]), true},
                    cell("gflop", 2),
                    cell("gops", 1),
                    cell("gbs", 2),
                    cell("percent_of_limit", 1)});
  };
  add("inputs", report["input_ms"], {});
  for (const Report& stage : report["stages"])
    add(stage["name"].get<std::string>(), stage["ms"], stage);
  add("output", report["output_ms"], {});
  add("total", report["total_ms"], {});
  return html_table(
      {"part", "p50 ms", "p95 ms", "p99 ms", "max ms", "GFLOP", "GFLOP/s", "GB/s", "% of limit"},
      rows);
}

std::string limits_table(const Report& limits) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& [key, value] : limits.items())
    rows.push_back(
        {{key, false}, {number(value["one"], 1), true}, {number(value["all"], 1), true}});
  return html_table({"limit", "one thread", "all threads"}, rows);
}

}  // namespace

std::string bench_page(const Report& report, const Measurement& m) {
  const Report& total = report["total_ms"];
  Page page("Outrider bench",
            fmt::format("{} ticks of {}; every tick counts inputs, stages and output.",
                        total["n"].get<size_t>(),
                        report["config"].value("model_path", std::string("the runtime"))));
  page.figures({{ms(total["p50"]), "ms", "median tick"},
                {ms(total["p95"]), "ms", "95 % of ticks"},
                {ms(total["p99"]), total["p99"].is_null() ? "" : "ms",
                 total["p99"].is_null() ? "99 % needs 100 ticks" : "99 % of ticks"},
                {ms(total["max"]), "ms", "slowest tick"},
                {ms(report["first_ms"]), "ms", "first tick"},
                {bytes_text(report["rss_bytes"].get<uint64_t>()), "", "resident memory"},
                {std::to_string(m.n_different), "", "outputs that differ", m.n_different > 0}});
  LineChart chart{"tick", "ms", {}, 0, 1, std::nullopt, "", true, 1040, 280};
  Series whole{"total", {}, series_colour(0)};
  for (const Sample& sample : m.samples) whole.values.push_back(sample.times.total_ms);
  chart.series.push_back(whole);
  for (size_t s = 0; s < m.stages.size() && m.stages.size() > 1; ++s) {
    Series series{m.stages[s], {}, series_colour(s + 1)};
    for (const Sample& sample : m.samples) series.values.push_back(sample.times.stage_ms[s]);
    chart.series.push_back(std::move(series));
  }
  page.section("Latency over time", "Milliseconds of every measured tick, in order.",
               line_chart(chart), true);
  page.section("Distribution", "How often a tick took how long.",
               histogram({"ms", whole.values, series_colour(0), 40, 500, 240}));
  page.section("Limits",
               "Measured on this machine in the same run; - where this build or CPU has none.",
               limits_table(report["limits"]));
  page.section("Stages", "Share of limit: the least time the work can take here, over the median.",
               stage_table(report), true);
  std::vector<std::pair<std::string, std::string>> facts;
  for (const auto& [key, value] : report["config"].items())
    facts.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  page.section("Configuration", "", facts_table(facts));
  page.section("Machine", "", facts_table(machine_facts(this_machine())));
  return page.html();
}

}  // namespace outrider::cli
