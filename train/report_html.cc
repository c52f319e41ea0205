// Composing the page: what the rows of metrics.jsonl say, in tiles and charts; the footprint, the
// plan, samples, the configuration.
#include "train/report_html.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/atomic_file.h"
#include "memory/report.h"
#include "train/report_chart.h"

namespace pal {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr size_t kPoints = 400;  // of a curve; a screen shows no more

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#1b2330;--soft:#5d6878;
--line:#e3e7ed;--one:#2563eb;--two:#e07b00;--three:#0f9d76;--four:#8b46d8;--code:#f1f3f6}
@media (prefers-color-scheme:dark){:root{--page:#10141b;--card:#181e28;--text:#e6eaf1;
--soft:#98a3b5;--line:#2b3442;--one:#6ea0ff;--two:#ffad42;--three:#43cfa4;--four:#bf90ff;
--code:#11161e}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,-apple-system,
"Segoe UI",Roboto,"Noto Sans",sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1180px;margin:0 auto;padding:32px 24px 56px}
header{display:flex;align-items:baseline;gap:14px;flex-wrap:wrap}
h1{font-size:27px;margin:0;letter-spacing:-.01em}
h2{font-size:17px;margin:36px 0 12px}
.state{font-size:13px;padding:2px 11px;border-radius:99px;background:var(--one);color:var(--card)}
.soft{color:var(--soft);margin:6px 0 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;
margin:22px 0 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 16px;
margin:0}
.tile b{display:block;font-size:23px;font-weight:650;letter-spacing:-.01em}
.tile span{color:var(--soft);font-size:13px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:14px}
figcaption{display:flex;gap:10px;align-items:baseline;flex-wrap:wrap;margin-bottom:6px}
.unit{color:var(--soft);font-size:13px;margin-right:auto}
.key{font-size:13px;color:var(--soft);display:inline-flex;align-items:center;gap:6px}
.key i{width:16px;height:0;border-top:3px solid;border-radius:2px}
i.one{color:var(--one)}i.two{color:var(--two)}i.three{color:var(--three)}i.four{color:var(--four)}
svg{display:block;width:100%;height:auto}
.grid line{stroke:var(--line)}.grid text{fill:var(--soft);font-size:11.5px}
polyline{fill:none;stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}
polyline.one,polyline.faint{stroke:var(--one)}polyline.two{stroke:var(--two)}
polyline.three{stroke:var(--three)}polyline.four{stroke:var(--four)}
polyline.faint{opacity:.28;stroke-width:1.2}
circle.one{fill:var(--one)}circle.two{fill:var(--two)}circle.three{fill:var(--three)}
circle.four{fill:var(--four)}
.empty{color:var(--soft);padding:60px 0;text-align:center}
.bar{display:flex;height:34px;border-radius:8px;overflow:hidden;gap:2px;margin:4px 0 14px}
.bar i{display:block;min-width:2px}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:7px 10px 7px 0;border-top:1px solid var(--line);vertical-align:top}
tr:first-child td,tr:first-child th{border-top:0}
td.n{text-align:right;white-space:nowrap}td.half{width:50%}
.bytes{max-width:560px}
th{font-weight:600;font-size:13px;color:var(--soft)}
.swatch{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:9px}
pre{margin:0;padding:14px 16px;background:var(--code);border-radius:8px;overflow-x:auto;
white-space:pre-wrap;overflow-wrap:anywhere;
font:12.5px/1.55 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
summary{cursor:pointer;font-weight:600}details[open] summary{margin-bottom:12px}
footer{color:var(--soft);font-size:13px;margin-top:36px}
)";

// The rows, by what is drawn of them.
struct Curves {
  Points loss, rate, tokens, valid_loss;
  std::map<std::string, Points> metrics;
  int64_t step = 0;
  double epoch = 0, seconds = 0;
};

Curves read_curves(const std::string& text) {
  Curves c;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("event") || !row.contains("step")) continue;
    const int64_t step = row["step"].get<int64_t>();
    auto add = [&](Points& to, const char* key) {
      if (auto v = row.find(key); v != row.end() && v->is_number()) to.emplace_back(step, *v);
    };
    if (row["event"] == "step") {
      add(c.loss, "loss");
      add(c.rate, "lr");
      add(c.tokens, "tokens_per_s");
    } else if (row["event"] == "valid") {
      add(c.valid_loss, "loss");
      for (const auto& [key, value] : row.items()) {
        if (key == "event" || key == "step" || key == "epoch" || key == "loss") continue;
        add(c.metrics[key], key.c_str());
      }
    }
    c.step = std::max(c.step, step);
    if (row.contains("epoch") && row["epoch"].is_number()) {
      c.epoch = std::max(c.epoch, row["epoch"].get<double>());
    }
  }
  return c;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char ch) { return char(std::toupper(ch)); });
  return text;
}

std::string fixed(double v, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", digits, v);
  return text;
}

std::string tile(const std::string& value, const std::string& label) {
  return "<div class=\"card tile\"><b>" + escape_html(value) + "</b><span>" + escape_html(label) +
         "</span></div>";
}

// Error rates are better low; everything else that tasks report is better high.
double best_of(const std::string& name, const Points& points) {
  auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
  return name == "wer" || name == "cer"
             ? std::min_element(points.begin(), points.end(), by_value)->second
             : std::max_element(points.begin(), points.end(), by_value)->second;
}

double mean(const Points& points) {
  double sum = 0;
  for (auto& p : points) sum += p.second;
  return points.empty() ? 0 : sum / double(points.size());
}

std::string tiles(const RunReport& r, const Curves& c) {
  std::string out = "<section class=\"tiles\">";
  for (const auto& [name, value] : r.test) {
    out += name == "loss" ? tile(fixed(value, 3), "test loss, nats a word")
                          : tile(fixed(value, 2), "test " + upper(name));
  }
  for (const auto& [name, points] : c.metrics) {
    if (!points.empty()) out += tile(fixed(best_of(name, points), 2), "best valid " + upper(name));
  }
  if (!c.valid_loss.empty()) {
    out += tile(fixed(c.valid_loss.back().second, 3), "last valid loss, nats a word");
  }
  out += tile(short_number(double(c.step), 7), "updates, " + fixed(c.epoch, 2) + " epochs");
  if (!c.tokens.empty()) out += tile(short_number(mean(c.tokens)), "tokens a second, mean");
  out += tile(format_bytes(r.arena_bytes), "planned for a step, all included");
  return out + "</section>";
}

std::string charts(const Curves& c) {
  Chart loss{.title = "Loss", .unit = "nats a word, by step", .series = {}};
  const Points train = thinned(c.loss, kPoints);
  if (train.size() > 40) {
    loss.series.push_back({"", "faint", train});
    const double window = double(train.size()) / 25;
    loss.series.push_back({"training, smoothed", "one", smoothed(train, window)});
  } else {
    loss.series.push_back({"training", "one", train});
  }
  loss.series.push_back({"validation", "two", thinned(c.valid_loss, kPoints),
                         c.valid_loss.size() <= 60});
  std::string out = "<section class=\"charts\">" + chart_html(loss);

  Chart metric{.title = "Validation", .unit = "by step", .series = {}};
  const char* styles[] = {"three", "four", "two"};
  for (const auto& [name, points] : c.metrics) {
    const bool alone = c.metrics.size() == 1;
    if (alone) metric.title = upper(name), metric.unit = "on validation data, by step";
    metric.series.push_back({alone ? "" : upper(name),
                             styles[metric.series.size() % 3], thinned(points, kPoints),
                             points.size() <= 60});
  }
  out += chart_html(metric);
  out += chart_html({.title = "Learning rate", .unit = "by step",
                     .series = {{"", "four", thinned(c.rate, kPoints)}}, .from_zero = true});
  out += chart_html({.title = "Throughput", .unit = "source and target tokens a second, by step",
                     .series = {{"", "one", thinned(c.tokens, kPoints)}}, .from_zero = true});
  return out + "</section>";
}

std::string colour(size_t i) {
  static constexpr const char* colours[] = {"#3b78e7", "#e8871e", "#17a07c", "#9a5de0", "#d9477a",
                                            "#0fa3b8", "#b5a21b", "#7a8798", "#c2593f", "#5b9c36"};
  return colours[i % std::size(colours)];
}

std::string words(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string footprint(const RunReport& r) {
  auto parts = r.bytes;
  std::sort(parts.begin(), parts.end(), [](auto& a, auto& b) { return a.second > b.second; });
  if (const int64_t lost = r.arena_bytes - r.lower_bound_bytes; lost > 0) {
    parts.emplace_back("lost to packing", lost);
  }
  std::string bar = "<div class=\"bar\">", table = "<table class=\"bytes\">";
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [name, bytes] = parts[i];
    const double share = 100.0 * double(bytes) / double(std::max<int64_t>(1, r.arena_bytes));
    const std::string label = words(name) + ", " + format_bytes(bytes);
    bar += "<i style=\"flex:" + fixed(share, 3) + ";background:" + colour(i) + "\" title=\"" +
           escape_html(label) + "\"></i>";
    table += "<tr><td><span class=\"swatch\" style=\"background:" + colour(i) + "\"></span>" +
             escape_html(words(name)) + "</td><td class=\"n\">" + format_bytes(bytes) +
             "</td><td class=\"n\">" + fixed(share, 1) + "&thinsp;%</td></tr>";
  }
  return "<h2>Memory: the largest step at its peak, " + format_bytes(r.arena_bytes) +
         "</h2><div class=\"card\">" + bar + "</div>" + table + "</table></div>";
}

std::string preformatted(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return "<pre>" + escape_html(text) + "</pre>";
}

std::string samples(const RunReport& r) {
  if (r.samples.empty()) return "";
  std::string out = "<h2>Samples of " + std::string(r.test.empty() ? "validation" : "test") +
                    " data</h2><div class=\"card\"><table><tr><th>source</th><th>output</th></tr>";
  for (const auto& [source, output] : r.samples) {
    out += "<tr><td class=\"half\">" + escape_html(source) + "</td><td>" + escape_html(output) +
           "</td></tr>";
  }
  return out + "</table></div>";
}

}  // namespace

std::string report_html(const RunReport& r, const std::string& metrics) {
  const Curves curves = read_curves(metrics);
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>" +
      escape_html(r.name) + " &middot; Palimpsest</title><style>" + kStyle +
      "</style></head><body><main><header><h1>" + escape_html(r.name) +
      "</h1><span class=\"state\">" +
      escape_html(r.state == "training" || r.state == "interrupted" ? r.state
                                                                    : "ended: " + words(r.state)) +
      "</span></header>\n";
  for (const std::string& line : r.described) {
    out += "<p class=\"soft\">" + escape_html(line) + "</p>";
  }
  out += tiles(r, curves) + "\n<h2>Training</h2>" + charts(curves) + "\n" + samples(r) + "\n" +
         footprint(r) + "\n<h2>The plan, and what each pass did</h2><div class=\"card\">" +
         preformatted(r.plan) + "</div>\n<h2>Configuration</h2><details class=\"card\"><summary>" +
         "Every option of this run</summary>" + preformatted({r.config}) +
         "</details>\n<footer>Written by Palimpsest. All figures are of this run, from "
         "metrics.jsonl and plan.json beside this page.</footer></main></body></html>\n";
  return out;
}

void save_report(const std::filesystem::path& folder, const RunReport& report) {
  std::ifstream in(folder / "metrics.jsonl", std::ios::binary);
  std::ostringstream metrics;
  metrics << in.rdbuf();
  const std::string page = report_html(report, metrics.str());
  AtomicFile out((folder / "report.html").string());
  out.write(page.data(), page.size());
  out.commit();
}

}  // namespace pal
