// Line charts as SVG text, and the small formatting that a page of HTML needs.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pal {

struct ChartSeries {
  std::string name;                               // in the legend; empty: not there
  std::string style;                              // a CSS class of the page: its stroke
  std::vector<std::pair<double, double>> points;  // x rising; no NaN
  bool dots = false;                              // marks every point
};

struct Chart {
  std::string title, unit;  // the unit stands beside the title
  std::vector<ChartSeries> series;
  bool from_zero = false;  // the y axis begins at 0
};

// <figure> with a title, a legend where there are several series, and an SVG that scales. A chart
// without points says so.
std::string chart_html(const Chart& chart);

// An exponential moving average over about `window` points, corrected for its start.
std::vector<std::pair<double, double>> smoothed(
    const std::vector<std::pair<double, double>>& points, double window);

// Round numbers that divide [lo, hi] into about `count` parts, all within it.
std::vector<double> axis_ticks(double lo, double hi, int count);

}  // namespace pal
