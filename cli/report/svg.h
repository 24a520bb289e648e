// Charts as inline SVG; colours are the page's CSS variables, so they follow light and dark.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace outrider::cli {

struct Series {
  std::string name;
  std::vector<double> values;
  const char* colour;  // "var(--a)"
};

struct LineChart {
  std::string x_label, y_label;
  std::vector<Series> series;      // equal lengths
  double x_first = 0, x_step = 1;  // x of value i
  std::optional<double> limit;     // a dashed line
  std::string limit_label;
  bool y_from_zero = true;
  int width = 1040, height = 280;
};
std::string line_chart(const LineChart& chart);  // with its legend when there are several series

struct Histogram {
  std::string x_label;
  std::span<const double> samples;
  const char* colour = "var(--a)";
  int n_bins = 40, width = 500, height = 240;
};
std::string histogram(const Histogram& histogram);

// Horizontal bars with a value each: share of something, 0 .. 1 of the longest.
struct Bar {
  std::string name, text;
  double value = 0;
  const char* colour = "var(--a)";
};
std::string bar_chart(const std::vector<Bar>& bars, int width = 500);

// Round numbers that divide [low, high] in about n parts.
std::vector<double> ticks_between(double low, double high, int n);
const char* series_colour(size_t index);

}  // namespace outrider::cli
