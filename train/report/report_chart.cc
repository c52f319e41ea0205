// Drawing line charts.
#include "train/report/report_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "train/config/wording.h"
#include "train/report/html_page.h"

namespace pal {
namespace {

using Points = std::vector<std::pair<double, double>>;

// The drawing's own units; the page scales it.
constexpr double kChartWidth = 560, kChartHeight = 250, kChartLeft = 52, kChartRight = 14,
                 kChartTop = 12, kChartBottom = 30;

// From the data's units to the drawing's.
struct Axis {
  double lo, hi, from, to;
  double operator()(double v) const { return from + (v - lo) / (hi - lo) * (to - from); }
};

void widen(double& lo, double& hi) {
  if (hi > lo) return;
  const double half = lo == 0 ? 1 : std::abs(lo) * 0.5;
  lo -= half, hi += half;
}

std::string grid(const Axis& x, const Axis& y) {
  const double right = kChartWidth - kChartRight;
  std::string out;
  for (double v : axis_ticks(y.lo, y.hi, 5)) {
    out += element("line", {{"x1", kChartLeft}, {"x2", right}, {"y1", y(v)}, {"y2", y(v)}}) +
           element("text", {{"x", kChartLeft - 8}, {"y", y(v) + 4}, {"text-anchor", "end"}},
                   short_number(v));
  }
  for (double v : axis_ticks(x.lo, x.hi, 6)) {
    out += element("text", {{"x", x(v)}, {"y", kChartHeight - 10}, {"text-anchor", "middle"}},
                   short_number(v));
  }
  return element("g", {{"class", "grid"}}, out);
}

std::string line(const ChartSeries& series, const Axis& x, const Axis& y) {
  std::string points;
  for (auto [px, py] : series.points) points += svg_number(x(px)) + "," + svg_number(y(py)) + " ";
  std::string out = element("polyline", {{"class", series.style}, {"points", points}});
  if (!series.dots && series.points.size() > 1) return out;  // no line shows a single point
  for (auto [px, py] : series.points) {
    const std::string title = "step " + short_number(px, 9) + ": " + short_number(py, 5);
    out += element("circle", {{"class", series.style}, {"cx", x(px)}, {"cy", y(py)}, {"r", "3"}},
                   element("title", {}, title));
  }
  return out;
}

}  // namespace

Points smoothed(const Points& points, double window) {
  const double keep = 1 - 1 / std::max(1.0, window);
  Points out;
  double sum = 0, weight = 0;
  for (auto [x, y] : points) {
    sum = keep * sum + y, weight = keep * weight + 1;
    out.emplace_back(x, sum / weight);
  }
  return out;
}

std::vector<double> axis_ticks(double lo, double hi, int count) {
  const double rough = (hi - lo) / std::max(1, count);
  if (!(rough > 0) || !std::isfinite(rough)) return {lo};
  const double decade = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * decade;
  for (double m : {1.0, 2.0, 5.0}) {
    if (m * decade >= rough * 0.999) {
      step = m * decade;
      break;
    }
  }
  std::vector<double> ticks;
  // Counted, as one more than a number beyond 2^53 is that number.
  const double first = std::ceil(lo / step - 1e-9);
  for (int i = 0; i <= count + 1 && (first + i) * step <= hi + 1e-9 * step; ++i) {
    const double k = first + i;
    ticks.push_back(k == 0 ? 0 : k * step);
  }
  return ticks;
}

std::string chart_html(const Chart& chart) {
  std::string head = "<figure class=\"card\"><figcaption><b>" + escape_html(chart.title) + "</b> " +
                     "<span class=\"unit\">" + escape_html(chart.unit) + "</span>";
  double x_lo = INFINITY, x_hi = -INFINITY, y_lo = INFINITY, y_hi = -INFINITY;
  for (const ChartSeries& s : chart.series) {
    for (auto [x, y] : s.points) {
      x_lo = std::min(x_lo, x), x_hi = std::max(x_hi, x);
      y_lo = std::min(y_lo, y), y_hi = std::max(y_hi, y);
    }
    if (!s.name.empty() && !s.points.empty()) {
      head +=
          "<span class=\"key\"><i class=\"" + s.style + "\"></i>" + escape_html(s.name) + "</span>";
    }
  }
  head += "</figcaption>";
  if (!(x_lo <= x_hi)) return head + "<p class=\"empty\">nothing measured yet</p></figure>";
  if (chart.from_zero) y_lo = std::min(0.0, y_lo), y_hi = y_hi == 0 ? 1 : y_hi * 1.08;
  x_lo = std::min(0.0, x_lo);  // steps: the charts of a page share their origin
  widen(x_lo, x_hi);
  widen(y_lo, y_hi);
  if (!chart.from_zero) {
    const double pad = 0.06 * (y_hi - y_lo);
    y_lo -= pad, y_hi += pad;
  }
  const Axis x{x_lo, x_hi, kChartLeft, kChartWidth - kChartRight},
      y{y_lo, y_hi, kChartHeight - kChartBottom, kChartTop};
  std::string out = head + "<svg viewBox=\"0 0 " + svg_number(kChartWidth) + " " +
                    svg_number(kChartHeight) + "\" role=\"img\" aria-label=\"" +
                    escape_html(chart.title) + " by step\">" + grid(x, y);
  for (const ChartSeries& s : chart.series) out += line(s, x, y);
  return out + "</svg></figure>";
}

}  // namespace pal
