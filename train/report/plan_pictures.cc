// Drawing live bytes and the arena. Both have the same axis of time, so that they line up.
#include "train/report/plan_pictures.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "core/text.h"
#include "memory/storages/storages.h"
#include "train/config/wording.h"
#include "train/report/html_page.h"
#include "train/report/report_chart.h"

namespace pal {
namespace {

// The drawing's own units; the page scales it.
constexpr double kWidth = 1120, kLeft = 66, kRight = 10, kTop = 16, kPlot = 300, kArena = 420,
                 kPhaseBand = 12;
constexpr size_t kMostColumns = 700, kRectangles = 24'000;

// From the bottom of the stack: what lives longest first.
constexpr std::array kStack = {Role::weight,          Role::optimizer_state, Role::input,
                               Role::weight_gradient, Role::feature_map,     Role::statistic,
                               Role::encoded,         Role::host_copy,       Role::gradient_map,
                               Role::workspace};
static_assert(kStack.size() == kRoles);

struct Frame {
  double moments, bytes, height;

  double x(double moment) const {
    return kLeft + moment / std::max(1.0, moments) * (kWidth - kLeft - kRight);
  }
  double y(double b) const { return kTop + height - b / std::max(1.0, bytes) * height; }
};

std::string text_at(double x, double y, const std::string& anchor, const std::string& text,
                    const std::string& style = "") {
  std::vector<Attribute> attributes{{"x", x}, {"y", y}, {"text-anchor", anchor}};
  if (!style.empty()) attributes.emplace_back("class", style);
  return element("text", attributes, escape_html(text));
}

std::string line_at(const char* style, double x1, double y1, double x2, double y2) {
  return element("line", {{"class", style}, {"x1", x1}, {"x2", x2}, {"y1", y1}, {"y2", y2}});
}

std::string rectangle(double x, double y, double width, double height, const std::string& fill,
                      const std::string& title) {
  return element("rect", {{"x", x}, {"y", y}, {"width", width}, {"height", height}, {"fill", fill}},
                 element("title", {}, escape_html(title)));
}

std::string byte_axis(const Frame& f) {
  std::string out;
  for (double v : axis_ticks(0, f.bytes, 5)) {
    out += line_at("rule", kLeft, f.y(v), kWidth - kRight, f.y(v)) +
           text_at(kLeft - 8, f.y(v) + 4, "end", v == 0 ? "0" : format_bytes(int64_t(v)));
  }
  return out;
}

std::string node_axis(const Frame& f, double y) {
  std::string out;
  const double last = f.moments / 2;
  for (double v : axis_ticks(0, last, 8)) {
    // The last number would run into the axis' name.
    if (v <= 0.93 * last) out += text_at(f.x(2 * v), y, "middle", short_number(v, 6));
  }
  return out + text_at(kWidth - kRight, y, "end", "node");
}

const char* fill_of(Phase phase) {
  static constexpr const char* fills[] = {"#7aa7ff", "#f2a65a", "#58c4a4", "#c79bf2",
                                          "#e58fb1", "#e58fb1", "#8fd0dd", "#8fd0dd"};
  return fills[size_t(phase)];
}

// Stretches of the step by phase, as a band; named where there is room.
std::string phase_band(const Program& program, const Frame& f, double y) {
  const size_t nodes = program.nodes.size(), columns = std::min(kMostColumns, nodes);
  std::string out;
  auto phase_of = [&](size_t column) {  // the phase that most of its nodes are in
    std::array<int, kPhases> count{};
    for (size_t n = column * nodes / columns; n < (column + 1) * nodes / columns; ++n) {
      ++count[size_t(program.nodes[n].phase)];
    }
    return size_t(std::max_element(count.begin(), count.end()) - count.begin());
  };
  for (size_t begin = 0, end; begin < columns; begin = end) {
    const size_t phase = phase_of(begin);
    for (end = begin + 1; end < columns && phase_of(end) == phase;) ++end;
    const double from = f.x(2.0 * double(begin * nodes / columns)),
                 to = f.x(2.0 * double(end * nodes / columns));
    const char* name = to_string(Phase(phase));
    out += rectangle(from, y, to - from, kPhaseBand, fill_of(Phase(phase)), name);
    if (to - from > 80) out += text_at((from + to) / 2, y + kPhaseBand + 13, "middle", name);
  }
  return out;
}

std::string svg(double height, const std::string& label, const std::string& body) {
  const std::string box = "0 0 " + svg_number(kWidth) + " " + svg_number(height);
  return element("svg", {{"viewBox", box}, {"role", "img"}, {"aria-label", label}}, body);
}

// Marks the peak; its name keeps to the side where there is room.
std::string peak_mark(const Frame& f, const Peak& peak) {
  const double x = f.x(double(peak.moment)), y = f.y(double(peak.bytes));
  const bool left = x > kWidth / 2;
  return line_at("peak", x, y - 6, x, kTop + f.height) +
         text_at(left ? x - 6 : x + 6, y - 5, left ? "end" : "start",
                 "peak " + format_bytes(peak.bytes) + " at node " + std::to_string(peak.moment / 2),
                 "mark");
}

std::string title_of(const PlanView& view, const Held& held) {
  const Storage& storage = view.c.storages[held.storage];
  return (held.value == kNone ? name_of(view.c.program, view.c.storages, held.storage)
                              : name_of(view.c.program, held.value)) +
         ", " + format_bytes(footprint(storage)) + ", " +
         words(to_string(role_of(view.c.program, held))) + ", nodes " +
         std::to_string(held.begin / 2) + " to " + std::to_string((held.end - 1) / 2);
}

}  // namespace

PlanView::PlanView(const Compiled& compiled)
    : c(compiled),
      lifetimes(lifetimes_of(c.program, c.storages)),
      held(held_values(c.program, c.storages, lifetimes)),
      footprint(footprint_of(c.program, c.storages, c.plan)) {}

std::string live_picture(const PlanView& view) {
  const Timeline time = timeline_of(view.c.program, view.c.storages, view.held, kMostColumns);
  const Frame f{double(time.moments), 1.06 * double(view.footprint.peak.bytes), kPlot};
  std::string out = byte_axis(f);
  std::vector<int64_t> floor(time.columns.size(), 0);
  const double count = double(time.columns.size());
  auto edge = [&](size_t column) { return f.x(double(time.moments) * double(column) / count); };
  for (Role role : kStack) {
    std::string up, down;
    bool any = false;
    for (size_t i = 0; i < time.columns.size(); ++i) {
      const int64_t below = floor[i];
      floor[i] += time.columns[i].by_role[size_t(role)];
      any |= floor[i] != below;
      const std::string from = svg_number(edge(i)), to = svg_number(edge(i + 1));
      const std::string top = svg_number(f.y(double(floor[i]))),
                        low = svg_number(f.y(double(below)));
      up += from + "," + top + " " + to + "," + top + " ";
      down = to + "," + low + " " + from + "," + low + " " + down;
    }
    if (!any) continue;
    out += element("polygon", {{"fill", colour(size_t(role))}, {"points", up + down}},
                   element("title", {}, words(to_string(role))));
  }
  const double band = kTop + kPlot + 3;
  out += peak_mark(f, view.footprint.peak) + phase_band(view.c.program, f, band) +
         node_axis(f, band + kPhaseBand + 28);
  return svg(band + kPhaseBand + 36, "Live bytes over the step", out);
}

std::string arena_picture(const PlanView& view) {
  const Frame f{2.0 * double(view.c.program.nodes.size()), double(view.c.plan.device().bytes),
                kArena};
  std::vector<Held> held;
  for (const Held& h : view.held) {
    if (view.c.storages[h.storage].space == Space::device) held.push_back(h);
  }
  const size_t all = held.size();
  auto area = [&](const Held& h) {
    return double(footprint(view.c.storages[h.storage])) * double(h.end - h.begin);
  };
  if (all > kRectangles) {
    std::nth_element(held.begin(), held.begin() + kRectangles, held.end(),
                     [&](const Held& a, const Held& b) { return area(a) > area(b); });
    held.resize(kRectangles);
  }
  std::string out = byte_axis(f) + "<g class=\"arena\">";
  for (const Held& h : held) {
    const double from = f.x(double(h.begin)), to = f.x(double(h.end));
    const double low = double(view.c.plan.offset[size_t(h.storage)]);
    const double top = f.y(low + double(footprint(view.c.storages[h.storage])));
    out += rectangle(from, top, std::max(0.1, to - from), std::max(0.1, f.y(low) - top),
                     colour(size_t(role_of(view.c.program, h))), title_of(view, h));
  }
  out += "</g>" + node_axis(f, kTop + kArena + 18);
  std::string caption = "<p class=\"soft\">" + std::to_string(all) + " values";
  if (held.size() < all) {
    caption += ", of which the " + std::to_string(held.size()) + " largest are drawn";
  }
  return svg(kTop + kArena + 26, "The arena: time to the right, addresses upwards", out) + caption +
         ". Hover for a value's name. White is free.</p>";
}

namespace {

constexpr double kLane = 20, kLaneGap = 6, kQueuePlot = 180;

// Bytes over time, as a line: at each node of the compute queue what is alive while it runs.
std::string bytes_line(const PlanView& view, const Frame& f, Space space, const char* style) {
  const std::vector<int64_t> live =
      live_bytes(view.c.program, view.c.storages, view.lifetimes, space);
  std::string points;
  double last = -1;
  for (NodeId n : view.c.program.nodes.ids()) {
    if (view.c.program.node(n).queue != kComputeQueue) continue;
    const double end = f.x(view.c.timeline.end_ms[n]);
    const double begin = f.x(view.c.timeline.end_ms[n] - view.c.timeline.node_ms[n]);
    if (end - last < 0.3) continue;  // a third of the drawing's unit shows nothing
    last = end;
    const std::string y = svg_number(f.y(double(live[size_t(start_of(n))])));
    points += svg_number(begin) + "," + y + " " + svg_number(end) + "," + y + " ";
  }
  return element(
      "polyline", {{"points", points}, {"fill", "none"}, {"stroke", style}, {"stroke-width", 1.6}},
      element("title", {}, space == Space::device ? "on the device" : "in the host's memory"));
}

// What a queue does, one rectangle for neighbours of a phase without a pause between them.
std::string lane(const PlanView& view, const Frame& f, QueueId queue, double y) {
  std::string out;
  double begin = -1, end = -1;
  Phase phase{};
  const auto close = [&] {
    if (begin >= 0) {
      out += rectangle(f.x(begin), y, std::max(0.2, f.x(end) - f.x(begin)), kLane, fill_of(phase),
                       to_string(phase));
    }
  };
  for (NodeId n : view.c.program.nodes.ids()) {
    const Node& node = view.c.program.node(n);
    const double ms = view.c.timeline.node_ms[n], done = view.c.timeline.end_ms[n];
    if (node.queue != queue || ms <= 0) continue;
    const bool goes_on = begin >= 0 && node.phase == phase && f.x(done - ms) - f.x(end) < 0.4;
    if (!goes_on) close(), begin = done - ms, phase = node.phase;
    end = done;
  }
  close();
  return out;
}

}  // namespace

std::string queues_picture(const PlanView& view) {
  if (!view.c.traffic || !view.c.traffic->any()) return "";
  const Compiled& c = view.c;
  const double most = 1.06 * double(std::max(view.footprint.peak.bytes, c.plan.host().bytes));
  const Frame f{c.timeline.step_ms, most, kQueuePlot};
  std::string out = byte_axis(f) + bytes_line(view, f, Space::device, "#7aa7ff") +
                    bytes_line(view, f, Space::host, "#d9822b");
  double y = kTop + kQueuePlot + 8;
  const char* names[] = {"compute", "out", "back"};
  for (QueueId queue = 0; queue < 3; ++queue, y += kLane + kLaneGap) {
    out += text_at(kLeft - 8, y + kLane - 6, "end", names[queue]) + lane(view, f, queue, y);
  }
  for (double v : axis_ticks(0, f.moments, 8)) {
    if (v <= 0.93 * f.moments) out += text_at(f.x(v), y + 12, "middle", short_number(v, 6));
  }
  out += text_at(kWidth - kRight, y + 12, "end", "ms, predicted");
  return svg(y + 20, "Bytes and queues over the predicted time", out) +
         "<p class=\"soft\">The blue line: bytes on the device; the orange one: in the host's "
         "memory. " +
         escape_html(format_bytes(c.traffic->moved_bytes)) + " are moved; compute waits " +
         short_number(c.traffic->stall_ms, 3) + " of " + short_number(c.timeline.step_ms, 3) +
         " ms.</p>";
}

std::string role_legend(const PlanView& view) {
  std::set<Role> there;
  for (const Held& h : view.held) there.insert(role_of(view.c.program, h));
  std::string out = "<div class=\"legend\">";
  for (Role role : kStack) {
    if (!there.contains(role)) continue;
    out += "<span><span class=\"swatch\" style=\"background:" + colour(size_t(role)) +
           "\"></span>" + words(to_string(role)) + "</span>";
  }
  return out + "</div>";
}

}  // namespace pal
