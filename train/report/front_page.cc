// Drawing the front; sorting maps by what becomes of them.
#include "train/report/front_page.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "core/text.h"
#include "memory/front/maps.h"
#include "train/config/wording.h"
#include "train/report/html_page.h"
#include "train/report/plan_pictures.h"
#include "train/report/report_chart.h"

namespace pal {
namespace {

// The drawing's own units; the page scales it.
constexpr double kFrontWidth = 1120, kFrontHeight = 420, kFrontLeft = 70, kFrontRight = 24,
                 kFrontTop = 30, kFrontBottom = 44;

struct FrontFrame {
  double most_bytes = 1, least_ms = 0, most_ms = 1;

  double x(double bytes) const {
    return kFrontLeft + bytes / most_bytes * (kFrontWidth - kFrontLeft - kFrontRight);
  }
  double y(double ms) const {
    return kFrontHeight - kFrontBottom -
           (ms - least_ms) / (most_ms - least_ms) * (kFrontHeight - kFrontTop - kFrontBottom);
  }
};

std::string front_text(double x, double y, const char* anchor, const std::string& text,
                       const char* style = nullptr) {
  std::vector<Attribute> attributes{{"x", x}, {"y", y}, {"text-anchor", anchor}};
  if (style) attributes.emplace_back("class", style);
  return element("text", attributes, escape_html(text));
}

std::string dot(const FrontFrame& f, double bytes, double ms, const char* style, const char* radius,
                const std::string& title) {
  return element("circle", {{"class", style}, {"cx", f.x(bytes)}, {"cy", f.y(ms)}, {"r", radius}},
                 element("title", {}, escape_html(title)));
}

std::string overhead_words(double part) { return printed("%+.1f %%", 100 * part); }

// Beyond this, techniques alone would press the front together.
double tallest(const Front& front) {
  double most = front.plain_ms;
  for (const FrontPoint& p : front.points) most = std::max(most, p.step_ms);
  double out = most;
  for (const FrontAlone& a : front.alone) {
    if (a.step_ms <= 1.5 * most) out = std::max(out, a.step_ms);
  }
  return out;
}

std::string axes(const FrontFrame& f, double plain_ms) {
  const double right = kFrontWidth - kFrontRight, base = kFrontHeight - kFrontBottom;
  std::string out;
  const double lo = f.least_ms / plain_ms - 1, hi = f.most_ms / plain_ms - 1;
  for (double v : axis_ticks(lo, hi, 6)) {
    const double y = f.y((1 + v) * plain_ms);
    out += element("line",
                   {{"class", "rule"}, {"x1", kFrontLeft}, {"x2", right}, {"y1", y}, {"y2", y}}) +
           front_text(kFrontLeft - 8, y + 4, "end", printed("%+.4g %%", 100 * v));
  }
  for (double v : axis_ticks(0, f.most_bytes, 9)) {
    out += front_text(f.x(v), base + 18, "middle", v == 0 ? "0" : format_bytes(int64_t(v)));
  }
  return out + front_text(right, base + 36, "end", "bytes of the step, all included") +
         front_text(kFrontLeft - 60, kFrontTop - 12, "start",
                    "predicted time, against the step as it was recorded");
}

std::string upright(const FrontFrame& f, double bytes, const std::string& name) {
  const double x = f.x(bytes);
  const bool left = x > kFrontWidth / 2;
  return element("line", {{"class", "peak"},
                          {"x1", x},
                          {"x2", x},
                          {"y1", kFrontTop},
                          {"y2", kFrontHeight - kFrontBottom}}) +
         front_text(left ? x - 6 : x + 6, kFrontTop + 8, left ? "end" : "start", name, "mark");
}

// In the order of MapIs.
constexpr const char* kChoices[] = {"kept", "made again", "encoded", "copied to the host"};
using ByChoice = std::array<int64_t, std::size(kChoices)>;

// By kind of layer.
std::map<std::string, ByChoice> maps_by_choice(const Compiled& step) {
  std::map<std::string, ByChoice> kinds;
  each_map(step, [&](ValueId v, MapIs is, int64_t bytes) {
    const std::string& scope = step.program.scopes[size_t(step.program.value(v).scope)];
    kinds[kind_of_layers(scope)][size_t(is)] += bytes;
  });
  return kinds;
}

}  // namespace

std::string kind_of_layers(const std::string& scope) {
  std::string out;
  int parts = 0;
  for (const char ch : scope) {
    if (ch == '/' && ++parts == 2) break;
    if (ch < '0' || ch > '9') out += ch;
  }
  return out.empty() ? "the step" : out;
}

std::string front_picture(const Front& front, const FrontPoint* chosen, int64_t budget) {
  FrontFrame f;
  double least = front.plain_ms;
  for (const FrontPoint& p : front.points) {
    f.most_bytes = std::max(f.most_bytes, double(p.bytes)), least = std::min(least, p.step_ms);
  }
  const double most = tallest(front), pad = std::max(0.06 * (most - least), 0.01 * most);
  f.least_ms = least - pad, f.most_ms = most + pad;
  // A budget that every plan fits is beside the point.
  const bool shown = budget > 0 && double(budget) <= 1.25 * f.most_bytes;
  f.most_bytes = std::max(f.most_bytes, shown ? double(budget) : 0.0) * 1.06;

  std::string body = axes(f, front.plain_ms);
  body += upright(f, double(front.floor.bytes), "floor " + format_bytes(front.floor.bytes));
  if (shown) body += upright(f, double(budget), "budget " + format_bytes(budget));
  for (const FrontAlone& a : front.alone) {
    if (a.step_ms > f.most_ms) continue;
    body += dot(f, double(a.bytes), a.step_ms, "four", "3.2",
                a.from + " alone: at least " + format_bytes(a.bytes) + ", " +
                    overhead_words(a.step_ms / front.plain_ms - 1));
  }
  // What a budget gets: a plan's time lasts until the next plan fits.
  std::string steps;
  for (size_t i = 0; i < front.points.size(); ++i) {
    const FrontPoint& p = front.points[i];
    const double next =
        i + 1 < front.points.size() ? double(front.points[i + 1].bytes) : f.most_bytes;
    steps += svg_number(f.x(double(p.bytes))) + "," + svg_number(f.y(p.step_ms)) + " " +
             svg_number(f.x(next)) + "," + svg_number(f.y(p.step_ms)) + " ";
  }
  body += element("polyline", {{"class", "one"}, {"points", steps}});
  for (const FrontPoint& p : front.points) {
    body += dot(f, double(p.bytes), p.step_ms, "one", "3.4",
                p.from + (p.recording.empty() ? "" : "; " + p.recording) + ": " +
                    format_bytes(p.bytes) + ", " + overhead_words(front.overhead(p)));
  }
  if (chosen) {
    const double x = f.x(double(chosen->bytes)), y = f.y(chosen->step_ms);
    body += dot(f, double(chosen->bytes), chosen->step_ms, "two", "6.5", "the plan of this step");
    const bool left = x > kFrontWidth * 0.62;
    body += front_text(left ? x - 12 : x + 12, y - 10, left ? "end" : "start",
                       chosen->from + ", " + format_bytes(chosen->bytes) + ", " +
                           overhead_words(front.overhead(*chosen)),
                       "mark");
  }
  const std::string box = "0 0 " + svg_number(kFrontWidth) + " " + svg_number(kFrontHeight);
  return element("svg",
                 {{"viewBox", box}, {"role", "img"}, {"aria-label", "fastest plans by bytes"}},
                 body) +
         "<p class=\"legend\"><span class=\"key\"><i class=\"one\"></i>the fastest plan known "
         "within so many bytes</span><span class=\"key\"><i class=\"four\"></i>techniques alone, "
         "by their bytes alive</span><span class=\"key\"><i class=\"two\"></i>this step's "
         "plan</span></p>";
}

std::string choices_table(const Compiled& step) {
  const auto kinds = maps_by_choice(step);
  if (kinds.empty()) return "";
  std::vector<std::pair<std::string, ByChoice>> rows(kinds.begin(), kinds.end());
  const auto sum = [](const ByChoice& by) { return by[0] + by[1] + by[2] + by[3]; };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return sum(a.second) > sum(b.second); });
  constexpr size_t kMostKinds = 14;
  if (rows.size() > kMostKinds) {
    std::pair<std::string, ByChoice> rest{"all the rest", {}};
    for (size_t i = kMostKinds - 1; i < rows.size(); ++i) {
      for (size_t c = 0; c < rest.second.size(); ++c) rest.second[c] += rows[i].second[c];
    }
    rows.resize(kMostKinds - 1);
    rows.push_back(std::move(rest));
  }
  int64_t most = 1;
  for (const auto& [kind, by] : rows) most = std::max(most, sum(by));
  std::string out = "<table><tr><th>layers</th>";
  for (size_t c = 0; c < std::size(kChoices); ++c) {
    out += "<th><span class=\"swatch\" style=\"background:" + colour(c) + "\"></span>" +
           kChoices[c] + "</th>";
  }
  out += "<th></th></tr>";
  for (const auto& [kind, by] : rows) {
    out += "<tr><td class=\"name\">" + escape_html(kind) + "</td>";
    for (const int64_t bytes : by) {
      out += "<td>" + (bytes > 0 ? format_bytes(bytes) : std::string("&ndash;")) + "</td>";
    }
    out += "<td class=\"track\"><div style=\"display:flex\">";
    for (size_t c = 0; c < by.size(); ++c) {
      if (by[c] == 0) continue;
      out += "<div style=\"margin:0;width:" + fixed(100 * double(by[c]) / double(most), 2) +
             "%;background:" + colour(c) + "\"></div>";
    }
    out += "</div></td></tr>";
  }
  return out + "</table>";
}

std::string front_html(const Compiled& step, const PlanFacts& facts) {
  if (!facts.front) return "";
  const Front& front = *facts.front;
  std::string out =
      "\n<section class=\"pictures\"><h2>The fastest plans by bytes</h2><div "
      "class=\"card\">" +
      front_picture(front, facts.chosen, facts.capacity.value_or(0)) + "</div>";
  if (const std::string table = choices_table(step); !table.empty()) {
    out +=
        "\n<h2>Feature maps that gradients read, by what becomes of them</h2><div "
        "class=\"card\">" +
        table + "</div>";
  }
  if (step.traffic && step.traffic->any()) {
    const Traffic& t = *step.traffic;
    const double ms = step.time ? step.time->step_ms : 0;
    out += "\n<h2>The link to the host</h2><div class=\"card\"><p class=\"soft\">" +
           std::to_string(t.offloads) + " copies out and " + std::to_string(t.reloads) + " back, " +
           format_bytes(t.moved_bytes) + " in all, at most " + format_bytes(t.host_bytes) +
           " there at once; predicted: busy " + fixed(t.copy_ms, 1) + " ms" +
           (ms > 0 ? " of a step of " + fixed(ms, 1) + " ms" : "") + ", which waits " +
           fixed(t.stall_ms, 1) + " ms for it</p></div>";
  }
  return out + "</section>\n";
}

}  // namespace pal
