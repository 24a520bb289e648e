#include "cli/report/svg.h"

#include <algorithm>
#include <cmath>

#include "cli/report/html.h"

namespace outrider::cli {
namespace {

// The plotted rectangle and its two scales.
struct Frame {
  double left = 52, top = 12, right = 0, bottom = 0, x0 = 0, x1 = 1, y0 = 0, y1 = 1;
  Frame(int width, int height) : right(width - 14), bottom(height - 40) {}
  double x(double value) const { return left + (value - x0) / (x1 - x0) * (right - left); }
  double y(double value) const { return bottom - (value - y0) / (y1 - y0) * (bottom - top); }
};

std::string short_number(double value) {
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size >= 1e5 || size < 1e-3) return fmt::format("{:.1e}", value);
  if (size >= 100) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

void axes(std::string& out, const Frame& f, const std::string& x_label,
          const std::string& y_label) {
  for (double tick : ticks_between(f.y0, f.y1, 5))
    out += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
        f.left, f.right, f.y(tick), f.y(tick), f.left - 8, f.y(tick) + 4, short_number(tick));
  for (double tick : ticks_between(f.x0, f.x1, 8))
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                       f.x(tick), f.bottom + 17, short_number(tick));
  out +=
      fmt::format("<line class=\"axis\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                  f.left, f.right, f.bottom, f.bottom);
  out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", f.right,
                     f.bottom + 34, escape_html(x_label));
  if (!y_label.empty())
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", f.left + 6, f.top + 6,
                       escape_html(y_label));
}

std::string open_svg(int width, int height, const std::string& label) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", width, height,
                     escape_html(label));
}

}  // namespace

const char* series_colour(size_t index) {
  static constexpr const char* kColours[] = {"var(--a)", "var(--b)", "var(--c)", "var(--d)",
                                             "var(--e)", "var(--f)", "var(--g)"};
  return kColours[index % std::size(kColours)];
}

std::vector<double> ticks_between(double low, double high, int n) {
  std::vector<double> ticks;
  if (!(high > low) || n < 1 || !std::isfinite(high - low)) return ticks;
  const double rough = (high - low) / n, power = std::pow(10, std::floor(std::log10(rough)));
  const double part = rough / power;
  const double step = power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
  for (double tick = std::ceil(low / step - 1e-9) * step;
       tick <= high + step * 1e-9 && ticks.size() < 64; tick += step)
    ticks.push_back(std::abs(tick) < step * 1e-9 ? 0 : tick);
  return ticks;
}

std::string line_chart(const LineChart& chart) {
  Frame f(chart.width, chart.height);
  size_t n = 0;
  double low = chart.y_from_zero ? 0 : 1e300, high = chart.limit.value_or(-1e300);
  for (const Series& series : chart.series) {
    n = std::max(n, series.values.size());
    for (double value : series.values) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (n == 0 || high < low) return "<p>No samples.</p>";
  const double room = (high - low) * 0.06 + 1e-9;
  f.x0 = chart.x_first;
  f.x1 = chart.x_first + chart.x_step * static_cast<double>(std::max<size_t>(n, 2) - 1);
  f.y0 = chart.y_from_zero ? low : low - room;
  f.y1 = high + room;
  std::string out = open_svg(chart.width, chart.height, chart.y_label + " over " + chart.x_label);
  axes(out, f, chart.x_label, chart.y_label);
  for (const Series& series : chart.series) {
    out += fmt::format(
        "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" stroke-linejoin=\"round\" "
        "points=\"",
        series.colour);
    for (size_t i = 0; i < series.values.size(); ++i)
      if (std::isfinite(series.values[i]))
        out += fmt::format("{:.1f},{:.1f} ",
                           f.x(chart.x_first + chart.x_step * static_cast<double>(i)),
                           f.y(series.values[i]));
    out += fmt::format("\"><title>{}</title></polyline>", escape_html(series.name));
  }
  if (chart.limit)
    out += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"var(--bad)\" "
        "stroke-dasharray=\"5 4\"/><text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
        f.left, f.right, f.y(*chart.limit), f.y(*chart.limit), f.right, f.y(*chart.limit) - 5,
        escape_html(chart.limit_label));
  out += "</svg>";
  if (chart.series.size() > 1) {
    out += "<div class=\"legend\">";
    for (const Series& series : chart.series)
      out += fmt::format("<span><i style=\"background:{}\"></i>{}</span>", series.colour,
                         escape_html(series.name));
    out += "</div>";
  }
  return out;
}

std::string histogram(const Histogram& h) {
  if (h.samples.empty()) return "<p>No samples.</p>";
  const auto [least, most] = std::ranges::minmax(h.samples);
  const double low = least,
               high = most > least ? most : least + std::max(1e-6, std::abs(least) * 0.01);
  std::vector<size_t> counts(static_cast<size_t>(h.n_bins), 0);
  for (double sample : h.samples) {
    const auto bin = static_cast<size_t>((sample - low) / (high - low) * h.n_bins);
    ++counts[std::min(bin, counts.size() - 1)];
  }
  Frame f(h.width, h.height);
  f.x0 = low, f.x1 = high;
  f.y1 = static_cast<double>(std::ranges::max(counts)) * 1.06;
  std::string out = open_svg(h.width, h.height, "histogram of " + h.x_label);
  axes(out, f, h.x_label, "ticks");
  const double bar = (f.right - f.left) / h.n_bins;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const double y = f.y(static_cast<double>(counts[i])),
                 from = low + (high - low) * static_cast<double>(i) / h.n_bins;
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"1.5\" fill=\"{}\">"
        "<title>{} from {:.4g}: {}</title></rect>",
        f.left + bar * static_cast<double>(i) + 0.5, y, std::max(0.5, bar - 1), f.bottom - y,
        h.colour, escape_html(h.x_label), from, counts[i]);
  }
  return out + "</svg>";
}

std::string bar_chart(const std::vector<Bar>& bars, int width) {
  double most = 1e-12;
  for (const Bar& bar : bars) most = std::max(most, bar.value);
  const int row = 30, height = static_cast<int>(bars.size()) * row + 6;
  std::string out = open_svg(width, height, "shares");
  for (size_t i = 0; i < bars.size(); ++i) {
    const double y = static_cast<double>(i) * row + 4,
                 length = std::max(1.0, bars[i].value / most * (width - 270.0));
    out += fmt::format(
        "<text x=\"0\" y=\"{:.0f}\">{}</text><rect x=\"110\" y=\"{:.0f}\" width=\"{:.1f}\" "
        "height=\"16\" rx=\"3\" "
        "fill=\"{}\"/><text x=\"{:.1f}\" y=\"{:.0f}\">{}</text>",
        y + 13, escape_html(bars[i].name), y, length, bars[i].colour, 118 + length, y + 13,
        escape_html(bars[i].text));
  }
  return out + "</svg>";
}

}  // namespace outrider::cli
