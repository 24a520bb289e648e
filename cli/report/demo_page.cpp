#include "cli/report/demo_page.h"

#include <algorithm>
#include <cmath>

#include "cli/machine.h"
#include "cli/report/html.h"
#include "cli/report/png.h"
#include "cli/report/svg.h"
#include "cli/report/timeline.h"

namespace outrider::cli {
namespace {

constexpr double kMetresPerUnit = 0.035;  // how far one unit of a random action is drawn

std::string number(const Report& value) {
  return value.is_number() ? fmt::format("{:.2f}", value.get<double>()) : "-";
}

// The chunk as a path from the gripper: its first three values are read as steps in x, y, z.
std::string path_over(const Snapshot& snapshot, const Scene& scene, Camera camera,
                      int64_t action_dim) {
  const auto dim = static_cast<size_t>(action_dim);
  std::string line, dots;
  double x = 0, y = 0, z = 0;
  const PixelPoint start = scene.gripper_pixel(camera, snapshot.time_s);
  line = fmt::format("{:.1f},{:.1f} ", start.x, start.y);
  const size_t n_steps = dim >= 3 ? snapshot.actions.size() / dim : 0;
  for (size_t step = 0; step < n_steps; ++step) {
    const float* action = snapshot.actions.data() + step * dim;
    x += std::clamp<double>(action[0], -2, 2) * kMetresPerUnit;
    y += std::clamp<double>(action[1], -2, 2) * kMetresPerUnit;
    z += std::clamp<double>(action[2], -2, 2) * kMetresPerUnit * 0.5;
    const PixelPoint at = scene.gripper_pixel(camera, snapshot.time_s, x, y, z);
    line += fmt::format("{:.1f},{:.1f} ", at.x, at.y);
    dots += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"#ffd84d\" stroke=\"#1b2330\" "
        "stroke-width=\".7\">"
        "<title>step {}</title></circle>",
        at.x, at.y, 2.9 - 1.6 * static_cast<double>(step) / static_cast<double>(n_steps), step);
  }
  return fmt::format(
      "<polyline points=\"{0}\" fill=\"none\" stroke=\"#1b2330\" stroke-width=\"3.4\" "
      "stroke-linejoin=\"round\" opacity=\".55\"/>"
      "<polyline points=\"{0}\" fill=\"none\" stroke=\"#ffd84d\" stroke-width=\"1.8\" "
      "stroke-linejoin=\"round\"/>{1}",
      line, dots);
}

Result<std::string> view_figure(const Snapshot& snapshot, size_t view, const Scene& scene,
                                int64_t action_dim) {
  const Image& image = snapshot.images[view];
  auto uri = png_uri(image);
  if (!uri) return uri.error();
  const Camera camera = view == 0 ? Camera::kFront : Camera::kWrist;
  return fmt::format(
      "<figure><svg viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"{3}\"><image href=\"{2}\" "
      "width=\"{0}\" height=\"{1}\"/>{4}</svg>"
      "<figcaption>{3}</figcaption></figure>",
      image.width, image.height, uri.value(), view == 0 ? "camera 0: front" : "camera 1: wrist",
      path_over(snapshot, scene, camera, action_dim));
}

std::string chunk_chart(const Snapshot& snapshot, int64_t action_dim) {
  LineChart chart{
      "step of the chunk", "normalised value", {}, 0, 1, std::nullopt, "", false, 1040, 230};
  const auto dim = static_cast<size_t>(std::max<int64_t>(action_dim, 1));
  for (size_t d = 0; d < std::min<size_t>(dim, 7); ++d) {
    Series series{fmt::format("action[{}]", d), {}, series_colour(d)};
    for (size_t at = d; at < snapshot.actions.size(); at += dim)
      series.values.push_back(snapshot.actions[at]);
    chart.series.push_back(std::move(series));
  }
  return line_chart(chart);
}

// All snapshots, one shown at a time; a slider chooses.
Result<std::string> snapshots_html(const DemoRun& run, const Scene& scene) {
  std::string out = fmt::format(
      "<input type=\"range\" id=\"when\" min=\"0\" max=\"{}\" value=\"0\" aria-label=\"moment\">",
      run.snapshots.empty() ? 0 : run.snapshots.size() - 1);
  for (size_t i = 0; i < run.snapshots.size(); ++i) {
    const Snapshot& snapshot = run.snapshots[i];
    out += fmt::format("<div class=\"frame{}\"><div class=\"views\">", i == 0 ? " on" : "");
    for (size_t view = 0; view < snapshot.images.size(); ++view) {
      auto figure = view_figure(snapshot, view, scene, run.action_dim);
      if (!figure) return figure.error();
      out += figure.value();
    }
    out += fmt::format("</div><p class=\"legend\">t = {:.1f} s</p>{}</div>", snapshot.time_s,
                       chunk_chart(snapshot, run.action_dim));
  }
  return out;
}

std::string stage_table(const Report& report) {
  std::vector<std::vector<Cell>> rows;
  auto add = [&](const std::string& name, const Report& p) {
    rows.push_back({{name, false},
                    {number(p["p50"]), true},
                    {number(p["p95"]), true},
                    {number(p["p99"]), true},
                    {number(p["max"]), true}});
  };
  for (const Report& stage : report["stages"]) add(stage["name"].get<std::string>(), stage["ms"]);
  add("latency", report["latency_ms"]);
  return html_table({"part", "p50 ms", "p95 ms", "p99 ms", "max ms"}, rows);
}

std::string changes_table(const DemoRun& run) {
  std::vector<std::vector<Cell>> rows;
  for (const Report& change : run.changes)
    rows.push_back({{fmt::format("{:.2f}", change["time_s"].get<double>()), true},
                    {change["leader"].get<std::string>(), false},
                    {change["reason"].get<std::string>(), false}});
  return html_table({"second", "leader", "why"}, rows);
}

constexpr std::string_view kScript = R"js(
(function(){var s=document.getElementById('when');if(!s)return;var f=document.querySelectorAll('.frame');
s.addEventListener('input',function(){for(var i=0;i<f.length;i++)f[i].classList.toggle('on',i==s.value);});})();
)js";

}  // namespace

Result<std::string> demo_page(const DemoRun& run, const Report& report, const Scene& scene) {
  const Report& latency = report["latency_ms"];
  Page page(
      "Outrider demo",
      fmt::format("{} ticks at {:g} Hz. A tiny PI0.5 on this machine stands in for another one "
                  "in a process of its own, behind a cable that is cut. {} "
                  "The weights are random: "
                  "the timing is real, the path of the arm means nothing.",
                  run.ticks.size(), run.rate_hz,
                  run.n_missed == 0 ? "No tick was missed."
                                    : fmt::format("{} ticks were missed.", run.n_missed)));
  page.figures({{number(latency["p50"]), "ms", "median latency"},
                {number(latency["p95"]), "ms", "95 % of ticks"},
                {number(latency["p99"]), latency["p99"].is_null() ? "" : "ms",
                 latency["p99"].is_null() ? "99 % needs 100 ticks" : "99 % of ticks"},
                {number(latency["max"]), "ms", "slowest tick"},
                {std::to_string(run.n_missed), "", fmt::format("missed of {}", run.ticks.size()),
                 run.n_missed > 0},
                {std::to_string(report["handovers"].get<size_t>()), "", "changes of leader"},
                {number(report["first_ms"]), "ms", "first tick"},
                {fmt::format("{:.0f}", report["open_ms"].get<double>()), "ms", "to open"}});
  page.section(
      "One time line",
      fmt::format("Band: who led; {}. Below: from the moment a tick was due to the action chunk in "
                  "hand; a tick has {:.0f} ms. Red dots: the previous chunk once more. Upright "
                  "lines: hand-overs. Dashed: what was done to the cable.",
                  run.host.empty() ? "blue the lead behind the cable, orange the standby here"
                                   : "there was no host, so the standby answered every tick",
                  1e3 / run.rate_hz),
      timeline(run), true);
  page.section("Changes of leader", "The lead comes back when it has shown that it is in time.",
               changes_table(run));
  auto snapshots = snapshots_html(run, scene);
  if (!snapshots) return snapshots.error();
  page.section("What the policy saw and answered",
               "Pictures as they were handed over; the action chunk drawn from the gripper, its "
               "first three values read as "
               "steps. Below, the first values of the chunk. The slider chooses the moment.",
               snapshots.value(), true);
  std::vector<double> values;
  for (const DemoTick& tick : run.ticks) values.push_back(tick.latency_ms);
  page.section("Distribution", "How often a tick took how long.",
               histogram({"ms", values, series_colour(0), 40, 500, 240}));
  page.section(
      "Stages",
      "Wake-up is how late the system let the loop run; infer is the wait for the lead, or "
      "the standby's whole run.",
      stage_table(report));
  page.section("Machine", "", facts_table(machine_facts(this_machine())), true);
  page.script(kScript);
  return page.html();
}

}  // namespace outrider::cli
