// Drawing a circle of time, unrolled: the jobs' steps, their bytes in the pool, and its addresses.
#include "train/report/corun_page.h"

#include <algorithm>

#include "core/text.h"
#include "data/atomic_file.h"
#include "train/config/wording.h"
#include "train/report/html_page.h"
#include "train/report/report_chart.h"

namespace pal {
namespace {

// The drawing's own units; the page scales it.
constexpr double kPageWidth = 1120, kLeftEnd = 66, kRightEnd = 1110, kHead = 16, kRow = 26,
                 kMap = 420;
constexpr size_t kMostRectangles = 24'000;

struct Rectangle {
  double from, to;  // parts of the period
  int64_t low, bytes;
  size_t job, step;
};

double x_of(double part) { return kLeftEnd + part * (kRightEnd - kLeftEnd); }

std::string box(double x, double y, double width, double height, size_t job,
                const std::string& title) {
  return element("rect",
                 {{"x", x},
                  {"y", y},
                  {"width", std::max(0.1, width)},
                  {"height", std::max(0.1, height)},
                  {"fill", colour(job)}},
                 element("title", {}, escape_html(title)));
}

std::string words_at(double x, double y, const std::string& anchor, const std::string& text) {
  return element("text", {{"x", x}, {"y", y}, {"text-anchor", anchor}}, escape_html(text));
}

std::string picture(double height, const std::string& label, const std::string& body) {
  return "<svg viewBox=\"0 0 " + svg_number(kPageWidth) + " " + svg_number(height) +
         "\" role=\"img\" aria-label=\"" + label + "\">" + body + "</svg>";
}

// [from, to) on a circle of `period`, as one or two parts of it: draw(from, to).
template <class Draw> void on_circle(int64_t from, int64_t to, int64_t period, Draw draw) {
  const int64_t begin = from % period, end = begin + std::min(to - from, period);
  const auto part = [&](int64_t t) { return double(t) / double(period); };
  draw(part(begin), part(std::min(end, period)));
  if (end > period) draw(0, part(end - period));
}

std::string time_axis(const CorunPage& page, double y) {
  const double ms = double(page.circle.period) * 1e-6;
  std::string out;
  for (const double v : axis_ticks(0, ms, 8)) {
    if (v <= 0.93 * ms) out += words_at(x_of(v / ms), y, "middle", short_number(v, 6));
  }
  return out + words_at(kRightEnd, y, "end", "ms");
}

std::string timelines(const CorunPage& page) {
  std::string out;
  for (size_t j = 0; j < page.circle.jobs.size(); ++j) {
    const JobOnCircle& job = page.circle.jobs[j];
    const double y = kHead + double(j) * (kRow + 6);
    out += words_at(kLeftEnd - 8, y + kRow / 2 + 4, "end", "job " + std::to_string(j + 1));
    for (int i = 0; i < job.steps; ++i) {
      on_circle(job.time(i, 0), job.time(i, job.shape->moments()), page.circle.period,
                [&](double from, double to) {
                  out += box(x_of(from), y, x_of(to) - x_of(from) - 1, kRow, j,
                             page.names[j] + ", step " + std::to_string(i + 1) + " of " +
                                 std::to_string(job.steps));
                });
    }
  }
  const double end = kHead + double(page.circle.jobs.size()) * (kRow + 6);
  return picture(end + 26, "The jobs' steps over time", out + time_axis(page, end + 14));
}

std::vector<Rectangle> rectangles_of(const CorunPage& page) {
  std::vector<Rectangle> out;
  for (size_t j = 0; j < page.circle.jobs.size(); ++j) {
    const JobOnCircle& job = page.circle.jobs[j];
    for (size_t b = 0; b < page.offset[j].size(); ++b) {
      const SharableBuffer& buffer = job.shape->buffers[b];
      for (int i = 0; i < job.steps; ++i) {
        on_circle(job.time(i, buffer.life.begin), job.time(i, buffer.life.end), page.circle.period,
                  [&](double from, double to) {
                    out.push_back({from, to, page.offset[j][b], buffer.bytes, j, size_t(i)});
                  });
      }
    }
  }
  return out;
}

std::string address_map(const CorunPage& page) {
  std::vector<Rectangle> all = rectangles_of(page);
  const size_t count = all.size();
  const auto area = [](const Rectangle& r) { return double(r.bytes) * (r.to - r.from); };
  if (count > kMostRectangles) {
    std::nth_element(all.begin(), all.begin() + kMostRectangles, all.end(),
                     [&](const Rectangle& a, const Rectangle& b) { return area(a) > area(b); });
    all.resize(kMostRectangles);
  }
  const auto most = double(std::max<int64_t>(page.pool_bytes, 1));
  const auto y_of = [&](int64_t bytes) { return kHead + kMap - double(bytes) / most * kMap; };
  std::string out;
  for (const double v : axis_ticks(0, most, 5)) {
    out += element("line", {{"class", "rule"},
                            {"x1", kLeftEnd},
                            {"x2", kRightEnd},
                            {"y1", y_of(int64_t(v))},
                            {"y2", y_of(int64_t(v))}}) +
           words_at(kLeftEnd - 8, y_of(int64_t(v)) + 4, "end",
                    v == 0 ? "0" : format_bytes(int64_t(v)));
  }
  out += "<g class=\"arena\">";
  for (const Rectangle& r : all) {
    const double top = y_of(r.low + r.bytes);
    out += box(x_of(r.from), top, x_of(r.to) - x_of(r.from), y_of(r.low) - top, r.job,
               page.names[r.job] + ", step " + std::to_string(r.step + 1) + ": " +
                   format_bytes(r.bytes) + " at " + format_bytes(r.low));
  }
  std::string caption = "<p class=\"soft\">" + std::to_string(count) + " storages";
  if (all.size() < count) {
    caption += ", of which the " + std::to_string(all.size()) + " largest are drawn";
  }
  return picture(kHead + kMap + 26, "The pool: time to the right, addresses upwards",
                 out + "</g>" + time_axis(page, kHead + kMap + 18)) +
         caption + ". What goes on at the right edge begins again at the left. White is free.</p>";
}

}  // namespace

std::string corun_html(const CorunPage& page) {
  std::string out = page_header(page.title, "planned");
  out += "<section class=\"tiles\">";
  for (const auto& [value, label] : page.tiles) out += tile(value, label);
  out += "</section>\n<section class=\"pictures\"><h2>Steps</h2><div class=\"card\">" +
         timelines(page) + "</div>\n<h2>The pool</h2><div class=\"card\">" + address_map(page) +
         "</div></section>\n<h2>In words</h2><div class=\"card\">" + preformatted(page.lines) +
         "</div>\n<footer>Written by Palimpsest: bytes are planned, times and rates are predicted; "
         "nothing is measured.</footer>";
  return html_page(page.title + ", together", out);
}

void save_corun_page(const std::filesystem::path& file, const CorunPage& page) {
  const std::string text = corun_html(page);
  AtomicFile out(file.string());
  out.write(text.data(), text.size());
  out.commit();
}

}  // namespace pal
