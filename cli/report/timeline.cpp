#include "cli/report/timeline.h"

#include <algorithm>

#include "cli/report/html.h"
#include "cli/report/svg.h"

namespace outrider::cli {
namespace {

constexpr double kWidth = 1040, kLeft = 52, kRight = 14;
constexpr double kBandTop = 26, kBandBottom = 52;   // the leader
constexpr double kPlotTop = 70, kPlotBottom = 300;  // latency
constexpr double kHeight = 334;

struct Scales {
  double seconds = 1, ms = 1;
  double x(double s) const { return kLeft + s / seconds * (kWidth - kLeft - kRight); }
  double y(double value) const {
    return kPlotBottom - std::min(value, ms) / ms * (kPlotBottom - kPlotTop);
  }
};

Scales scales_of(const DemoRun& run) {
  Scales s;
  s.seconds = static_cast<double>(std::max<size_t>(run.ticks.size(), 1)) / run.rate_hz;
  double most = 1e3 / run.rate_hz;
  for (const DemoTick& tick : run.ticks) most = std::max(most, tick.latency_ms);
  s.ms = most * 1.06;
  return s;
}

std::string axes(const Scales& s) {
  std::string out;
  for (const double ms : ticks_between(0, s.ms, 5))
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>",
        kLeft, kWidth - kRight, s.y(ms), kLeft - 8, s.y(ms) + 4, ms);
  for (const double second : ticks_between(0, s.seconds, 10))
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>",
                       s.x(second), kPlotBottom + 17, second);
  return out + fmt::format(
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">seconds</text>"
                   "<text x=\"{}\" y=\"{}\">latency, ms</text>",
                   kWidth - kRight, kPlotBottom + 32, kLeft + 6, kPlotTop + 10);
}

// One rectangle for each stretch of ticks of one leader.
std::string leader_band(const DemoRun& run, const Scales& s) {
  std::string out;
  for (size_t i = 0; i < run.ticks.size();) {
    size_t j = i;
    while (j < run.ticks.size() && run.ticks[j].leader == run.ticks[i].leader) ++j;
    const char* name = run.ticks[i].leader == 2   ? "lead"
                       : run.ticks[i].leader == 1 ? "standby"
                                                  : "nobody";
    const double from = static_cast<double>(i) / run.rate_hz,
                 to = static_cast<double>(j) / run.rate_hz;
    out += fmt::format(
        "<rect class=\"leader\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\">"
        "<title>{}, {} ticks from {:.2f} s</title></rect>",
        s.x(from), kBandTop, std::max(s.x(to) - s.x(from), 1.0), kBandBottom - kBandTop,
        run.ticks[i].leader == 0 ? "var(--bad)" : series_colour(run.ticks[i].leader == 2 ? 0 : 1),
        name, j - i, from);
    i = j;
  }
  return out;
}

std::string cuts(const DemoRun& run, const Scales& s) {
  std::string out;
  for (const DemoCut& cut : run.cuts)
    out += fmt::format(
        "<rect class=\"cut\" x=\"{0:.1f}\" y=\"20\" width=\"{1:.1f}\" height=\"{2}\" "
        "fill=\"var(--ink)\" fill-opacity=\".06\" stroke=\"var(--ink)\" stroke-dasharray=\"4 3\"/>"
        "<text x=\"{0:.1f}\" y=\"14\">cable {3}</text>",
        s.x(cut.from_s), s.x(std::min(cut.to_s, s.seconds)) - s.x(cut.from_s), kPlotBottom - 20,
        escape_html(cut.what));
  return out;
}

std::string latency(const DemoRun& run, const Scales& s) {
  std::string out =
      "<polyline class=\"latency\" fill=\"none\" stroke=\"var(--c)\" stroke-width=\"1.6\" "
      "points=\"";
  for (const DemoTick& tick : run.ticks)
    out += fmt::format("{:.1f},{:.1f} ", s.x(tick.time_s), s.y(tick.latency_ms));
  out += "\"/>";
  for (const DemoTick& tick : run.ticks)
    if (tick.held != 0)
      out += fmt::format(
          "<circle class=\"held\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.2\" fill=\"var(--bad)\">"
          "<title>held at {:.2f} s</title></circle>",
          s.x(tick.time_s), s.y(tick.latency_ms), tick.time_s);
  const double period_ms = 1e3 / run.rate_hz;
  return out +
         fmt::format(
             "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"var(--bad)\" "
             "stroke-dasharray=\"5 4\"/><text x=\"{1}\" y=\"{3:.1f}\" "
             "text-anchor=\"end\">next tick due</text>",
             kLeft, kWidth - kRight, s.y(period_ms), s.y(period_ms) - 5);
}

// A line through band and plot where the leader changed; the first entry is who led at the start.
std::string handovers(const DemoRun& run, const Scales& s) {
  std::string out;
  for (size_t i = 1; i < run.changes.size(); ++i) {
    const Report& change = run.changes[i];
    out += fmt::format(
        "<line class=\"handover\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" "
        "stroke=\"var(--ink)\" stroke-opacity=\".45\"><title>{3:.2f} s: {4} leads ({5})</title>"
        "</line>",
        s.x(change["time_s"].get<double>()), kBandTop, kPlotBottom, change["time_s"].get<double>(),
        change["leader"].get<std::string>(), escape_html(change["reason"].get<std::string>()));
  }
  return out;
}

}  // namespace

std::string timeline(const DemoRun& run) {
  const Scales s = scales_of(run);
  return fmt::format(
             "<svg id=\"timeline\" viewBox=\"0 0 {} {}\" role=\"img\" "
             "aria-label=\"leader, latency, holds and hand-overs over time\">",
             kWidth, kHeight) +
         axes(s) + leader_band(run, s) + cuts(run, s) + latency(run, s) + handovers(run, s) +
         "</svg>";
}

}  // namespace outrider::cli
